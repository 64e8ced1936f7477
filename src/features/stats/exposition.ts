/**
 * Prometheus's text format, version 0.0.4: families with their help and type, samples with escaped labels.
 * https://prometheus.io/docs/instrumenting/exposition_formats/
 */
export const CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

export type Labels = Readonly<Record<string, string>>;

export type Sample = Readonly<{
  /** The suffix that a histogram's samples add to the family's name: `_bucket`, `_sum`, `_count`. */
  suffix?: string;
  labels?: Labels;
  /** Null when it is not known: there is no sample then, which is not the same as zero. */
  value: number | null;
}>;

export type Family = Readonly<{
  name: string;
  help: string;
  type: "counter" | "gauge" | "histogram";
  samples: readonly Sample[];
}>;

/** The text of the families. Those without samples keep their help and type, so that readers know of them. */
export function expose(families: readonly Family[]): string {
  return families.map(familyText).join("");
}

function familyText({ name, help, type, samples }: Family): string {
  const lines = samples.flatMap(({ suffix = "", labels = {}, value }) =>
    value === null ? [] : [`${name}${suffix}${labelsText(labels)} ${numberText(value)}`],
  );
  return [`# HELP ${name} ${escaped(help)}`, `# TYPE ${name} ${type}`, ...lines, ""].join("\n");
}

function labelsText(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${quoted(value)}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

function escaped(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}

function quoted(text: string): string {
  return escaped(text).replaceAll('"', '\\"');
}

function numberText(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return "+Inf";
  return value === Number.NEGATIVE_INFINITY ? "-Inf" : String(value);
}

/** A histogram's samples, in seconds and with cumulative buckets, from counts between `boundsMs`. */
export function histogramSamples(
  labels: Labels,
  counts: readonly number[],
  boundsMs: readonly number[],
  sumMs: number,
): Sample[] {
  let below = 0;
  const buckets = counts.map((count, i) => {
    below += count;
    const bound = boundsMs[i];
    const le = bound === undefined ? "+Inf" : String(bound / 1000);
    return { suffix: "_bucket", labels: { ...labels, le }, value: below };
  });
  return [
    ...buckets,
    { suffix: "_sum", labels, value: sumMs / 1000 },
    { suffix: "_count", labels, value: below },
  ];
}

/** A constructor of Breakwater's families of this type, which adds the prefix of their names. */
const family =
  (type: Family["type"]) =>
  (name: string, help: string, samples: readonly Sample[]): Family => ({
    name: `breakwater_${name}`,
    help,
    type,
    samples,
  });

export const counter = family("counter");
export const gauge = family("gauge");
export const histogram = family("histogram");
