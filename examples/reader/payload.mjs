// Section 4: base64, gzip, the memory in it.

import { createHash } from "node:crypto";
import { crc32, inflateRawSync } from "node:zlib";
import { demand } from "./failure.mjs";
import { bytes, canonical, parseObject } from "./json.mjs";

export const RECORD = ".colony-memory/folder.json";
export const FILES = '"files":{';
const FILE = /("(?:[^"\\]|\\.)*"):"([A-Za-z0-9+/=]*)"([,}])/y;
const MAX_MEMBERS = 1000;

export const sha256 = (buffer) => `sha256:${createHash("sha256").update(buffer).digest("hex")}`;

/** Section 6: the digest of names and contents. */
export function treeOf(memory) {
  const { record, files } = filesOf(memory);
  const texts = files.length ? new Map(memory).set(RECORD, record) : memory;
  const digests = [...texts].map(([name, text]) => [name, sha256(bytes(text))]);
  const ofFiles = files.map(([name, data]) => [name, `file:${sha256(data)}`]);
  return sha256(bytes(canonical(new Map([...digests, ...ofFiles]))));
}

/** Section 19: the record without its files, and these; none where that would not give back each letter of it. */
function filesOf(memory) {
  const text = memory.get(RECORD) ?? "";
  const start = text.indexOf(FILES) + FILES.length;
  const files = [];
  const none = { record: text, files: [] };
  if (start < FILES.length) return none;
  for (FILE.lastIndex = start; ; ) {
    const found = FILE.exec(text);
    if (!found) return none;
    const [, spelled, base64, sign] = found;
    const data = Buffer.from(base64, "base64");
    const name = nameOf(spelled);
    const isNext = !files.length || files.at(-1)[0] < name;
    if (name === null || !isNext || memory.has(name) || data.toString("base64") !== base64) return none;
    files.push([name, data]);
    if (sign === "}") return { record: text.slice(0, start) + text.slice(FILE.lastIndex - 1), files };
  }
}

/** A name, null where it is not spelled in canonical JSON. */
function nameOf(spelled) {
  try {
    const name = parseObject(bytes(`{"name":${spelled}}`), "a name").get("name");
    return canonical(name) === spelled ? name : null;
  } catch {
    return null;
  }
}

/** The bytes of standard base64 with padding, cut anywhere. */
export function decodeBase64(slices, what) {
  const text = slices.join("");
  demand(text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text), `the base64 of ${what} is damaged`);
  return Buffer.from(text, "base64");
}

/** What gzip members hold together: exactly `size` bytes. */
export function gunzip(data, size, what) {
  const out = [];
  let pos = 0;
  let left = size;
  for (let members = 0; ; members += 1) {
    while (members > 0 && data[pos] === 0) pos += 1;
    if (members > 0 && pos === data.length) break;
    demand(members < MAX_MEMBERS, `${what} has too many gzip members`);
    pos = skipHeader(data, pos, what);
    const { content, used } = inflate(data.subarray(pos), left, what);
    pos += used;
    demand(pos + 8 <= data.length, `the gzip of ${what} is cut short`);
    demand(data.readUInt32LE(pos) === crc32(content), `the gzip of ${what} is damaged`);
    demand(data.readUInt32LE(pos + 4) === content.length % 2 ** 32, `the gzip of ${what} is damaged`);
    pos += 8;
    left -= content.length;
    out.push(content);
  }
  demand(left === 0, `${what} has not the size that its manifest says`);
  return Buffer.concat(out);
}

function inflate(data, left, what) {
  try {
    const { buffer, engine } = inflateRawSync(data, { maxOutputLength: left + 1, info: true });
    demand(buffer.length <= left, `${what} holds more than its manifest says`);
    return { content: buffer, used: engine.bytesWritten };
  } catch (error) {
    demand(error.code !== "ERR_BUFFER_TOO_LARGE", `${what} holds more than its manifest says`);
    demand(!String(error.code).startsWith("Z_"), `the gzip of ${what} is damaged: ${error.message}`);
    throw error;
  }
}

/** Where the compressed bytes of a member begin (RFC 1952). */
function skipHeader(data, start, what) {
  const good = data.length >= start + 10 && data.readUIntBE(start, 3) === 0x1f8b08 && (data[start + 3] & 0xe0) === 0;
  demand(good, `${what} is not gzip`);
  const flags = data[start + 3];
  let pos = start + 10;
  if (flags & 4) pos += 2 + (data[pos] | (data[pos + 1] << 8));
  for (const flag of [8, 16]) {
    if (flags & flag) {
      const end = data.indexOf(0, pos);
      demand(end >= 0, `the gzip of ${what} is cut short`);
      pos = end + 1;
    }
  }
  if (flags & 2) pos += 2;
  demand(pos <= data.length, `the gzip of ${what} is cut short`);
  return pos;
}

/** The documents in a plain text: a Map of names and texts, both binary strings. */
export function parseMemory(plain, most) {
  const memory = parseObject(plain, "the plain text", most);
  for (const text of memory.values()) demand(typeof text === "string", "the plain text has what is no text");
  return memory;
}
