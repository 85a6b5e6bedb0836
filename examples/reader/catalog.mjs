// Section 8: the catalogue, page by page.

import { Failure, demand } from "./failure.mjs";
import { parseObject } from "./json.mjs";
import { decodeBase64, gunzip, sha256 } from "./payload.mjs";
import { areStrings, isCount, isDigest } from "./snapshot.mjs";
import { compareIds, isId, isTimed } from "./vault.mjs";

const MAX_SIZE = 16 * 2 ** 20;
const MAX_VALUES = 500_000;
// Page files: how many, and how many times as much all pages together may hold.
const MAX_FILES = 64;
const IN_FILES = 4;
const PAGE = /^([1-9][0-9]{0,7}):([1-9][0-9]{0,5}):(.*)$/s;
const SINGLE = /^([0-9]{1,8}):(.*)$/s;

const isText = (value) => typeof value === "string";
const isTextOrNull = (value) => isText(value) || value === null;
const isFlag = (value) => typeof value === "boolean";
const ROW = [
  ...[isCount, isId, isText, isTextOrNull, isCount, isCount, isText, isFlag, isTextOrNull],
  ...[isText, isCount, (value) => isTextOrNull(value) || value === true, isFlag, isTextOrNull],
];
const MORE = [isTextOrNull, areStrings, Array.isArray, (value) => areStrings(value) && value.every(isId)];

/** Digests of the manifests that a pointer's catalogue lists, by id. What is not what it should be ends it. */
export function readCatalog(raw, { vault, label, warn }) {
  const rows = new Map();
  const catalog = raw.get("catalog");
  try {
    if (isText(catalog)) readSingle(catalog, rows);
    else if (Array.isArray(catalog)) {
      const sum = { size: 0, values: 0, oldest: null, place: 0 };
      readPages(catalog, rows, sum, 1);
      for (const file of namedFiles(raw.get("older") ?? [], label)) readPages(readFile(vault, label, file), rows, sum, IN_FILES);
    }
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    warn(error.message);
  }
  return rows;
}

/** The page files that a pointer names, one by one: what is wrong with one shows when it is its turn. */
function* namedFiles(older, label) {
  demand(Array.isArray(older), "older is no list");
  for (const [place, file] of older.entries()) {
    const [name, pages] = [file?.get?.("file"), file?.get?.("pages")];
    const [head, id, seq] = isText(name) && name.startsWith(`cmem.${label}.`) ? [label, ...name.split(".").slice(2)] : [];
    const good = place < MAX_FILES && head !== undefined && name === `cmem.${label}.${id}.${seq}.json`;
    demand(good && isId(id) && /^c(0|[1-9][0-9]{0,5})$/.test(seq), "older names what is no page file");
    demand(older.findIndex((other) => other.get("file") === name) === place, "older names a page file twice");
    demand(isDigest(file.get("sha256")) && isId(file.get("newest")) && isCount(pages) && pages > 0n, `${name} is told wrongly`);
    yield { name, sha256: file.get("sha256"), pages };
  }
}

function readFile(vault, label, file) {
  const data = vault.read(file.name);
  demand(data !== null && sha256(data) === file.sha256, `${file.name} is not the page file that the pointer names`);
  const raw = parseObject(data, file.name);
  const pages = raw.get("pages");
  const good = raw.get("format") === "colony-memory/pages/1" && raw.get("label") === label && Array.isArray(pages);
  demand(good && BigInt(pages.length) === file.pages, `${file.name} is no page file of ${label}`);
  return pages;
}

function readPages(pages, rows, sum, times) {
  for (const text of pages) {
    sum.place += 1;
    const what = `page ${sum.place} of the catalogue`;
    const [, bytes, marks, blob] = PAGE.exec(isText(text) ? text : "") ?? [];
    demand(bytes !== undefined, `${what} is no page`);
    sum.size += Number(bytes);
    sum.values += Number(marks);
    demand(sum.size <= times * MAX_SIZE && sum.values <= times * MAX_VALUES, `${what} is too large`);
    const plain = gunzip(decodeBase64([blob], what), Number(bytes), what);
    demand(countValues(plain) === Number(marks), `${what} holds another number of values than it says`);
    const found = readRows(plain, what);
    demand(found.length > 0, `${what} has no rows`);
    for (const [id] of found) {
      demand(sum.oldest === null || compareIds(id, sum.oldest) < 0, `${what} is not in order`);
      sum.oldest = id;
    }
    for (const [id, digest] of found) rows.set(id, digest);
  }
}

function readSingle(text, rows) {
  const [, size, blob] = SINGLE.exec(text) ?? [];
  demand(size !== undefined && Number(size) <= MAX_SIZE, "the catalogue is no catalogue");
  const plain = gunzip(decodeBase64([blob], "the catalogue"), Number(size), "the catalogue");
  demand(countValues(plain) <= MAX_VALUES, "the catalogue is too large");
  for (const [id, digest] of readRows(plain, "the catalogue")) rows.set(id, digest);
}

const countValues = (plain) => plain.reduce((count, byte) => count + (",:[{".includes(String.fromCharCode(byte)) ? 1 : 0), 0);

function readRows(plain, what) {
  const raw = parseObject(plain, what);
  const [names, rows] = [raw.get("names"), raw.get("snapshots")];
  demand(raw.get("format") === "colony-memory/catalog/1", `${what} is of another format`);
  demand(Array.isArray(names) && names.every(areStrings) && Array.isArray(rows), `${what} has no rows`);
  return rows.map((row, place) => {
    const good = Array.isArray(row) && ROW.every((is, at) => is(row[at])) && row[0] < names.length;
    demand(good && MORE.every((is, at) => row.length <= ROW.length + at || is(row[ROW.length + at])), `${what} has a row that is none`);
    const [id, digest, parts, packs] = [row[1], row[2], row[4], row[ROW.length + 3] ?? []];
    demand(parts <= 1_000_000n && (parts > 0n || row[9] !== "colony-memory/1"), `${what} has a row with a wrong count`);
    demand(packs.length === 0 || packs.at(-1) === id, `${what} has a row with the packs of another snapshot`);
    demand(row[3] !== null || isTimed(id), `${what} has a row without a time`);
    demand(row[11] !== true || isId(rows[place + 1]?.[1]), `${what} has a row above none`);
    return [id, digest];
  });
}
