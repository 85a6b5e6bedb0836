// Section 19: packs, from the base up.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Failure, corrupt, demand } from "./failure.mjs";
import { binary, bytes, canonical, decodeUtf8, parseObject } from "./json.mjs";
import { FILES, RECORD, decodeBase64, sha256 } from "./payload.mjs";
import { areStrings, isCount, isDigest } from "./snapshot.mjs";
import { fileName, isId } from "./vault.mjs";

const FORMAT = "colony-memory/2";
const MAX_PACKS = 64;
const MAX_FILES = 10_000;
const LEAD = Buffer.from([0x50, 0x2a, 0x4d, 0x18]);
const MAX_LEAD = 2 ** 20;
const MIN_PREFIX = 8;
const MAX_WINDOW = 2 ** 27;

/** What section 19 asks of a manifest beyond section 6. */
export function checkChain(raw, id, what, isSealed) {
  const empty = raw.get("doc_names").length + raw.get("part_files").length === 0 && raw.get("part_count") === 0n;
  demand(empty, `${what} has parts or names`);
  const packs = raw.get("packs");
  demand(areStrings(packs) && packs.every(isId), `${what} has no packs`);
  const good = packs.length <= MAX_PACKS && packs.at(-1) === id && new Set(packs).size === packs.length;
  demand(good, `${what} has a chain that is none`);
  const [sizes, levels] = [raw.get("pack_bytes"), raw.get("levels")];
  demand(Array.isArray(sizes) && sizes.length === packs.length, `${what} has no pack_bytes`);
  demand(sizes.every((each) => Array.isArray(each) && each.length && each.every(isCount)), `${what} has no pack_bytes`);
  demand(sizes.flat().length <= MAX_FILES, `${what} has too many files`);
  demand(Array.isArray(levels) && levels.length === packs.length && levels.every(isCount), `${what} has no levels`);
  for (const field of isSealed ? ["on_base"] : ["doc_count", "on_base"]) {
    demand(isCount(raw.get(field)), `${what} has no ${field}`);
  }
  if (isSealed) {
    demand(raw.get("byte_size") === 0n, `${what} tells a size that is to be encrypted`);
    demand(typeof raw.get("sealed") === "string", `${what} has nothing that is encrypted`);
    demand(typeof (raw.get("passphrase_key") ?? "") === "string", `${what} has a passphrase_key that is none`);
  }
  demand(isDigest(raw.get("pack_sha256")), `${what} has no pack_sha256`);
}

/** The documents at the top of a snapshot's chain. */
export function chainMemory(vault, manifest, maxBytes) {
  const { raw, label, size } = manifest;
  const most = 1000 + Math.floor(maxBytes / 256);
  const packs = raw.get("packs").map((id, n) => readPack(vault, label, id, raw.get("pack_bytes")[n]));
  packs.forEach((pack, n) => {
    const below = packs[n - 1] ?? { id: null, digest: null };
    demand(pack.below === below.id && pack.belowDigest === below.digest, `pack ${pack.id} stands on another`);
  });
  demand(packs.at(-1).digest === raw.get("pack_sha256"), "the last pack is another than the manifest says");
  if (manifest.isSealed) {
    decodeBase64([raw.get("sealed")], "what is encrypted in the manifest");
    throw new Failure("encrypted", "every byte is as it was signed or written; to read it needs an identity and age");
  }
  let state = { contents: new Map(), files: new Set() };
  for (const { id, frame } of packs) {
    const run = runOf(state.contents);
    const [prefix, rest] = prefixOf(frame, run, `pack ${id}`);
    const content = decompress(rest, prefix, 3 * maxBytes + 4096, `pack ${id}`);
    state = applied(state, run, content, most, maxBytes, `pack ${id}`);
    const good = state.contents.size <= most && runSize(state.contents) <= maxBytes;
    demand(good, `pack ${id} makes more than this reader takes`);
  }
  const memory = memoryOf(state);
  for (const text of memory.values()) decodeUtf8(bytes(text), "a text");
  const plain = bytes(canonical(memory));
  const same = plain.length === size && sha256(plain) === raw.get("plaintext_sha256");
  demand(same && BigInt(memory.size) === raw.get("doc_count"), "the packs give another memory than the manifest says");
  return memory;
}

