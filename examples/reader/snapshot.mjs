// Sections 4 to 6, and 19: manifests of both formats, and the documents of `colony-memory/1`.

import { chainMemory, checkChain } from "./chain.mjs";
import { Failure, corrupt, demand } from "./failure.mjs";
import { parseObject, spelled } from "./json.mjs";
import { decodeBase64, gunzip, parseMemory, sha256, treeOf } from "./payload.mjs";
import { fileName, isId, manifestName } from "./vault.mjs";

const V1 = "colony-memory/1";
const V2 = "colony-memory/2";
const SEALED = "zstd+age+base64";
const CODECS = { [V1]: ["gzip+base64"], [V2]: ["zstd+base64", SEALED] };
const MAX_FILES = 1_000_000;

export const isCount = (value) => typeof value === "bigint" && value >= 0n && value < 2n ** 53n;
export const areStrings = (value) => Array.isArray(value) && value.every((each) => typeof each === "string");

/** The manifest of an id, bound to its name: `{raw, sha256, id, label, …}`, or null where there is none. */
export function readManifest(vault, label, id) {
  const name = manifestName(label, id);
  const data = vault.read(name);
  return data === null ? null : checkManifest(parseObject(data, name), sha256(data), label, id);
}

function checkManifest(raw, digest, label, id) {
  const what = manifestName(label, id);
  const format = raw.get("format");
  demand(typeof format === "string", `${what} has no format`);
  if (!Object.hasOwn(CODECS, format)) throw new Failure("unsupported", `${what} is of another format`);
  const codec = raw.get("codec");
  demand(typeof codec === "string", `${what} has no codec`);
  if (!CODECS[format].includes(codec)) throw new Failure("unsupported", `${what} has another codec`);
  demand(raw.get("label") === label && raw.get("snapshot_id") === id, `${what} is that of another snapshot`);
  demand(typeof raw.get("created_at") === "string", `${what} has no created_at`);
  const isSealed = codec === SEALED;
  const plain = raw.get("plaintext_sha256");
  demand(isSealed ? plain === "" : isDigest(plain), `${what} has no plaintext_sha256, or one that is encrypted`);
  demand(areStrings(raw.get("doc_names")), `${what} has no doc_names`);
  demand(areStrings(raw.get("part_files")), `${what} has no part_files`);
  for (const field of ["part_count", "byte_size"]) demand(isCount(raw.get(field)), `${what} has no ${field}`);
  const tree = raw.get("tree") ?? null;
  demand(tree === null || isDigest(tree), `${what} has a tree that is none`);
  demand(tree === null || !isSealed, `${what} tells a tree that is to be encrypted`);
  if (format === V1) {
    demand(isCount(raw.get("blob_chars")), `${what} has no blob_chars`);
    checkParts(raw, label, id, what);
  } else {
    checkChain(raw, id, what, isSealed);
  }
  return { raw, sha256: digest, label, id, format, isSealed, size: Number(raw.get("byte_size")) };
}

export const isDigest = (value) => typeof value === "string" && /^sha256:[0-9a-f]{64}$/.test(value);

function checkParts(raw, label, id, what) {
  const [count, files] = [raw.get("part_count"), raw.get("part_files")];
  const good = count >= 1n && count <= MAX_FILES && BigInt(files.length) === count;
  demand(good && files.every((name, seq) => name === fileName(label, id, "p", seq)), `${what} names other parts`);
}

/** `{snapshot_id, manifest_sha256}` of the snapshot before, or null. */
export function previousOf(manifest) {
  const previous = manifest.raw.get("previous");
  if (!(previous instanceof Map)) return null;
  return areStrings([previous.get("snapshot_id"), previous.get("manifest_sha256")]) ? previous : null;
}

/** The documents of a snapshot whose signature has been looked at: a Map of binary strings. */
export function readMemory(vault, manifest, maxBytes) {
  demand(manifest.size <= maxBytes, "the snapshot is larger than this reader takes");
  const memory = manifest.format === V1 ? partsMemory(vault, manifest) : chainMemory(vault, manifest, maxBytes);
  const tree = manifest.raw.get("tree") ?? null;
  demand(tree === null || tree === treeOf(memory), "the manifest tells another tree than that of its documents");
  return memory;
}

function partsMemory(vault, manifest) {
  const { raw, label, id, size } = manifest;
  const slices = raw.get("part_files").map((name, seq) => readPart(vault, name, id, seq));
  const characters = slices.reduce((sum, slice) => sum + slice.length, 0);
  demand(BigInt(characters) === raw.get("blob_chars"), "the parts have not the characters that the manifest says");
  const plain = gunzip(decodeBase64(slices, "the parts"), size, "the payload");
  demand(sha256(plain) === raw.get("plaintext_sha256"), "the payload has another digest than its manifest says");
  const names = raw.get("doc_names");
  const memory = parseMemory(plain, names.length);
  const found = [...memory.keys()].map(spelled).sort();
  demand(found.length === names.length, "the payload has other documents than its manifest says");
  const told = names.map(spelled).sort();
  demand(found.every((name, n) => name === told[n]), "the payload has other documents than its manifest says");
  return memory;
}

function readPart(vault, name, id, seq) {
  const data = vault.read(name);
  if (data === null) throw corrupt(`${name} is missing`);
  const part = parseObject(data, name);
  const good = part.get("format") === V1 && part.get("snapshot_id") === id && part.get("seq") === BigInt(seq);
  demand(good && typeof part.get("b64") === "string", `${name} is another part`);
  return part.get("b64");
}
