/**
 * Templates in Liquid, by the library liquidjs: an interpreter without `eval`, which the Worker loads with the first
 * event for a destination that has a template. A wrapper bounds it, because its time limit reads a clock that stands
 * still while a Worker computes:
 *
 * - every node that is rendered is a step, more where its text is long, and every operation is charged for the values
 *   that it reads and creates;
 * - only tags and filters that are charged in this way, and that depend only on the event, exist: no clock, no
 *   randomness, no files, no regular expressions over foreign text.
 */

import {
  AssignTag,
  BreakTag,
  CommentTag,
  Context,
  ContinueTag,
  defaultOperators,
  EchoTag,
  type Emitter,
  evalToken,
  ForTag,
  filters,
  IfTag,
  InlineCommentTag,
  Liquid,
  type Template as Node,
  RawTag,
  Tag,
  Tokenizer,
  TokenKind,
  toValueSync,
  UnlessTag,
} from "liquidjs";
import { parsedJson } from "../json-value.ts";
import type { TransformFault, TransformOutput } from "./result.ts";
import { isFormType, isJsonType, type TransformTemplate } from "./template.ts";

/** Nodes rendered for one event at most. */
const MOST_STEPS = 10_000;
/** Characters of a tag that one step covers: a longer one reads and compares more, some of it without a charge. */
const STEP_LENGTH = 64;
/** Characters and elements read and made for one event at most. */
const MOST_WORK = 2_000_000;
const MOST_WRITTEN = 600_000;
/** Comparisons of characters that count as one unit of work. */
const COMPARED = 16;
const FAULT_LENGTH = 200;

/** The facts of an event that a template can read. */
type EventFacts = Readonly<{
  id: string;
  type: string;
  /** ISO 8601. */
  timestamp: string;
  tenant: string;
  data: unknown;
}>;

export type Compiled = Readonly<{
  template: TransformTemplate;
  fill: (event: EventFacts) => TransformOutput;
}>;

/** A fault of a template, or of its result for an event. */
class TemplateError extends Error {
  readonly at: TransformFault;

  constructor(at: TransformFault) {
    super(at.fault);
    this.at = at;
  }
}

/** Thrown by the tag `cancel`. */
class Cancelled extends Error {}

class CancelTag extends Tag {
  override render(): never {
    throw new Cancelled();
  }
}

/** The loop, charged for the elements that it visits. */
class ChargedForTag extends ForTag {
  override *render(ctx: Context, emitter: Emitter): Generator<unknown, never, unknown> {
    ctx.memoryLimit.use(weightOf(yield evalToken(this.collection, ctx)));
    return (yield* super.render(ctx, emitter) as Generator) as never;
  }
}

const TAGS = {
  assign: AssignTag,
  break: BreakTag,
  cancel: CancelTag,
  comment: CommentTag,
  continue: ContinueTag,
  echo: EchoTag,
  for: ChargedForTag,
  if: IfTag,
  raw: RawTag,
  unless: UnlessTag,
  "#": InlineCommentTag,
};

const FILTERS = (
  "abs append at_least at_most base64_encode capitalize ceil compact concat date default divided_by downcase escape first " +
  "floor join json last lstrip map minus modulo plus prepend remove remove_first replace replace_first reverse round " +
  "rstrip size slice sort split strip sum times truncate upcase url_encode where"
).split(" ");

/** The names of tags and filters that a template may use: the documentation lists them. */
export const templateWords = { tags: Object.keys(TAGS), filters: FILTERS };

type Handler = (this: { context: Context }, value: unknown, ...args: unknown[]) => unknown;

/** Filters that copy references to the elements of a list, of any kind. All others read their texts. */
const SHALLOW = new Set("compact concat default first last map reverse size slice where".split(" "));

/** Units of work for an element, for filters that take longer with each than to copy it. */
const WORK: Readonly<Record<string, number>> = { map: 40, sort: 16, where: 100 };

/** The filter, charged for its input; if it searches, for the comparisons too. */
function charged(name: string, handler: Handler): Handler {
  const { [name]: perElement = 1 } = WORK;
  const isSearch = /^(replace|remove|split)/.test(name);
  const weigh = SHALLOW.has(name) ? weightOf : wholeWeightOf;
  return function (value, ...args) {
    const [own = 0, pattern = 0, ...others] = [value, ...args].map(weigh);
    const searched = isSearch ? (own * pattern) / COMPARED : 0;
    this.context.memoryLimit.use(
      others.reduce((sum, one) => sum + one, 1 + own * perElement + pattern + searched),
    );
    if (name === "date" && (value === "now" || value === "today"))
      throw new Error("the time of an attempt is not known to templates; use timestamp");
    return handler.call(this, value, ...args);
  };
}