function readPack(vault, label, id, sizes) {
  const texts = sizes.map((size, seq) => {
    const name = fileName(label, id, "k", seq);
    const text = vault.read(name);
    if (text === null) throw corrupt(`${name} is missing`);
    demand(BigInt(text.length) === size, `${name} has another size than the manifest says`);
    return { name, text };
  });
  const files = texts.map(({ name, text }) => parseObject(text, name));
  const [below, belowDigest] = [files[0].get("below"), files[0].get("below_sha256")];
  files.forEach((file, seq) => {
    const own = file.get("format") === FORMAT && file.get("pack") === id && file.get("seq") === BigInt(seq);
    const whole = file.get("of") === BigInt(files.length) && typeof file.get("data") === "string";
    const same = file.get("below") === below && file.get("below_sha256") === belowDigest && below !== undefined;
    demand(own && whole && same, `${texts[seq].name} is another file`);
  });
  const frame = decodeBase64(files.map((file) => file.get("data")), `pack ${id}`);
  return { id, below, belowDigest, frame, digest: sha256(Buffer.concat(texts.map(({ text }) => text))) };
}

const ordered = (memory) => [...memory].sort(([a], [b]) => (a < b ? -1 : 1));
const runOf = (contents) => bytes(ordered(contents).map(([name, text]) => `${name}\n${text}`).join(""));

function runSize(contents) {
  let size = 0;
  for (const [name, text] of contents) size += name.length + 1 + text.length;
  return size;
}

/** The documents of a state: the contents that are files stand in the record, in base64. */
function memoryOf({ contents, files }) {
  if (!files.size) return contents;
  const memory = new Map([...contents].filter(([name]) => !files.has(name)));
  const record = memory.get(RECORD) ?? "";
  const start = record.indexOf(FILES);
  const end = start + FILES.length;
  demand(start >= 0 && record[end] === "}", "there are files, and no record that they belong to");
  const spelled = ordered([...contents].filter(([name]) => files.has(name)))
    .map(([name, data]) => `${canonical(name)}:"${bytes(data).toString("base64")}"`);
  return memory.set(RECORD, `${record.slice(0, end)}${spelled.join(",")}${record.slice(end)}`);
}

/** What a frame is compressed against: the run of the state below, or the parts of it that stand before the frame. */
function prefixOf(frame, run, what) {
  if (!frame.subarray(0, 4).equals(LEAD)) return [run, frame];
  demand(frame.length >= 8, `${what} is cut short`);
  const end = 8 + frame.readUInt32LE(4);
  const lead = binary(frame.subarray(8, end));
  demand(end <= frame.length && lead.length <= MAX_LEAD, `${what} says too much of its prefix`);
  const told = lead ? lead.split(" ") : [];
  demand(told.length % 2 === 0 && told.every((each) => /^[0-9]{1,15}$/.test(each)), `${what} has a prefix of nothing`);
  const parts = [];
  let pos = 0;
  for (let n = 0; n < told.length; n += 2) {
    pos += Number(told[n]);
    parts.push(run.subarray(pos, pos + Number(told[n + 1])));
    pos += Number(told[n + 1]);
  }
  demand(pos <= run.length, `${what} has a prefix of more than is below`);
  return [Buffer.concat(parts), frame.subarray(end)];
}

/** What a line says of a content that is put: counts of bytes that follow, places and counts of those below. */
function takesOf(said, run, what) {
  const takes = Array.isArray(said) ? said : [said];
  for (const take of takes) {
    const below = Array.isArray(take) && take.length === 2 && take.every(isCount) && take[1] > 0n;
    demand(below ? take[0] + take[1] <= BigInt(run.length) : isCount(take), `${what} puts what is not there`);
  }
  return takes;
}

