/**
 * Adds to Node what production code needs of workerd's runtime: bytes as hexadecimal. And counts the operations that
 * take real time, for which virtual time must wait: cryptography, and compression, whose result is read from a
 * response.
 *
 * Modules that production loads with the first delivery that needs them are loaded at once: loading takes real time
 * too.
 */
import "../../src/delivery/access-token.ts";
import "../../src/delivery/archiver.ts";
import "../../src/delivery/group-member.ts";
import "../../src/delivery/kinds/registry.ts";
import "../../src/delivery/transform.ts";

/** The number of operations under way. */
let pending = 0;

/** Whether something that takes real time is under way. */
export function isBusy(): boolean {
  return pending > 0;
}

if (!("toHex" in Uint8Array.prototype)) {
  Object.assign(Uint8Array.prototype, {
    toHex(this: Uint8Array) {
      return Buffer.from(this.buffer, this.byteOffset, this.byteLength).toString("hex");
    },
  });
  Object.assign(Uint8Array, {
    fromHex(hex: string) {
      if (!/^([0-9a-f]{2})*$/i.test(hex)) throw new SyntaxError("Not hexadecimal");
      return new Uint8Array(Buffer.from(hex, "hex"));
    },
  });
}

const { bytes } = Response.prototype;

Response.prototype.bytes = function counted(this: Response) {
  return counting(() => bytes.call(this));
};

const { subtle } = crypto;
for (const name of [
  "importKey",
  "exportKey",
  "deriveBits",
  "sign",
  "verify",
  "digest",
  "encrypt",
  "decrypt",
] as const) {
  const operation: (...args: never[]) => Promise<unknown> = subtle[name].bind(subtle);
  Object.assign(subtle, { [name]: (...args: never[]) => counting(() => operation(...args)) });
}

async function counting<Result>(work: () => Promise<Result>): Promise<Result> {
  pending += 1;
  try {
    return await work();
  } finally {
    pending -= 1;
  }
}
