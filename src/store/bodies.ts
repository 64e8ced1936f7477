/**
 * The bodies of a bundle as they are stored: the exact bytes that attempts send, one after the other, compressed
 * where that saves. Hexadecimal on the wire, because D1's is JSON, where a blob would travel as a list of numbers.
 */
import { checksumOf, headersOf, type StoredHeader } from "../core/bundle.ts";
import { joined } from "../core/bytes.ts";

export type StoredBodies = Readonly<{ hex: string }> & Pick<StoredHeader, "encoding" | "checksum">;

/** Below this nothing can be saved: gzip adds 18 bytes of its own. */
const WORTH_COMPRESSING = 128;

export async function storeBodies(bodies: readonly Uint8Array[]): Promise<StoredBodies> {
  const plain = joined(bodies);
  const zipped =
    plain.byteLength < WORTH_COMPRESSING ? plain : await through(plain, new CompressionStream("gzip"));
  return zipped.byteLength < plain.byteLength
    ? { encoding: "gzip", hex: zipped.toHex() }
    : { encoding: "plain", checksum: checksumOf(plain), hex: plain.toHex() };
}

/** The body of each event in order; undefined when what is stored is not what was stored. */
export async function readBodies(hex: string, header: StoredHeader): Promise<Uint8Array[] | undefined> {
  const plain = await plainOf(hex, header);
  const sizes = headersOf(header).map(({ bytes }) => bytes);
  if (!plain || plain.byteLength !== sizes.reduce((sum, size) => sum + size, 0)) return undefined;
  let at = 0;
  return sizes.map((size) => {
    at += size;
    return plain.subarray(at - size, at);
  });
}

async function plainOf(hex: string, { encoding, checksum }: StoredHeader): Promise<Uint8Array | undefined> {
  try {
    const stored = Uint8Array.fromHex(hex);
    if (encoding === "gzip") return await through(stored, new DecompressionStream("gzip"));
    return checksumOf(stored) === checksum ? stored : undefined;
  } catch {
    return undefined;
  }
}

async function through(bytes: Uint8Array, stream: ReadableWritablePair): Promise<Uint8Array> {
  return new Response(new Blob([bytes as Uint8Array<ArrayBuffer>]).stream().pipeThrough(stream)).bytes();
}
