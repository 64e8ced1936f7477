/**
 * A batch as NDJSON: one event a line, read line by line as it comes. What the lines say becomes the body
 * that a JSON batch would have had, so that the same schema judges it and the same handler takes it; only
 * its faults are named by their lines.
 */
import type { MiddlewareHandler } from "hono";
import { readAtMost } from "./body-bytes.ts";
import type { ApiEnv } from "./context.ts";
import { MAX_BATCH } from "./event-schema.ts";
import { parseExactly } from "./exact-json.ts";
import type { FieldError } from "./field-errors.ts";
import { becomeJson } from "./json-body.ts";
import { parseJson } from "./json-text.ts";
import { type Line, lineCutter } from "./lines.ts";
import { invalid, problem, answered } from "./problems.ts";

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
