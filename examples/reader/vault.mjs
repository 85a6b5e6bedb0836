// Sections 2 and 18: names of vault files, and a directory that holds them.

import { constants, closeSync, fstatSync, lstatSync, openSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Failure } from "./failure.mjs";
import { binary, parseObject } from "./json.mjs";

const FAMILY = "colony-memory/vault/";
const LABEL = /^(?!-)[a-z0-9_-]{1,171}(?<!-)$/;
const ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;
const TIMED = /^([0-9]{4})([0-9]{2})([0-9]{2})T([0-9]{2})([0-9]{2})([0-9]{2})[0-9]{6}Z-[0-9a-f]{6}$/;
// What sync services put in the place of a file.
const PLACEHOLDERS = [
  [".", ".icloud"],
  ["", ".nextcloud"],
  ["", ".owncloud"],
  [".syncthing.", ".tmp"],
  ["~syncthing~", ".tmp"],
];

export const isId = (value) => typeof value === "string" && ID.test(value);
export const manifestName = (label, id) => `cmem.${label}.${id}.manifest.json`;
export const pointerName = (label) => `cmem.${label}.latest.json`;
export const fileName = (label, id, letter, seq) => `cmem.${label}.${id}.${letter}${seq}.json`;

/** The label that is meant: without outer white space, in lower case. */
export function foldLabel(given) {
  const label = given.trim().toLowerCase();
  if (!LABEL.test(label)) throw new RangeError(`no label is spelled ${JSON.stringify(given)}`);
  return label;
}

/** Whether an id tells a time. */
export function isTimed(id) {
  const [year, month, day, hour, minute, second] = (TIMED.exec(id) ?? []).slice(1).map(Number);
  if (!year) return false;
  const time = new Date(Date.UTC(2000, month - 1, day, hour, minute, second));
  time.setUTCFullYear(year, month - 1, day);
  const same = [time.getUTCMonth() + 1, time.getUTCDate(), time.getUTCHours(), time.getUTCMinutes(), time.getUTCSeconds()];
  return same.join() === [month, day, hour, minute, second].join();
}

/** Order of ids: those of another form first, then by time. Negative where `a` is older. */
export function compareIds(a, b) {
  const [timedA, timedB] = [isTimed(a), isTimed(b)];
  if (timedA !== timedB) return timedA ? 1 : -1;
  return a < b ? -1 : Number(a > b);
}

/** A directory as a vault. */
export class Directory {
  constructor(path) {
    this.path = path;
    this.names = this.#list();
    this.#checkMarker();
  }

  #list() {
    return readdirSync(this.path, { encoding: "buffer" }).map(binary);
  }

  #checkMarker() {
    const marker = this.#read(".cmem-vault.json");
    const raw = marker && this.#parse(marker);
    const format = raw?.get("format");
    const ours = typeof format === "string" && format.startsWith(FAMILY);
    if (ours && format !== `${FAMILY}1`) {
      throw new Failure("unsupported", `${this.path} is a vault of a later version`);
    }
    if (ours && typeof raw.get("id") === "string") return;
    if (!this.names.some((name) => name.startsWith("cmem."))) {
      throw new Failure("unknown", `${this.path} is no vault`);
    }
    if (marker !== null) console.error(`warning: the marker of ${this.path} is damaged`);
  }

  #parse(marker) {
    try {
      return parseObject(marker, "the marker");
    } catch (error) {
      if (error instanceof Failure) return null;
      throw error;
    }
  }

  /** Ids of the label's manifests, newest first. */
  ids(label) {
    const [head, tail] = [`cmem.${label}.`, ".manifest.json"];
    return this.names
      .filter((name) => name.startsWith(head) && name.endsWith(tail))
      .map((name) => name.slice(head.length, -tail.length))
      .filter((id) => isId(id) && this.#isPlain(manifestName(label, id)))
      .sort((a, b) => compareIds(b, a));
  }

  #isPlain(name) {
    return lstatSync(join(this.path, name), { throwIfNoEntry: false })?.isFile() ?? false;
  }

  /** The bytes of a file, or null where there is none. */
  read(name) {
    const found = this.#read(name);
    if (found === null && PLACEHOLDERS.some(([head, tail]) => this.names.includes(head + name + tail))) {
      throw new Failure("unknown", `${name} is elsewhere: a sync service took it away`);
    }
    return found;
  }

  #read(name) {
    const path = join(this.path, name);
    let file;
    try {
      if (!this.#isPlain(name)) return null;
      file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    } catch (error) {
      if (error.code === "ENOENT") return null;
      throw new Failure("unknown", `${name} cannot be read: ${error.code}`);
    }
    try {
      if (!fstatSync(file).isFile()) return null;
      // What is not UTF-8 stands as U+FFFD; what that breaks is found out by what is checked of the text.
      return Buffer.from(new TextDecoder("utf-8", { ignoreBOM: true }).decode(readFileSync(file)));
    } finally {
      closeSync(file);
    }
  }
}
