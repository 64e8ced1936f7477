import { expect, test } from "vitest";
import { checksumOf } from "../../src/core/crc32.ts";

test("a checksum equals that of gzip", () => {
  expect(checksumOf(new TextEncoder().encode("123456789"))).toBe(0xcbf43926);
  expect(checksumOf(new Uint8Array())).toBe(0);
});
