/**
 * What production code needs of workerd's runtime and Node has not: bytes as hexadecimal. And what Node does in real
 * time, which virtual time must wait for: compression, whose result is read from a response.
 */

/** Results that are being read. */
let reading = 0;

/** Whether something goes on that takes real time. */
export function isBusy(): boolean {
  return reading > 0;
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

Response.prototype.bytes = async function counted(this: Response) {
  reading += 1;
  try {
    return await bytes.call(this);
  } finally {
    reading -= 1;
  }
};