/** Characters of a text, or elements of a list or an object. */
function weightOf(value: unknown): number {
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null) return 1;
  return Array.isArray(value) ? value.length : Object.keys(value).length;
}

const wholeWeights = new WeakMap<object, number>();

/** The same, with those of all elements. Nothing changes a value once it is made. */
function wholeWeightOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return weightOf(value);
  const known = wholeWeights.get(value);
  if (known !== undefined) return known;
  const whole = Object.values(value).reduce((sum: number, one) => sum + wholeWeightOf(one), weightOf(value));
  wholeWeights.set(value, whole);
  return whole;
}

type Operator = (left: unknown, right: unknown, ctx: Context) => unknown;

/** Comparisons, charged; of two lists only whether they are the same one, as of two objects. */
const operators = {
  ...(defaultOperators as Record<string, Operator>),
  "==": compared((left, right) => left === right, "=="),
  "!=": compared((left, right) => left !== right, "!="),
  contains(left: unknown, right: unknown, ctx: Context) {
    const extra = typeof left === "string" ? (weightOf(left) * weightOf(right)) / COMPARED : 0;
    ctx.memoryLimit.use(weightOf(left) + extra);
    return Array.isArray(left)
      ? left.includes(right)
      : typeof left === "string" && left.includes(String(right));
  },
};

function compared(same: (left: unknown, right: unknown) => boolean, name: "==" | "!="): Operator {
  return (left, right, ctx) => {
    ctx.memoryLimit.use(weightOf(left) + weightOf(right));
    const usual = (defaultOperators as Record<string, Operator>)[name];
    return Array.isArray(left) && Array.isArray(right) ? same(left, right) : usual?.(left, right, ctx);
  };
}

/**
 * @param outputEscape converts each value that a text is filled in with
 * @param whole the filter whose results are filled in unchanged
 */
function engine(outputEscape?: (value: unknown) => string, whole?: string): Liquid {
  const liquid = new Liquid({
    operators: operators as never,
    strictFilters: true,
    ownPropertyOnly: true,
    timezoneOffset: 0,
    locale: "en-US",
    dateFormat: "%Y-%m-%dT%H:%M:%SZ",
    ...(outputEscape && { outputEscape }),
  });
  const all = filters as unknown as Readonly<Record<string, Handler>>;
  const own = Object.fromEntries(
    FILTERS.map((name) => [name, { raw: name === whole, handler: charged(name, all[name] as Handler) }]),
  );
  return Object.assign(liquid, { tags: { ...TAGS }, filters: own });
}

const plain = engine();
/** For paths, queries and forms: what is filled in is percent-encoded. */
const encoding = engine((value) => encodeURIComponent(written(value).toWellFormed()));
/** For JSON that is written as a text: no text that is filled in ends the quotes around it. */
const quoting = engine(
  (value) => (typeof value === "string" ? JSON.stringify(value).slice(1, -1) : written(value)),
  "json",
);

