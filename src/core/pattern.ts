/**
 * The patterns that a schema may have, and their search. JavaScript's RegExp backtracks an unknown number of times, so
 * these are matched by following all possibilities at once, one character after the other. The work for a character is
 * at most one visit for each piece of the pattern and each gap between the possible counts.
 *
 * A pattern begins with ^ and is a sequence of characters and classes with their quantifiers, without groups,
 * alternatives and references. Its meaning is that of RegExp with the flag u.
 */

/** A character or a class of them, and how often it is repeated. */
type Piece = Readonly<{
  /** First and last code point of each range, ascending and apart from one another. */
  ranges: readonly number[];
  /** How many must match at least. */
  least: number;
  isOpen: boolean;
  /** The highest count behind which one more may follow; where it is open, it stays there. */
  last: number;
}>;

export type Pattern = Readonly<{
  pieces: readonly Piece[];
  /** Whether it has to reach the end of the text. */
  toEnd: boolean;
}>;

const MAX_PATTERN = 256;

/** A class, an escaped character or class, or a character; then how often. */
const PIECE =
  /(\[\^?(?:\\[dDwWsS\\\][/.*+?^$(){}|-]|[^\][\\])+\]|\\[dDwWsS\\./^$*+?()[\]{}|-]|[^\\^$*+?()[\]{}|])([*+?]|\{\d{1,3}(?:,\d{0,3})?\})?/uy;

/**
 * Pieces of open length, those that may be absent, and characters behind one of open length. They bound how many
 * possibilities are followed at once.
 */
const MOST_OPEN = 1;
const MOST_OPTIONAL = 2;
const MOST_BEHIND = 64;

const LAST = 0x10ffff;
const DIGITS = [0x30, 0x39];
const WORD = [0x30, 0x39, 0x41, 0x5a, 0x5f, 0x5f, 0x61, 0x7a];
const LINE_ENDS = [0x0a, 0x0a, 0x0d, 0x0d, 0x2028, 0x2029];
const SPACES = [
  [0x09, 0x0d, 0x20, 0x20, 0xa0, 0xa0, 0x1680, 0x1680, 0x2000, 0x200a],
  [0x2028, 0x2029, 0x202f, 0x202f, 0x205f, 0x205f, 0x3000, 0x3000, 0xfeff, 0xfeff],
].flat();

const CLASSES: Readonly<Record<string, readonly number[]>> = {
  "\\d": DIGITS,
  "\\D": outside(DIGITS),
  "\\w": WORD,
  "\\W": outside(WORD),
  "\\s": SPACES,
  "\\S": outside(SPACES),
  ".": outside(LINE_ENDS),
};

const parsed = new Map<string, Pattern | undefined>();
const MOST_PARSED = 1_000;

/**
 * The pattern; undefined for one that a schema may not have. The last thousand are cached, which saves some ten
 * microseconds for each; a pattern never changes.
 */
export function patternOf(source: string): Pattern | undefined {
  if (source.length > MAX_PATTERN) return undefined;
  if (parsed.has(source)) return parsed.get(source);
  if (parsed.size >= MOST_PARSED) parsed.clear();
  const pattern = parse(source);
  parsed.set(source, pattern);
  return pattern;
}

function parse(source: string): Pattern | undefined {
  if (!source.startsWith("^")) return undefined;
  const end = source.endsWith("$") ? source.length - 1 : source.length;
  const pieces: Piece[] = [];
  let at = 1;
  let [open, optional, behind] = [0, 0, 0];
  for (; at < end; at = PIECE.lastIndex) {
    PIECE.lastIndex = at;
    const found = PIECE.exec(source);
    if (!found) return undefined;
    const [, what = "", often = ""] = found;
    const [least, most] = countsOf(often);
    const isOpen = most === Number.POSITIVE_INFINITY;
    if (often === "?") optional += 1;
    else if (!/^(\{\d+\})?$/.test(often)) open += 1;
    else if (open > 0) behind += most;
    pieces.push({ ranges: rangesOf(what), least, isOpen, last: isOpen ? least : most - 1 });
  }
  const isPermitted = open <= MOST_OPEN && optional <= MOST_OPTIONAL && behind <= MOST_BEHIND;
  if (!isPermitted || !isPattern(source)) return undefined;
  // A $ at the end that belongs to the last piece is escaped.
  return { pieces, toEnd: at === end && end < source.length };
}

function isPattern(source: string): boolean {
  try {
    new RegExp(source, "u");
    return true;
  } catch {
    return false;
  }
}

function countsOf(often: string): [least: number, most: number] {
  if (often === "") return [1, 1];
  if (often === "?") return [0, 1];
  if (often === "*") return [0, Number.POSITIVE_INFINITY];
  if (often === "+") return [1, Number.POSITIVE_INFINITY];
  const [least = "", most] = often.slice(1, -1).split(",");
  return [Number(least), most === "" ? Number.POSITIVE_INFINITY : Number(most ?? least)];
}