/** The state that a pack's content makes of the one below. */
function applied({ contents: below, files: filesBelow }, run, content, most, maxBytes, what) {
  const end = content.indexOf(10);
  demand(end >= 0, `${what} has no first line`);
  const head = content.subarray(0, end);
  let marks = 0;
  for (const byte of head) marks += ",:[{".includes(String.fromCharCode(byte)) ? 1 : 0;
  demand(marks <= 4 * most, `${what} has more in its first line than this reader takes`);
  const line = parseObject(head, `the first line of ${what}`);
  const [drop, move, put] = ["drop", "move", "put"].map((field) => line.get(field));
  const given = line.has("bytes") ? line.get("bytes") : [];
  const known = line.size === (line.has("bytes") ? 4 : 3);
  const good = known && areStrings(drop) && move instanceof Map && put instanceof Map && areStrings(given);
  demand(good && areStrings([...move.values()]), `${what} has another first line`);
  demand(given.every((name) => put.has(name)), `${what} has bytes that it does not put`);
  const gone = [...drop, ...move.keys()];
  const come = [...move.values(), ...put.keys()];
  demand(gone.every((name) => below.has(name)), `${what} takes away what is not there`);
  demand(new Set(gone).size === gone.length && new Set(come).size === come.length, `${what} has a name twice`);
  const [contents, files] = [new Map(below), new Set(filesBelow)];
  for (const name of [...gone, ...come]) {
    contents.delete(name);
    files.delete(name);
  }
  for (const [from, to] of move) {
    contents.set(to, below.get(from));
    if (filesBelow.has(from)) files.add(to);
  }
  for (const name of given) files.add(name);
  let pos = end + 1;
  let left = BigInt(maxBytes);
  for (const [name, said] of ordered(put)) {
    const pieces = takesOf(said, run, what).map((take) => {
      const [at, size] = Array.isArray(take) ? take : [null, take];
      left -= size;
      demand(left >= 0n, `${what} makes more than this reader takes`);
      if (at !== null) return run.subarray(Number(at), Number(at + size));
      const piece = content.subarray(pos, pos + Number(size));
      demand(BigInt(piece.length) === size, `${what} has less text than it says`);
      pos += piece.length;
      return piece;
    });
    contents.set(name, binary(Buffer.concat(pieces)));
  }
  demand(pos === content.length, `${what} has more text than it says`);
  return { contents, files };
}

/** The content of one zstd frame that has a prefix, by the stock command. */
function decompress(frame, prefix, atMost, what) {
  const size = frameSize(frame, what);
  demand(size <= atMost, `${what} holds more than this reader takes`);
  const scratch = mkdtempSync(join(tmpdir(), "reader-"));
  try {
    const [packed, state] = [join(scratch, "frame.zst"), join(scratch, "state")];
    writeFileSync(packed, frame);
    writeFileSync(state, prefix);
    const patch = prefix.length >= MIN_PREFIX ? [`--patch-from=${state}`] : [];
    const done = spawnSync("zstd", ["-d", "-q", "-c", ...patch, packed], { maxBuffer: Number(size) + 65536 });
    if (done.error?.code === "ENOENT") throw new Failure("unsupported", "reading this needs the program zstd");
    demand(!done.error && done.status === 0, `the zstd frame of ${what} is damaged: ${done.stderr ?? ""}`);
    demand(BigInt(done.stdout.length) === size, `the zstd frame of ${what} has another size than it says`);
    return done.stdout;
  } finally {
    rmSync(scratch, { recursive: true });
  }
}

/** The content size that a frame gives (RFC 8878), which has to be one, whole, and alone. */
function frameSize(frame, what) {
  const whole = (good) => demand(good, `${what} is not one whole zstd frame that gives its size`);
  const number = (at, length) => {
    whole(at + length <= frame.length);
    return length ? BigInt(`0x${Buffer.from(frame.subarray(at, at + length)).reverse().toString("hex")}`) : 0n;
  };
  whole(number(0, 4) === 0xfd2fb528n);
  const descriptor = Number(number(4, 1));
  const single = (descriptor >> 5) & 1;
  let pos = 5;
  if (!single) {
    const window = Number(number(pos, 1));
    const base = 2 ** (10 + (window >> 3));
    whole(base + (base / 8) * (window & 7) <= MAX_WINDOW);
    pos += 1;
  }
  pos += [0, 1, 2, 4][descriptor & 3];
  const length = [single, 2, 4, 8][descriptor >> 6];
  whole(length > 0);
  const size = number(pos, length) + (length === 2 ? 256n : 0n);
  whole(!single || size <= MAX_WINDOW);
  pos += length;
  for (let last = false; !last; ) {
    const block = Number(number(pos, 3));
    last = (block & 1) === 1;
    pos += 3 + (((block >> 1) & 3) === 1 ? 1 : block >> 3);
  }
  pos += descriptor & 4 ? 4 : 0;
  whole(pos === frame.length);
  return size;
}
