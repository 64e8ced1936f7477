/**
 * Transformations in code: a module whose default export is a function of the event. This file has the rules that need
 * no runtime: which modules are accepted, and the meaning of a run's answer. The answer comes from an isolate that the
 * code controls, so nothing in it is trusted.
 */

import { isJsonObject, parsedJson } from "../json-value.ts";
import type { TransformFault, TransformOutput } from "./result.ts";
import { isJsonType } from "./template.ts";

/** Bytes of a module in UTF-8. */
export const MOST_CODE_BYTES = 65_536;
/** CPU that a call may use; the local runtime does not enforce it. */
export const CALL_CPU_MS = 200;
/** How long a call may take. */
export const CALL_MS = 1_000;
/** Characters of an answer: a body of the most bytes that may be sent, and its escapes in JSON. */
export const MOST_ANSWER = 1_000_000;
/** Characters of a result as it is stored: escaped once more, it still is a parameter that D1 takes (2 MB). */
const MOST_STORED = 900_000;
/** Characters of a fault that the code itself has worded. */
const MOST_MESSAGE = 300;

/** The name of the module in stack traces: its lines are those of the code as it was saved. */
export const FUNCTION_MODULE = "function.js";

/** A function's result for one event. */
export type FunctionOutcome =
  | Readonly<{ kind: "made"; made: TransformOutput }>
  /** `stopped`: it was ended from outside, so it may succeed at another time. */
  | Readonly<{ kind: "fault"; fault: TransformFault; stopped: boolean }>
  /** It has not run. */
  | Readonly<{ kind: "unavailable"; fault: TransformFault }>;

/** A call of a tenant's function; it is answered with an outcome for each event, in order. */
export type FunctionCall = Readonly<{
  tenant: string;
  code: string;
  /** The events as JSON texts. None: the module is only loaded, and its fault, if any, is the one answer. */
  events: readonly string[];
}>;

/** Why a module is not accepted; undefined if it is. The runtime decides whether it is JavaScript. */
export function codeFault(code: string): string | undefined {
  if (new TextEncoder().encode(code).byteLength > MOST_CODE_BYTES)
    return `is larger than ${MOST_CODE_BYTES} bytes`;
  if (code.split("\n").some(importsModule)) return "imports a module";
  return /\bexport\s+default\b|\bas\s+default\b/.test(code) ? undefined : "has no default export";
}

/**
 * Reads each character a few times at most. An import that spans lines is left to the runtime, which has no other
 * module.
 */
function importsModule(line: string): boolean {
  const statement = line.trim();
  if (/^import\b(?!\s*\.)/.test(statement)) return true;
  return /^export\s*[*{]/.test(statement) && /\bfrom\s*["']/.test(statement);
}

function fault(text: string, field = "code"): FunctionOutcome {
  return { kind: "fault", fault: { field, fault: text }, stopped: false };
}

/** A call that was ended from outside: by its time, its CPU time or its memory. */
export function functionStopped(text: string): FunctionOutcome {
  return { kind: "fault", fault: { field: "code", fault: text }, stopped: true };
}

export function functionUnavailable(text: string): FunctionOutcome {
  return { kind: "unavailable", fault: { field: "code", fault: text } };
}

/** The outcome in the answer of a run. */
export function outcomeIn(text: string): FunctionOutcome {
  const answer = parsedJson(text);
  if (!isJsonObject(answer)) return fault("returned no result");
  const { thrown, made } = answer;
  if (isJsonObject(thrown)) return thrownOutcome(thrown);
  if (made === undefined) return fault("returned nothing; null cancels the delivery");
  if (made === null) return { kind: "made", made: null };
  if (!isJsonObject(made)) return fault("returned neither an object nor null");
  const unknown = Object.keys(made).find((name) => !PARTS.includes(name));
  if (unknown !== undefined) return fault(`returned an object with ${unknown.slice(0, 100)}; ${EXPECTED}`);
  return madeOutcome(made);
}

const PARTS = ["body", "content_type", "headers", "method", "path"];
const EXPECTED = `expected ${PARTS.join(", ")} only`;

function madeOutcome(returned: Record<string, unknown>): FunctionOutcome {
  const { body, content_type: type, headers = {}, method, path } = returned;
  const texts = { content_type: type, method, path };
  const wrong = Object.entries(texts).find(([, value]) => value !== undefined && typeof value !== "string");
  if (wrong) return fault("is not a text", wrong[0]);
  if (!isJsonObject(headers)) return fault("are not an object", "headers");
  const header = Object.entries(headers).find(([, value]) => typeof value !== "string");
  if (header) return fault("is not a text", `headers.${header[0].slice(0, 100)}`);
  if (body === null)
    return fault("is null; leave it out to send the event, or return null to cancel", "body");
  const contentType = typeof type === "string" ? type : undefined;
  const isJson = isJsonType(contentType ?? "application/json");
  if (typeof body === "string" && isJson && parsedJson(body) === undefined)
    return fault("is a text that is not JSON; set content_type, or return the value itself", "body");
  const made: TransformOutput = {
    ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
    ...(contentType !== undefined && { contentType }),
    headers: headers as Record<string, string>,
    ...(typeof method === "string" && { method }),
    ...(typeof path === "string" && { path }),
  };
  return JSON.stringify(made).length > MOST_STORED
    ? fault(`returns a result of more than ${MOST_STORED} characters`)
    : { kind: "made", made };
}

/** The fault of an error. Its stack is only searched for a place in the code. */
export function thrownOutcome({ message, stack }: Record<string, unknown>): FunctionOutcome {
  const text = typeof message === "string" ? message : "an error without a message";
  const place = new RegExp(`${FUNCTION_MODULE.replace(".", "\\.")}:(\\d{1,6}):(\\d{1,6})`).exec(
    String(stack),
  );
  const line = place ? { line: Number(place[1]), column: Number(place[2]) } : {};
  return {
    kind: "fault",
    fault: { field: "code", fault: `threw ${inOneLine(text)}`, ...line },
    stopped: false,
  };
}

/** In one line: it goes into logs. */
export function inOneLine(text: string): string {
  const line = text.replaceAll(/\p{C}+/gu, " ").trim();
  return line.length > MOST_MESSAGE ? `${line.slice(0, MOST_MESSAGE)}…` : line;
}
