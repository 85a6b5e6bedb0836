// Sections 2 and 18: names of vault files, and a directory that holds them.

import { constants, closeSync, fstatSync, lstatSync, openSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Failure } from "./failure.mjs";
import { binary, parseObject } from "./json.mjs";

const LABEL = /^(?!-)[a-z0-9_-]{1,171}(?<!-)$/;
const ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;
const TIMED = /^[0-9]{8}T[0-9]{12}Z-[0-9a-f]{6}$/;

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

/** Order of ids: those of another form first, then by time. Negative where `a` is older. */
export function compareIds(a, b) {
  const [timedA, timedB] = [TIMED.test(a), TIMED.test(b)];
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
    if (marker === null && !this.names.some((name) => name.startsWith("cmem."))) {
      throw new Failure("unknown", `${this.path} is no vault`);
    }
    let format;
    try {
      format = marker && parseObject(marker, "the marker").get("format");
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      console.error(`warning: the marker of ${this.path} is damaged`);
    }
    if (typeof format === "string" && format.startsWith("colony-memory/vault/") && !format.endsWith("/vault/1")) {
      throw new Failure("unsupported", `${this.path} is a vault of a later version`);
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
    if (found === null && this.names.includes(`.${name}.icloud`)) {
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
      return fstatSync(file).isFile() ? readFileSync(file) : null;
    } finally {
      closeSync(file);
    }
  }
}
