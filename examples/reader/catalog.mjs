// Section 8: the catalogue, page by page.

import { Failure, demand } from "./failure.mjs";
import { parseObject } from "./json.mjs";
import { decodeBase64, gunzip } from "./payload.mjs";
import { areStrings, isCount } from "./snapshot.mjs";
import { compareIds, isId, isTimed } from "./vault.mjs";

const MAX_SIZE = 16 * 2 ** 20;
const MAX_VALUES = 500_000;
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

/** Digests of the manifests that a catalogue lists, by id. A page that is not what it should be ends it. */
export function readCatalog(catalog, warn) {
  const rows = new Map();
  try {
    if (isText(catalog)) readSingle(catalog, rows);
    else if (Array.isArray(catalog)) readPages(catalog, rows);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    warn(error.message);
  }
  return rows;
}

function readPages(pages, rows) {
  let [size, values, oldest] = [0, 0, null];
  for (const [place, text] of pages.entries()) {
    const what = `page ${place + 1} of the catalogue`;
    const [, bytes, marks, blob] = PAGE.exec(isText(text) ? text : "") ?? [];
    demand(bytes !== undefined, `${what} is no page`);
    size += Number(bytes);
    values += Number(marks);
    demand(size <= MAX_SIZE && values <= MAX_VALUES, `${what} is too large`);
    const plain = gunzip(decodeBase64([blob], what), Number(bytes), what);
    demand(countValues(plain) === Number(marks), `${what} holds another number of values than it says`);
    const found = readRows(plain, what);
    demand(found.length > 0, `${what} has no rows`);
    for (const [id] of found) {
      demand(oldest === null || compareIds(id, oldest) < 0, `${what} is not in order`);
      oldest = id;
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
