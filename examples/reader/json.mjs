// Section 3: JSON as this format has it, read and written.
//
// A text here is a sequence of code points, lone surrogates included, which a JavaScript string cannot tell apart: to it
// U+D83D U+DE00 and U+1F600 are one. So a text is held as its bytes, in a string of one character a byte ("binary"
// string): UTF-8, with three bytes for a surrogate. Such strings are ordered as their code points are.
//
// An object is a Map, an integer a BigInt, any other number an OtherNumber.

import { corrupt, demand } from "./failure.mjs";

const MAX_DEPTH = 64;
const MAX_DIGITS = 4300;
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const PLAIN = /[^"\\\x00-\x1f]*/y;
const SHORT = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };

/** A number that is no integer as section 3 writes one: `1.0` and `1e2` too. */
export class OtherNumber {}

export const binary = (buffer) => buffer.toString("latin1");
export const bytes = (text) => Buffer.from(text, "latin1");

/** Bytes in UTF-8, where a surrogate may be its three bytes; a binary string. */
export function decodeUtf8(buffer, what) {
  const text = binary(buffer);
  const rest = text.replace(UTF8, "");
  demand(rest === "", `${what} is not UTF-8`);
  return text;
}
const UTF8 =
  /[\x00-\x7f]+|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xef][\x80-\xbf]{2}|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}/g;

/** The JSON object in a buffer; `mostKeys` bounds the outermost one. */
export function parseObject(buffer, what, mostKeys = Infinity) {
  const text = decodeUtf8(buffer, what);
  const at = { text, pos: 0, what, mostKeys };
  const value = readValue(at, 1);
  space(at);
  demand(at.pos === text.length, `${what} has something after its JSON`);
  demand(value instanceof Map, `${what} is no JSON object`);
  return value;
}

function space(at) {
  while (" \t\n\r".includes(at.text[at.pos] ?? "x")) at.pos += 1;
}

function wrong(at) {
  return corrupt(`${at.what} is not JSON at byte ${at.pos}`);
}

function expect(at, character) {
  space(at);
  if (at.text[at.pos] !== character) throw wrong(at);
  at.pos += 1;
}

function next(at, character) {
  space(at);
  if (at.text[at.pos] !== character) return false;
  at.pos += 1;
  return true;
}

function readValue(at, depth) {
  space(at);
  const first = at.text[at.pos];
  if (first === "{" || first === "[") {
    demand(depth <= MAX_DEPTH, `${at.what} is too deep`);
    at.pos += 1;
    return first === "{" ? readMap(at, depth) : readList(at, depth);
  }
  if (first === '"') return readString(at);
  for (const [word, value] of [["true", true], ["false", false], ["null", null]]) {
    if (at.text.startsWith(word, at.pos)) {
      at.pos += word.length;
      return value;
    }
  }
  NUMBER.lastIndex = at.pos;
  const found = NUMBER.exec(at.text);
  if (!found) throw wrong(at);
  at.pos = NUMBER.lastIndex;
  if (found[1] || found[2]) return new OtherNumber();
  demand(found[0].length <= MAX_DIGITS, `${at.what} has a number that is too long`);
  return BigInt(found[0]);
}

function readMap(at, depth) {
  const map = new Map();
  if (next(at, "}")) return map;
  do {
    space(at);
    const key = readString(at);
    demand(!map.has(key), `${at.what} has a key twice`);
    demand(depth > 1 || map.size < at.mostKeys, `${at.what} has more keys than it should`);
    expect(at, ":");
    map.set(key, readValue(at, depth + 1));
  } while (next(at, ","));
  expect(at, "}");
  return map;
}

function readList(at, depth) {
  const list = [];
  if (next(at, "]")) return list;
  do list.push(readValue(at, depth + 1));
  while (next(at, ","));
  expect(at, "]");
  return list;
}

function readString(at) {
  if (at.text[at.pos] !== '"') throw wrong(at);
  at.pos += 1;
  const out = [];
  for (;;) {
    PLAIN.lastIndex = at.pos;
    out.push(PLAIN.exec(at.text)[0]);
    at.pos = PLAIN.lastIndex;
    const mark = at.text[at.pos];
    if (mark === '"') {
      at.pos += 1;
      return out.join("");
    }
    if (mark !== "\\") throw wrong(at);
    const letter = at.text[at.pos + 1];
    if (letter === "u") {
      out.push(encode(readEscape(at)));
    } else {
      if (!Object.hasOwn(SHORT, letter ?? "")) throw wrong(at);
      out.push(SHORT[letter]);
      at.pos += 2;
    }
  }
}

/** A code point that is written `\uXXXX`, or as two such where they are a high and a low surrogate. */
function readEscape(at) {
  const unit = readUnit(at);
  if (unit < 0xd800 || unit > 0xdbff || !at.text.startsWith("\\u", at.pos)) return unit;
  const before = at.pos;
  const low = readUnit(at);
  if (low >= 0xdc00 && low <= 0xdfff) return 0x10000 + (unit - 0xd800) * 0x400 + (low - 0xdc00);
  at.pos = before;
  return unit;
}

function readUnit(at) {
  const digits = at.text.slice(at.pos + 2, at.pos + 6);
  if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw wrong(at);
  at.pos += 6;
  return parseInt(digits, 16);
}

function encode(point) {
  if (point < 0x80) return String.fromCharCode(point);
  const tail = (shift) => 0x80 | ((point >> shift) & 0x3f);
  if (point < 0x800) return String.fromCharCode(0xc0 | (point >> 6), tail(0));
  if (point < 0x10000) return String.fromCharCode(0xe0 | (point >> 12), tail(6), tail(0));
  return String.fromCharCode(0xf0 | (point >> 18), tail(12), tail(6), tail(0));
}

/** The canonical JSON of a value, as a binary string. Throws a TypeError at a number that has none. */
export function canonical(value) {
  if (typeof value === "string") return quote(value);
  if (typeof value === "bigint" || typeof value === "boolean" || value === null) return String(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value instanceof Map) {
    const keys = [...value.keys()].sort((a, b) => (a < b ? -1 : 1));
    return `{${keys.map((key) => `${quote(key)}:${canonical(value.get(key))}`).join(",")}}`;
  }
  throw new TypeError("a number that is no integer has no canonical form");
}

const SPECIAL = /["\\\x00-\x1f]|(?:\xed[\xa0-\xbf][\x80-\xbf])+/g;
const NAMED = { '"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r" };

function quote(text) {
  return `"${text.replace(SPECIAL, (found) => {
    if (found.length === 1) return NAMED[found] ?? hexEscape(found.charCodeAt(0));
    const out = [];
    let afterHigh = false; // rule 6
    for (let n = 0; n < found.length; n += 3) {
      const unit = surrogateAt(found, n);
      const high = unit < 0xdc00;
      out.push(!high && afterHigh ? found.slice(n, n + 3) : hexEscape(unit));
      afterHigh = high;
    }
    return out.join("");
  })}"`;
}

const surrogateAt = (text, n) => 0xd000 | ((text.charCodeAt(n + 1) & 0x3f) << 6) | (text.charCodeAt(n + 2) & 0x3f);
const hexEscape = (unit) => `\\u${unit.toString(16).padStart(4, "0")}`;

/** Section 6, spelling of names: each lone surrogate as six characters. */
export function spelled(name) {
  return name.replace(/\xed[\xa0-\xbf][\x80-\xbf]/g, (found) => hexEscape(surrogateAt(found, 0)));
}
