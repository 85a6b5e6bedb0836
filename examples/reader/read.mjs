#!/usr/bin/env node
// Reads one snapshot of a directory vault, by SNAPSHOT-FORMAT.md alone.
//
//   node read.mjs VAULT LABEL OUT [--id ID] [--issuer did:key:z…[@LAST_ID]]… [--max-bytes N]
//
// OUT is a directory that is not there yet, with a file for each document; or `-`, for the canonical JSON of all of them
// on standard output, which holds any name and any text. Exit codes: 0 read, 2 usage, 3 absent, 4 corrupt, encrypted,
// unsupported or untrusted, 5 unknown.

import { lstatSync, mkdirSync, writeFileSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { Failure } from "./failure.mjs";
import { bytes, canonical } from "./json.mjs";
import { readSnapshot } from "./latest.mjs";
import { publicKey } from "./signature.mjs";
import { Directory, foldLabel, isId } from "./vault.mjs";

const USAGE = "usage: read.mjs VAULT LABEL OUT [--id ID] [--issuer DID[@LAST_ID]]… [--max-bytes N]";
const EXIT = { absent: 3, corrupt: 4, encrypted: 4, unsupported: 4, untrusted: 4, unknown: 5 };

/** What was pinned, as a Map of did:key to the last id that it is trusted for, or null. */
export function readIssuers(given) {
  if (!given?.length) return null;
  return new Map(
    given.map((each) => {
      const [did, last = null] = each.split("@");
      publicKey(did);
      if (last !== null && !isId(last)) throw new RangeError(`${last} is no id`);
      return [did, last];
    }),
  );
}

/** Section 15: a document's name as a path below a directory, or a reason why it is none. */
function refusal(name) {
  const components = name.split("/");
  if (name === "" || name.includes("\0") || name.includes("\\") || name.includes(":")) return "is no path everywhere";
  if (components.some((each) => each === "" || each === "." || each === "..")) return "leads elsewhere";
  // HFS+ passes over some characters, NTFS over what follows and has short names.
  const folded = (each) => each.replace(/\xe2\x80[\x8c-\x8f\xaa-\xae]|\xe2\x81[\xaa-\xaf]|\xef\xbb\xbf/g, "");
  if (components.some((each) => /^(\.git|git~[0-9]+)[ .]*$/i.test(folded(each)))) return "is taken for .git";
  if (components.some((each) => each.length > 255)) return "is too long";
  return null;
}

function write(memory, out) {
  const names = [...memory.keys()];
  for (const name of names) {
    const why = refusal(name) ?? (names.some((each) => each.startsWith(`${name}/`)) ? "is a directory too" : null);
    if (why) throw new RangeError(`${canonical(name)} ${why}: read it with OUT as -`);
  }
  if (lstatSync(out, { throwIfNoEntry: false })) throw new RangeError(`${out} is there already`);
  mkdirSync(out, { mode: 0o700 });
  for (const [name, text] of memory) {
    const path = Buffer.concat([Buffer.from(join(out, "/")), bytes(name)]);
    mkdirSync(bytes(dirname(path.toString("latin1"))), { recursive: true, mode: 0o700 });
    writeFileSync(path, bytes(text), { flag: "wx", mode: 0o600 });
  }
}

function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      id: { type: "string" },
      issuer: { type: "string", multiple: true },
      "max-bytes": { type: "string", default: String(256 * 2 ** 20) },
    },
  });
  const maxBytes = Number(values["max-bytes"]);
  const good = positionals.length === 3 && Number.isSafeInteger(maxBytes) && (values.id === undefined || isId(values.id));
  if (!good) throw new RangeError(USAGE);
  const [path, label, out] = positionals;
  const { id, manifest, memory } = readSnapshot(new Directory(path), {
    label: foldLabel(label),
    id: values.id ?? null,
    issuers: readIssuers(values.issuer),
    maxBytes,
    warn: (message) => console.error(`warning: ${message}`),
  });
  const missing = manifest.raw.get("incomplete") ?? [];
  if (!Array.isArray(missing) || missing.length) console.error("warning: it is incomplete");
  if (out === "-") {
    const data = bytes(canonical(memory));
    for (let done = 0; done < data.length; ) done += writeSync(1, data, done);
  } else {
    write(memory, out);
  }
  console.error(`${id}: ${memory.size} documents`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  try {
    main();
  } catch (error) {
    const usage = error instanceof RangeError || String(error.code).startsWith("ERR_PARSE_ARGS");
    if (!usage && !(error instanceof Failure)) throw error;
    console.error(usage ? error.message : `${error.kind}: ${error.message}`);
    process.exitCode = usage ? 2 : EXIT[error.kind];
  }
}
