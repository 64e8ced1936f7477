/**
 * A batch of events as NDJSON: one event on each line, cut and parsed while the body arrives. The lines become the
 * body of the equivalent JSON batch, so that the same schema and handler take it. Only the errors differ: they name
 * lines.
 */

import type { MiddlewareHandler } from "hono";
import { joined } from "../core/bundle.ts";
import { parseExactly } from "../core/json-value.ts";
import { atField, type FieldError, summarize } from "../core/result.ts";
import type { ApiEnv } from "./context.ts";
import { parseJson, readAtMost, replaceBody } from "./json-body.ts";
import { invalid, problem } from "./problems.ts";

export const NDJSON = "application/x-ndjson";

const NDJSON_TYPE = /^application\/x-ndjson\s*(;|$)/i;

type Limits = Readonly<{ maxBytes: number; maxLineBytes: number; maxEvents: number }>;

/** Middleware: reads an NDJSON body; a body of another type is left to `otherwise`. */
export function eventLines(limits: Limits, otherwise: MiddlewareHandler<ApiEnv>): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    if (!NDJSON_TYPE.test(c.req.header("content-type") ?? "")) return otherwise(c, next);
    const read = await readLines(c.req.raw, limits);
    const { events, lineNumbers, tooLong, unreadable } = read;
    if (!read.isWhole) return problem(413, `The body is larger than ${limits.maxBytes} bytes.`);
    if (tooLong.length > 0) return problem(413, "An event of the batch is too large", tooLong);
    if (unreadable.length > 0) return problem(400, summarize(unreadable), unreadable);
    if (read.count < 1 || read.count > limits.maxEvents) {
      const expected = `1 to ${limits.maxEvents} events, each on a line of its own`;
      return invalid([atField("body", `has ${read.count === 0 ? "no" : read.count} events`, expected)]);
    }
    c.set("lines", lineNumbers);
    c.set("bodyBytes", read.size);
    replaceBody(c, { events });
    return next();
  };
}

/** The errors of a batch; of an NDJSON batch each with its line instead of the event's index. */
export function withLines(lines: readonly number[] | undefined, errors: readonly FieldError[]): FieldError[] {
  return errors.map((error) => withLine(lines, error));
}

export function withLine(lines: readonly number[] | undefined, { field, ...rest }: FieldError): FieldError {
  const [, event, inner] = /^events\[(\d+)\]\.?(.*)$/s.exec(field) ?? [];
  const line = lines?.[Number(event)];
  return line === undefined ? { field, ...rest } : { line, field: inner || "event", ...rest };
}

async function readLines(request: Request, { maxBytes, maxLineBytes, maxEvents }: Limits) {
  const read = {
    size: 0,
    count: 0,
    events: [] as unknown[],
    lineNumbers: [] as number[],
    tooLong: [] as FieldError[],
    unreadable: [] as FieldError[],
  };
  const take = ({ number: line, size, bytes }: Line) => {
    // Beyond the maximum, lines are only counted.
    if (++read.count > maxEvents) return;
    if (!bytes) return read.tooLong.push(lineError(line, `is ${size} bytes`, `at most ${maxLineBytes}`));
    const parsed = parseJson(bytes, parseExactly, true);
    if (parsed.kind === "fault") return read.unreadable.push(lineError(line, parsed.fault, "a JSON object"));
    read.lineNumbers.push(line);
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

function lineError(line: number, fault: string, expected: string): FieldError {
  return { line, field: "event", fault, expected };
}

export type Line = Readonly<{
  /** From 1, blank lines included, as in an editor. */
  number: number;
  size: number;
  /** Absent when the line is too long: its size is counted, its bytes are dropped. */
  bytes?: Uint8Array;
}>;

const LF = 0x0a;
/** JSON's white space without LF: tab, CR and space. A line of nothing else is blank. */
const SPACE = [0x09, 0x0d, 0x20];

/**
 * Cuts bytes into lines as they arrive. A line ends with LF or CRLF; the last one need not end.
 * @param emit gets every line that is not blank, without its LF
 */
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

/** An answer of one JSON object a line, sent page by page, as fast as the caller reads. */
export function linesOf(pages: AsyncIterable<readonly object[]>, fileName: string): Response {
  const encoder = new TextEncoder();
  const iterator = pages[Symbol.asyncIterator]();
  const body = new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      const { done, value } = await iterator.next();
      if (done) return controller.close();
      controller.enqueue(encoder.encode(value.map((one) => `${JSON.stringify(one)}\n`).join("")));
    },
    cancel: async () => void (await iterator.return?.()),
  });
  return new Response(body, {
    headers: {
      "content-type": "application/x-ndjson",
      "content-disposition": `attachment; filename="${fileName}"`,
    },
  });
}
