/**
 * Mutations of SQL in the text of a string or template. A value in a template is one character here, from the private
 * use area, so that it is an operand like any other.
 */

const CLAUSE_ENDS =
  /^(AND|OR|ORDER|GROUP|HAVING|LIMIT|RETURNING|UNION|ON|JOIN|LEFT|CROSS|INNER|THEN|ELSE|END|DO|SET|WHERE|WHEN|FROM|SELECT)$/i;

/** Whether a text is SQL, or a piece of it. */
export function isSql(text: string): boolean {
  return /\b(SELECT|INSERT INTO|UPDATE|DELETE FROM|WHERE|AND|OR|IS NULL|IS NOT NULL|EXISTS|coalesce|json_each|iif)\b| [&|<>] |[)\s]~/.test(
    text,
  );
}

/** The text with one change each. */
export function sqlMutations(text: string): string[] {
  return [...new Set([...conditionsDropped(text), ...wordsExchanged(text)])].filter((one) => one !== text);
}

type Token = Readonly<{ text: string; start: number; end: number; depth: number }>;

function tokensOf(text: string): Token[] {
  let depth = 0;
  return [...text.matchAll(/'(?:[^']|'')*'|[A-Za-z_][\w.$]*|[()]|[^\sA-Za-z_()']+/g)].map(
    ({ 0: word, index }) => {
      if (word === ")") depth--;
      const token = { text: word, start: index, end: index + word.length, depth };
      if (word === "(") depth++;
      return token;
    },
  );
}

/** Each condition of a WHERE, AND or ON is always true; each alternative of an OR never. */
function conditionsDropped(text: string): string[] {
  const tokens = tokensOf(text);
  return tokens.flatMap((token, i) => {
    const word = token.text.toUpperCase();
    if (!["WHERE", "AND", "ON", "OR"].includes(word) || endsBetween(tokens, i)) return [];
    if (word === "ON" && tokens[i + 1]?.text.toUpperCase() === "CONFLICT") return [];
    if (word === "OR" && tokens[i - 1]?.text.toUpperCase() === "INSERT") return [];
    const last = lastOf(tokens, i);
    const first = tokens[i + 1];
    if (!first || !last || last.end <= first.start) return [];
    const condition = text.slice(first.start, last.end);
    const constant = word === "OR" ? `(0 AND (${condition}))` : `(1 OR (${condition}))`;
    return [text.slice(0, first.start) + constant + text.slice(last.end)];
  });
}

/** Whether an AND is the one of `x BETWEEN a AND b`. */
function endsBetween(tokens: readonly Token[], i: number): boolean {
  const { depth = 0, text = "" } = tokens[i] ?? {};
  if (text.toUpperCase() !== "AND") return false;
  for (let j = i - 1; j >= 0; j--) {
    const one = tokens[j];
    if (!one || one.depth < depth) return false;
    if (one.depth > depth) continue;
    if (/^between$/i.test(one.text)) return true;
    if (/^(and|or|where|on)$/i.test(one.text)) return false;
  }
  return false;
}

/** The last token of the condition that begins behind a token. */
function lastOf(tokens: readonly Token[], i: number): Token | undefined {
  const depth = tokens[i]?.depth ?? 0;
  let j = i + 1;
  for (; j < tokens.length; j++) {
    const one = tokens[j];
    if (!one || one.depth < depth || (one.depth === depth && /[;,]$/.test(one.text))) break;
    if (one.depth === depth && CLAUSE_ENDS.test(one.text) && !endsBetween(tokens, j)) break;
  }
  return j > i + 1 ? tokens[j - 1] : undefined;
}

const EXCHANGES: ReadonlyArray<readonly [RegExp, string]> = [
  [/(?<= )<(?= )/g, "<="],
  [/(?<= )<=(?= )/g, "<"],
  [/(?<= )>(?= )/g, ">="],
  [/(?<= )>=(?= )/g, ">"],
  [/(?<= )<>(?= )/g, "="],
  [/\bIS NOT NULL\b/g, "IS NULL"],
  [/\bIS NULL\b/g, "IS NOT NULL"],
  [/\bNOT EXISTS\b/g, "EXISTS"],
  [/(?<!NOT )\bEXISTS\b/g, "NOT EXISTS"],
  [/\bNOT IN\b/g, "IN"],
  [/ DESC\b/g, " ASC"],
  [/\bmin\(/g, "max("],
  [/\bmax\(/g, "min("],
  [/(?<= )&(?= )/g, "|"],
  [/(?<= )\|(?= )/g, "&"],
  [/(?<= )\+(?= )/g, "-"],
  [/(?<= )-(?= )/g, "+"],
  [/~(?=[\w(\uE000-\uF8FF])/g, ""],
];

function wordsExchanged(text: string): string[] {
  return EXCHANGES.flatMap(([pattern, by]) =>
    [...text.matchAll(pattern)].map(
      ({ 0: word, index }) => text.slice(0, index) + by + text.slice(index + word.length),
    ),
  );
}
