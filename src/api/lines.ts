/** Bytes cut into lines while they come. A line ends with LF or CRLF; the last one need not end. */
import { joined } from "../core/bytes.ts";

export type Line = Readonly<{
  /** Counted from 1, blank ones too: as an editor shows it. */
  number: number;
  size: number;
  /** Absent when it is longer than a line may be: then it is counted and not kept. */
  bytes?: Uint8Array;
}>;

const LF = 0x0a;
/** What JSON takes for space, and a line of nothing else for blank: tab, CR and space. */
const SPACE = [0x09, 0x0d, 0x20];

/** @param emit gets every line that is not blank, without its LF */
export function lineCutter(maxBytes: number, emit: (line: Line) => void) {
  let number = 1;
  let size = 0;
  let kept: Uint8Array[] = [];

  function add(piece: Uint8Array): void {
    size += piece.byteLength;
    if (size <= maxBytes) kept.push(piece);
    else kept = [];
  }

  function end(): void {
    const bytes = joined(kept);
    if (size > maxBytes) emit({ number, size });
    else if (!isBlank(bytes)) emit({ number, size, bytes });
    number += 1;
    size = 0;
    kept = [];
  }

  function cut(chunk: Uint8Array): void {
    let from = 0;
    for (let at = chunk.indexOf(LF); at >= 0; at = chunk.indexOf(LF, from)) {
      add(chunk.subarray(from, at));
      end();
      from = at + 1;
    }
    add(chunk.subarray(from));
  }

  return { cut, end };
}

function isBlank(bytes: Uint8Array): boolean {
  return bytes.every((byte) => SPACE.includes(byte));
}