function rangesOf(what: string): readonly number[] {
  const known = CLASSES[what];
  if (known) return known;
  if (!what.startsWith("[")) return rangeOf(what);
  const isNegated = what.startsWith("[^");
  const atoms = what.slice(isNegated ? 2 : 1, -1).match(/\\?./gsu) ?? [];
  const found: number[][] = [];
  for (let i = 0; i < atoms.length; i++) {
    const [atom = "", dash, last] = atoms.slice(i, i + 3);
    const own = (atom.startsWith("\\") ? CLASSES[atom] : undefined) ?? rangeOf(atom);
    if (dash !== "-" || last === undefined) found.push(...pairs(own));
    else {
      found.push([own[0] ?? 0, rangeOf(last)[1] ?? 0]);
      i += 2;
    }
  }
  const ranges = united(found);
  return isNegated ? outside(ranges) : ranges;
}

function rangeOf(atom: string): number[] {
  const code = atom.codePointAt(atom.startsWith("\\") ? 1 : 0) ?? 0;
  return [code, code];
}

function pairs(ranges: readonly number[]): number[][] {
  return ranges.flatMap((first, i) => (i % 2 === 0 ? [[first, ranges[i + 1] ?? first]] : []));
}

function united(ranges: readonly number[][]): number[] {
  const sorted = ranges.toSorted(([a = 0], [b = 0]) => a - b);
  const all: number[] = [];
  for (const [first = 0, last = 0] of sorted) {
    const before = all.at(-1);
    if (before !== undefined && first <= before + 1) all[all.length - 1] = Math.max(before, last);
    else all.push(first, last);
  }
  return all;
}

function outside(ranges: readonly number[]): number[] {
  const all: number[] = [];
  let next = 0;
  for (const [first = 0, last = 0] of pairs(ranges)) {
    if (first > next) all.push(next, first - 1);
    next = last + 1;
  }
  if (next <= LAST) all.push(next, LAST);
  return all;
}

function isIn(ranges: readonly number[], code: number): boolean {
  let [from, to] = [0, ranges.length / 2];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (code > (ranges[2 * middle + 1] ?? 0)) from = middle + 1;
    else to = middle;
  }
  return code >= (ranges[2 * from] ?? Number.POSITIVE_INFINITY);
}

/**
 * Whether a text has the pattern.
 * @param visited called with the visits of each character as they are made: what it throws ends the search
 */
export function hasPattern(pattern: Pattern, text: string, visited: (visits: number) => void): boolean {
  const search = new Search(pattern.pieces);
  for (let at = 0; at < text.length; ) {
    if (search.isDone && !pattern.toEnd) return true;
    if (search.isOver) return false;
    const code = text.codePointAt(at) ?? 0;
    visited(search.read(code));
    at += code > 0xffff ? 2 : 1;
  }
  return search.isDone;
}

/** The positions that are possible behind the characters read so far. */
class Search {
  /** Whether the pattern may end here. */
  isDone = false;
  readonly #pieces: readonly Piece[];
  /**
   * How much of which piece may have been read: its place, and the least and the most of a row of counts, three numbers for
   * each, ascending.
   */
  #possible: number[] = [];
  /** The list of the character before, to be filled again. */
  #other: number[] = [];
  /** Characters that have left everything as it is since it last changed. */
  readonly #idle = new Set<number>();

  constructor(pieces: readonly Piece[]) {
    this.#pieces = pieces;
    this.#advance([], this.#possible, 0, 0);
  }

  /** Whether no character can follow. */
  get isOver(): boolean {
    return this.#possible.length === 0;
  }

  /** Reads one more character; returns how many visits of pieces that took, 1 or more unless the search is over. */
  read(code: number): number {
    if (this.#idle.has(code)) return 1;
    const [from, to, wasDone] = [this.#possible, this.#other, this.isDone];
    to.length = 0;
    const visits = this.#advance(from, to, -1, code);
    if (this.isDone === wasDone && isSame(from, to)) this.#idle.add(code);
    else if (this.#idle.size > 0) this.#idle.clear();
    this.#possible = to;
    this.#other = from;
    return visits;
  }

  /** @param begun a piece that begins here: the first one, at the beginning */
  #advance(from: readonly number[], to: number[], begun: number, code: number): number {
    this.isDone = false;
    let visits = 0;
    let at = 0;
    let entered = begun;
    while (at < from.length || entered >= 0) {
      visits += 1;
      const place = entered >= 0 ? entered : (from[at] ?? 0);
      const piece = this.#pieces[place];
      if (!piece) {
        this.isDone = true;
        return visits;
      }
      const start = to.length;
      let isEnough = false;
      if (entered === place) {
        if (piece.last >= 0) to.push(place, 0, 0);
        isEnough = piece.least === 0;
      }
      entered = -1;
      const isFitting = from[at] === place && isIn(piece.ranges, code);
      for (; from[at] === place; at += 3) {
        visits += 1;
        if (!isFitting) continue;
        const [low, high] = [(from[at + 1] ?? 0) + 1, (from[at + 2] ?? 0) + 1];
        addRow(to, start, place, piece.isOpen ? Math.min(low, piece.last) : low, Math.min(high, piece.last));
        if (high >= piece.least) isEnough = true;
      }
      if (isEnough) entered = place + 1;
    }
    return visits;
  }
}

/** @param start where the rows of the same piece begin, with the last of which this one may be united */
function addRow(to: number[], start: number, place: number, low: number, high: number): void {
  if (low > high) return;
  const end = to.length - 1;
  const before = to[end] ?? 0;
  if (end > start && low <= before + 1) to[end] = Math.max(before, high);
  else to.push(place, low, high);
}

function isSame(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((one, i) => one === b[i]);
}
