/** Bodies are read from a bundle byte for byte, or not at all. */

import { describe, expect, test } from "vitest";
import { type StoredHeader, storedHeader } from "../../src/core/bundle.ts";
import { readContents } from "../../src/store/bundles.ts";
import { storeBodies } from "../../src/store/commit.ts";

const encoder = new TextEncoder();

const hostile = [
  "",
  "\u0000",
  "\ufeff{}",
  '{"a":"\\ud800"}',
  '{"a":"🦀","b":"\\u0000"}',
  "\u2028\u2029\r\n",
  "é".repeat(1_000),
  JSON.stringify({ lone: "\udfff", nested: ["'; DROP TABLE bundles --", "X'00'"] }),
];

async function stored(bodies: readonly Uint8Array[]): Promise<{ hex: string; header: StoredHeader }> {
  const { hex, ...how } = await storeBodies(bodies);
  const events = bodies.map((body) => ({ tenant: "acme", type: "a", bytes: body.byteLength }));
  return { hex, header: storedHeader(events, how) };
}

const bytesOf = (texts: readonly string[]) => texts.map((text) => encoder.encode(text));

/** Bytes that cannot be compressed. */
const noise = (length: number) => {
  let state = 1;
  return Uint8Array.from({ length }, () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state >> 16;
  });
};

describe("bodies", () => {
  test.each([
    ["one by one", hostile.map((text) => [text])],
    ["together", [hostile]],
    ["together a hundred times", [Array.from({ length: 100 }, (_, i) => hostile[i % hostile.length] ?? "")]],
  ])("come back as they were, %s", async (_how, bundles) => {
    for (const texts of bundles) {
      const bodies = bytesOf(texts);
      const { hex, header } = await stored(bodies);
      expect((await readContents(hex, header))?.map(({ body }) => body.toHex())).toEqual(
        bodies.map((body) => body.toHex()),
      );
    }
  });

  test("are compressed only if that saves bytes", async () => {
    const alike = bytesOf(Array.from({ length: 50 }, (_, i) => JSON.stringify({ type: "invoice.paid", i })));
    const { hex, header } = await stored(alike);
    expect(header.encoding).toBe("gzip");
    expect(hex.length / 2).toBeLessThan(alike.reduce((sum, body) => sum + body.byteLength, 0) / 3);
    expect((await stored([noise(5_000)])).header.encoding).toBe("plain");
    expect((await stored(bytesOf(["{}"]))).header.encoding).toBe("plain");
  });
});

describe("damaged bodies", () => {
  const compressible = bytesOf([JSON.stringify({ text: "x".repeat(2_000) }), "{}"]);
  test.each([
    ["compressed", compressible],
    ["plain", [noise(2_000), ...bytesOf(["{}"])]],
  ])("are null (%s)", async (encoding, bodies) => {
    const { hex, header } = await stored(bodies);
    expect(header.encoding).toBe(encoding === "plain" ? "plain" : "gzip");
    const middle = Math.floor(hex.length / 4) * 2;
    const flipped = hex[middle] === "0" ? "1" : "0";
    const damaged = {
      "cut off": hex.slice(0, middle),
      "without its last byte": hex.slice(0, -2),
      "longer than it was": `${hex}00`,
      "one digit another": `${hex.slice(0, middle)}${flipped}${hex.slice(middle + 1)}`,
      empty: "",
      "no hexadecimal": "zz",
    };
    for (const [how, text] of Object.entries(damaged))
      expect(await readContents(text, header), how).toBeUndefined();
  });

  test("are undefined when the header has other sizes", async () => {
    const { hex, header } = await stored(compressible);
    const other = { ...header, events: [0, 0, 1, 0, 0, 1] };
    expect(await readContents(hex, other)).toBeUndefined();
  });
});
