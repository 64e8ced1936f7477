/** Lines are cut the same however the bytes arrive. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Line, lineCutter } from "../../src/http/ndjson.ts";

const bytesOf = (text: string) => new TextEncoder().encode(text);
const textOf = (bytes: Uint8Array | undefined) => bytes && new TextDecoder().decode(bytes);

function linesOf(chunks: readonly Uint8Array[], maxBytes = 1000): Line[] {
  const lines: Line[] = [];
  const { cut, end } = lineCutter(maxBytes, (line) => lines.push(line));
  for (const chunk of chunks) cut(chunk);
  end();
  return lines;
}

const shown = (lines: readonly Line[]) => lines.map(({ number, bytes }) => [number, textOf(bytes)]);

describe("lines", () => {
  it("are numbered from 1, blank ones included, and blank ones are skipped", () => {
    expect(shown(linesOf([bytesOf("a\n\n \t\r\nb\r\n  c\n")]))).toEqual([
      [1, "a"],
      [4, "b\r"],
      [5, "  c"],
    ]);
  });

  it.each([[""], ["\n"], ["\r\n\n  "]])("of %j are none", (text) => {
    expect(linesOf([bytesOf(text)])).toEqual([]);
  });

  it("need no line end after the last", () => {
    expect(shown(linesOf([bytesOf("a\nb")]))).toEqual([
      [1, "a"],
      [2, "b"],
    ]);
  });

  it("that are too long are counted but not stored", () => {
    expect(linesOf([bytesOf("abcd\nabc\nabcde")], 3)).toEqual([
      { number: 1, size: 4 },
      { number: 2, size: 3, bytes: bytesOf("abc") },
      { number: 3, size: 5 },
    ]);
  });

  it("are the same however they are chunked", () => {
    const bytes = fc
      .array(fc.constantFrom(..."ab é\r\n\n\n"), { maxLength: 60 })
      .map((chars) => bytesOf(chars.join("")));
    const cuts = fc.array(fc.nat(70), { maxLength: 10 });
    fc.assert(
      fc.property(bytes, cuts, (whole, at) => {
        const edges = [
          0,
          ...at.map((edge) => Math.min(edge, whole.length)).sort((a, b) => a - b),
          whole.length,
        ];
        const chunks = edges.slice(1).map((edge, i) => whole.subarray(edges[i], edge));
        expect(linesOf(chunks, 12)).toEqual(linesOf([whole], 12));
        const expected = new TextDecoder()
          .decode(whole)
          .split("\n")
          .flatMap((text, i) => (/^[ \t\r]*$/.test(text) ? [] : [[i + 1, text]]));
        expect(shown(linesOf(chunks))).toEqual(expected);
      }),
    );
  });
});
