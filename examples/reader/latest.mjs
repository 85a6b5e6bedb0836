// Sections 7, 8 and 11: whom to believe, and which snapshot is the latest.

import { readCatalog } from "./catalog.mjs";
import { Failure, untrusted } from "./failure.mjs";
import { parseObject } from "./json.mjs";
import { signerOf } from "./signature.mjs";
import { areStrings, previousOf, readManifest, readMemory } from "./snapshot.mjs";
import { compareIds, isId, manifestName, pointerName } from "./vault.mjs";

/** The documents of a snapshot, `{id, manifest, memory}`. `issuers`: a Map of did:key to the last id, or null. */
export function readSnapshot(vault, { label, id = null, issuers = null, maxBytes = 256 * 2 ** 20, warn = () => {} }) {
  const reader = { vault, label, issuers, maxBytes, warn };
  return id === null ? readLatest(reader) : readOne(reader, id, () => absent(label));
}

const absent = (label) => new Failure("absent", `there is no such snapshot of ${label}`);

function readOne(reader, id, missing) {
  const manifest = trustedManifest(reader, id, missing);
  const digest = reader.rows?.get(id) ?? null;
  if (reader.rows && isForeign(reader, manifest)) throw untrusted("it is of another history of the label");
  if (digest !== null && manifest.sha256 !== digest) throw untrusted("the manifest is another than the catalogue says");
  return { id, manifest, memory: readMemory(reader.vault, manifest, reader.maxBytes) };
}

function trustedManifest({ vault, label, issuers }, id, missing) {
  const manifest = readManifest(vault, label, id);
  if (manifest === null) throw missing();
  checkIssuer(signerOf(manifest.raw), id, issuers);
  return manifest;
}

function checkIssuer(did, id, issuers) {
  if (!issuers) return;
  if (did === null) throw untrusted("it is not signed");
  if (!issuers.has(did)) throw untrusted(`it is signed by ${did}, who is not trusted`);
  const last = issuers.get(did);
  if (last !== null && compareIds(id, last) > 0) throw untrusted(`it is later than ${did} is trusted for`);
}

/** What the pointer says; null where it is unreadable, undefined where it is missing. */
function readPointer({ vault, label }) {
  const data = vault.read(pointerName(label));
  if (data === null) return undefined;
  let raw;
  try {
    raw = parseObject(data, pointerName(label));
  } catch (error) {
    if (error instanceof Failure) return null;
    throw error;
  }
  const id = raw.get("snapshot_id");
  const file = raw.get("manifest_file");
  if (raw.get("format") !== "colony-memory/latest/1" || raw.get("label") !== label) return null;
  if (!(id === "" && file === "") && !(isId(id) && file === manifestName(label, id))) return null;
  const names = (field) => (isId(raw.get(field)) ? raw.get(field) : null);
  const removed = areStrings(raw.get("removed")) ? raw.get("removed") : [];
  const stream = isStream(raw.get("stream")) ? raw.get("stream") : null;
  return { raw, id, stream, removed, wentBackFrom: names("went_back_from") };
}

function readLatest(reader) {
  const pointer = readPointer(reader);
  if (reader.issuers) return readPinned(reader, pointer);
  if (pointer?.raw.get("signature")) signatureHolds(pointer, reader.warn);
  if (pointer?.id === "") throw absent(reader.label);
  if (pointer?.id) {
    try {
      return readOne(reader, pointer.id, () => new Gone());
    } catch (error) {
      if (!(error instanceof Gone)) throw error;
    }
  }
  reader.warn("the pointer is missing, unreadable, or names what is not there: this is the newest intact snapshot");
  return newestIntact(reader, pointer);
}

class Gone extends Error {}

function signatureHolds(pointer, warn) {
  try {
    return signerOf(pointer.raw);
  } catch (error) {
    if (error?.kind !== "untrusted") throw error;
    warn("the signature of the pointer does not hold");
    return null;
  }
}

