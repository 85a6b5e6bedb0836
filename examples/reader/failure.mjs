// The classes of failure of section 11.

/** What a reader says when it gives no documents; `kind` is absent, corrupt, encrypted, unsupported, untrusted or unknown. */
export class Failure extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

export const corrupt = (message) => new Failure("corrupt", message);
export const untrusted = (message) => new Failure("untrusted", message);

/** Throws `corrupt` unless the condition holds. */
export function demand(condition, message) {
  if (!condition) throw corrupt(message);
}