function written(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** The limits of one event: steps, work, and characters written. */
class Budget {
  readonly step = bounded(MOST_STEPS, `takes more than ${MOST_STEPS} steps`);
  readonly memoryLimit = { use: bounded(MOST_WORK, "reads and writes too much") };
  readonly write = bounded(MOST_WRITTEN, `is longer than ${MOST_WRITTEN} characters`);
}

function bounded(most: number, fault: string): (count: number) => void {
  let used = 0;
  return (count) => {
    used += count;
    if (used > most) throw new Error(fault);
  };
}

/** Preserves the type of a value that is the whole text. */
class Written implements Emitter {
  buffer: never = "" as never;
  #parts = 0;
  #value: unknown = "";
  readonly #budget: Budget;

  constructor(budget: Budget) {
    this.#budget = budget;
  }

  write(value: unknown): void {
    const text = written(value);
    this.#budget.write(text.length);
    this.#value = this.#parts === 0 ? value : this.text() + text;
    this.#parts += 1;
  }

  value(): unknown {
    return this.#value ?? null;
  }

  text(): string {
    return written(this.#value);
  }
}

type Filling = (event: EventFacts, budget: Budget) => Written;

/** Throws a `TemplateError` if the text is not Liquid. */
function parsed(liquid: Liquid, text: string, field: string): Filling {
  const nodes = named(field, () => liquid.parse(text) as Node[]);
  const steps = stepsOfNode(text);
  return (event, budget) =>
    named(field, () => {
      const renderLimit = { check: () => budget.step(steps) };
      const limits = { renderLimit, memoryLimit: budget.memoryLimit, liquid };
      const context = new Context(event, liquid.options, {}, limits as never);
      const emitter = new Written(budget);
      toValueSync(liquid.renderer.renderTemplates(nodes, context, emitter) as never);
      return emitter;
    });
}

/** Steps that a node of the text counts as: by its longest tag, because nothing says which node is rendered. */
function stepsOfNode(text: string): number {
  const tags = new Tokenizer(text).readTopLevelTokens().filter(({ kind }) => kind !== TokenKind.HTML);
  return Math.max(1, ...tags.map(({ begin, end }) => Math.ceil((end - begin) / STEP_LENGTH)));
}

/** Returns the result of the work; its errors name the field, and the place in it. */
function named<T>(field: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    const { originalError: cause = error as Error, token } = error as {
      originalError?: Error;
      token?: { getPosition(): [number, number] };
    };
    if (cause instanceof Cancelled) throw cause;
    const fault = cause.message.replace(/(, file:.*)?, line:\d+, col:\d+$/s, "").slice(0, FAULT_LENGTH);
    const [line, column] = token?.getPosition() ?? [];
    throw new TemplateError({ field, fault, line, column });
  }
}

/** The body: JSON whose strings are filled in, or a text. */
function bodyOf(text: string, contentType: string): (event: EventFacts, budget: Budget) => string | null {
  const isJson = isJsonType(contentType);
  const json = isJson ? parsedJson(text) : undefined;
  if (typeof json === "object" && json !== null) {
    const fill = structured(json, "body");
    return (event, budget) => JSON.stringify(fill(event, budget));
  }
  const fill = parsed(isJson ? quoting : isFormType(contentType) ? encoding : plain, text, "body");
  return (event, budget) => {
    const made = fill(event, budget).text();
    if (made.trim() === "") return null;
    if (isJson && parsedJson(made) === undefined)
      throw new TemplateError({ field: "body", fault: "renders text that is not JSON" });
    return made;
  };
}

function structured(value: unknown, at: string): (event: EventFacts, budget: Budget) => unknown {
  if (typeof value === "string") {
    if (!/\{[{%]/.test(value)) return () => value;
    const fill = parsed(plain, value, at);
    return (event, budget) => fill(event, budget).value();
  }
  if (typeof value !== "object" || value === null) return () => value;
  if (Array.isArray(value)) {
    const entries = value.map((entry, index) => structured(entry, `${at}[${index}]`));
    return (event, budget) => entries.map((fill) => fill(event, budget));
  }
  const entries = Object.entries(value).map(
    ([name, one]) => [name, structured(one, `${at}.${name}`)] as const,
  );
  return (event, budget) => Object.fromEntries(entries.map(([name, fill]) => [name, fill(event, budget)]));
}

function fillingsOf(texts: Readonly<Record<string, string>> = {}, field: string, liquid: Liquid) {
  return Object.entries(texts).map(
    ([name, text]) => [name, parsed(liquid, text, `${field}.${name}`)] as const,
  );
}

/** Throws a `TemplateError` at the first fault. */
function compiled(template: TransformTemplate): Compiled {
  const { content_type: contentType = "application/json", method } = template;
  const body = template.body === undefined ? undefined : bodyOf(template.body, contentType);
  const headers = fillingsOf(template.headers, "headers", plain);
  const path = template.path === undefined ? undefined : parsed(encoding, template.path, "path");
  const query = fillingsOf(template.query, "query", encoding);
  const fill = (event: EventFacts): TransformOutput => {
    const budget = new Budget();
    const texts = (fillings: typeof headers) =>
      fillings.map(([name, one]) => [name, one(event, budget).text()] as const);
    const made = body?.(event, budget);
    if (made === null) return null;
    const pairs = texts(query).filter(([, value]) => value !== "");
    return {
      body: made,
      ...(template.content_type !== undefined && { contentType }),
      headers: Object.fromEntries(texts(headers)),
      method,
      path: path?.(event, budget).text(),
      query: pairs.map(([name, value]) => `${encodeURIComponent(name)}=${value}`).join("&"),
    };
  };
  return { template, fill };
}

/** The template, ready to be filled in; or its first fault. */
export function compile(template: TransformTemplate): Compiled | TransformFault {
  try {
    return compiled(template);
  } catch (error) {
    return faultIn(error);
  }
}

export function fillIn(
  { fill }: Compiled,
  event: EventFacts,
): Readonly<{ made: TransformOutput }> | TransformFault {
  try {
    return { made: fill(event) };
  } catch (error) {
    return error instanceof Cancelled ? { made: null } : faultIn(error);
  }
}

/** Other errors than these mean a text that the library cannot process: too deep, or too long. */
function faultIn(error: unknown): TransformFault {
  return error instanceof TemplateError ? error.at : { field: "body", fault: String(error) };
}