/** The newest snapshot that is intact; `believed` is the pointer that tells what was deleted, or null. */
function newestIntact(reader, pointer, believed = pointer) {
  let refused = null;
  let broken = false;
  for (const id of reader.vault.ids(reader.label)) {
    if (believed && tookOut(believed, id)) continue;
    try {
      return readOne(reader, id, () => new Gone());
    } catch (error) {
      const passed = error instanceof Gone || error.kind === "corrupt" || (reader.issuers && error.kind === "untrusted");
      if (!passed) throw error;
      if (error.kind === "untrusted") refused ??= error;
      broken ||= error.kind === "corrupt";
      reader.warn(`${id} is passed over: ${error.message}`);
    }
  }
  if (refused) throw refused;
  if (!broken && (pointer === undefined || pointer?.id === "")) throw absent(reader.label);
  throw new Failure("corrupt", `no snapshot of ${reader.label} is intact`);
}

function tookOut(pointer, id) {
  const back = pointer.wentBackFrom !== null && isNewer(id, pointer.id) && compareIds(id, pointer.wentBackFrom) <= 0;
  return back || pointer.removed.includes(id);
}

const isNewer = (id, than) => than === "" || compareIds(id, than) > 0;

/** The latest for a reader that pins: by a pointer that is proven, else by the newest trusted snapshot. */
function readPinned(reader, pointer) {
  const proven = pointer && isProven(reader, pointer);
  const trusted = trustedManifests(reader);
  if (!proven) {
    const modern = trusted.find((manifest) => (manifest.raw.get("previous") ?? null) !== null);
    if (modern) throw untrusted(`the pointer is not proven; the newest trusted snapshot is ${trusted[0].id}`);
    reader.warn("the pointer is not proven: this is the newest trusted snapshot");
    return newestIntact(reader, pointer, null);
  }
  const rows = readCatalog(pointer.raw, reader);
  const last = reader.issuers.get(pointer.raw.get("signature").get("key_id"));
  for (const id of rows.keys()) if (last !== null && compareIds(id, last) > 0) rows.delete(id);
  reader = { ...reader, rows, stream: pointer.stream };
  checkRollback(pointer, rows, trusted.filter((manifest) => !isForeign(reader, manifest)));
  if (pointer.id === "") throw absent(reader.label);
  try {
    return readOne(reader, pointer.id, () => new Gone());
  } catch (error) {
    if (!(error instanceof Gone)) throw error;
  }
  reader.warn("the pointer names what is not there: this is the newest trusted snapshot");
  return newestIntact(reader, pointer);
}

/** Whether a manifest is of another history of this label than the proven pointer, which does not list it. */
function isForeign({ rows, stream }, manifest) {
  const own = manifest.raw.get("stream");
  return stream !== null && isStream(own) && own !== stream && !rows.has(manifest.id);
}

const isStream = (value) => typeof value === "string" && /^[0-9a-f]{16}$/.test(value);

function isProven(reader, pointer) {
  const did = signatureHolds(pointer, reader.warn);
  if (did === null || !reader.issuers.has(did)) return false;
  const last = reader.issuers.get(did);
  if (last === null) return true;
  // To name nothing is to speak of all that may come, and a key of the past has no say in that.
  const named = [pointer.id, pointer.wentBackFrom].filter((id) => id !== null);
  return named.every((id) => id !== "" && compareIds(id, last) <= 0);
}

function trustedManifests(reader) {
  const out = [];
  for (const id of reader.vault.ids(reader.label)) {
    try {
      out.push(trustedManifest(reader, id, () => new Gone()));
    } catch (error) {
      if (!(error instanceof Gone) && !(error instanceof Failure)) throw error;
      reader.warn(`${id} is not looked at: ${error.message}`);
    }
  }
  return out;
}

function checkRollback(pointer, rows, trusted) {
  for (const manifest of trusted) {
    if (!isNewer(manifest.id, pointer.id) || rows.has(manifest.id)) continue;
    const before = previousOf(manifest)?.get("snapshot_id");
    if (!before || !isNewer(before, pointer.id)) continue;
    if (pointer.wentBackFrom !== null && compareIds(pointer.wentBackFrom, before) >= 0) continue;
    throw untrusted(`the vault was rolled back: ${manifest.id} is newer than what its pointer knows`);
  }
}
