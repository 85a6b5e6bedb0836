// Section 7: did:keys, and Ed25519 signatures.

import { createPublicKey, verify } from "node:crypto";
import { untrusted } from "./failure.mjs";
import { bytes, canonical } from "./json.mjs";

const BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const P = 2n ** 255n - 19n;
const L = 2n ** 252n + 27742317777372353535851937790883648493n;
// The y of a point of order 8; those of the others are its negative, 0, 1 and -1.
const Y8 = 0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n;
const SMALL_ORDER = new Set([0n, 1n, P - 1n, Y8, P - Y8]);

const littleEndian = (buffer) => BigInt(`0x${Buffer.from(buffer).reverse().toString("hex")}`);

/** The 32 bytes of the key that a did:key names. */
export function publicKey(did) {
  const digits = /^did:key:z([1-9A-HJ-NP-Za-km-z]{1,60})$/.exec(did)?.[1];
  if (!digits) throw untrusted("a did:key is malformed");
  let number = 0n;
  for (const digit of digits) number = number * 58n + BigInt(BASE58.indexOf(digit));
  const hex = number.toString(16);
  // 34 bytes that begin with ed 01: a number of exactly 68 digits, and no leading "1".
  if (hex.length !== 68 || !hex.startsWith("ed01") || digits.startsWith("1")) {
    throw untrusted("a did:key is not that of an Ed25519 key");
  }
  const key = Buffer.from(hex.slice(4), "hex");
  const y = littleEndian(key) % 2n ** 255n;
  if (y >= P || SMALL_ORDER.has(y)) throw untrusted("a did:key names a key that signs nothing");
  return key;
}

/** Checks the signature of a manifest or pointer; gives its did:key, or null where there is none. */
export function signerOf(object) {
  const signature = object.get("signature") ?? null;
  if (signature === null) return null;
  if (!(signature instanceof Map)) throw untrusted("the signature is malformed");
  const [alg, did, sig] = ["alg", "key_id", "sig"].map((field) => signature.get(field));
  if (alg !== "ed25519") throw untrusted("the signature is of an unknown kind");
  if (typeof did !== "string" || typeof sig !== "string") throw untrusted("the signature is malformed");
  const key = publicKey(did);
  const raw = Buffer.from(sig, "base64url");
  if (raw.length !== 64 || raw.toString("base64url") !== sig) throw untrusted("the signature is malformed");
  if (littleEndian(raw.subarray(32)) >= L) throw untrusted("the signature is not in its one form");
  const signed = new Map([...object].filter(([field]) => field !== "signature"));
  let message;
  try {
    message = bytes(canonical(signed));
  } catch (error) {
    if (error instanceof TypeError) throw untrusted(`what is signed has no canonical form: ${error.message}`);
    throw error;
  }
  const spki = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), key]);
  if (!verify(null, message, createPublicKey({ key: spki, format: "der", type: "spki" }), raw)) {
    throw untrusted("the signature does not verify");
  }
  return did;
}
