/**
 * A batch as NDJSON: one event a line, read line by line as it comes. What the lines say becomes the body
 * that a JSON batch would have had, so that the same schema judges it and the same handler takes it; only
 * its faults are named by their lines.
 */
import type { MiddlewareHandler } from "hono";
import { joined } from "../core/bundle.ts";
import type { ApiEnv } from "./context.ts";
import { MAX_BATCH } from "./events.ts";
import { becomeJson, parseExactly, parseJson, readAtMost } from "./json-body.ts";
import { answered, type FieldError, invalid, problem } from "./problems.ts";

// §§ Bytes cut into lines while they come. A line ends with LF or CRLF; the last one need not end.

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

export const NDJSON = "application/x-ndjson";

const NDJSON_TYPE = /^application\/x-ndjson\s*(;|$)/i;
const COUNT_EXPECTED = `1 to ${MAX_BATCH} events, each on a line of its own`;

type Bounds = Readonly<{ maxBytes: number; maxLineBytes: number }>;

/** Reads a body of lines; anything else is left to `otherwise`. */
export function eventLines(bounds: Bounds, otherwise: MiddlewareHandler<ApiEnv>): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    if (!NDJSON_TYPE.test(c.req.header("content-type") ?? "")) return otherwise(c, next);
    const read = await readLines(c.req.raw, bounds);
    const { events, numbers, tooLong, unreadable } = read;
    if (!read.isWhole) return problem(413, `The body is larger than ${bounds.maxBytes} bytes.`);
    if (tooLong.length > 0) return problem(413, "An event of the batch is too large", tooLong);
    if (unreadable.length > 0) return problem(400, answered(unreadable), unreadable);
    if (read.count < 1 || read.count > MAX_BATCH) return invalid([miscount(read.count)]);
    c.set("lines", numbers);
    c.set("bodyBytes", read.size);
    becomeJson(c, { events });
    await next();
    return;
  };
}

/** The faults of a batch, each with its line if it came as lines. */
export function byLine(lines: readonly number[] | undefined, faults: readonly FieldError[]): FieldError[] {
  return faults.map(({ field, ...rest }) => {
    const [, event, inner] = /^events\[(\d+)\]\.?(.*)$/s.exec(field) ?? [];
    const line = lines?.[Number(event)];
    return line === undefined ? { field, ...rest } : { line, field: inner || "event", ...rest };
  });
}

async function readLines(request: Request, { maxBytes, maxLineBytes }: Bounds) {
  const read = {
    size: 0,
    count: 0,
    events: [] as unknown[],
    numbers: [] as number[],
    tooLong: [] as FieldError[],
    unreadable: [] as FieldError[],
  };
  const take = ({ number: line, size, bytes }: Line) => {
    // Of more than may be, none is needed: they are counted.
    if (++read.count > MAX_BATCH) return;
    if (!bytes) return read.tooLong.push(fault(line, `is ${size} bytes`, `at most ${maxLineBytes}`));
    const parsed = parseJson(bytes, parseExactly, true);
    if (parsed.kind === "fault") return read.unreadable.push(fault(line, parsed.fault, "a JSON object"));
    read.numbers.push(line);
    return read.events.push(parsed.value);
  };
  const { cut, end } = lineCutter(maxLineBytes, take);
  const isWhole = await readAtMost(request, maxBytes, (chunk) => {
    read.size += chunk.byteLength;
    cut(chunk);
  });
  end();
  return { ...read, isWhole };
}

function fault(line: number, fault: string, expected: string): FieldError {
  return { line, field: "event", fault, expected };
}

function miscount(count: number): FieldError {
  return {
    field: "body",
    fault: count === 0 ? "has no events" : `has ${count} events`,
    expected: COUNT_EXPECTED,
  };
}
