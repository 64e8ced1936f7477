/** Reads Prometheus's text format strictly: an invalid line throws. */
export type Sample = Readonly<{ name: string; labels: Readonly<Record<string, string>>; value: number }>;

const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)/;

/** The samples, and the type of each family. */
export function parsePrometheusText(text: string) {
  const types = new Map<string, string>();
  const samples: Sample[] = [];
  if (!text.endsWith("\n")) throw new Error("The last line is not ended");
  for (const line of text.slice(0, -1).split("\n")) {
    const [, name = "", type = ""] = /^# TYPE (\S+) (counter|gauge|histogram)$/.exec(line) ?? [];
    if (types.has(name)) throw new Error(`${name} is there twice`);
    if (name) types.set(name, type);
    else if (!line.startsWith("# HELP ")) samples.push(sampleOf(line));
  }
  return { types, samples };
}

function sampleOf(line: string): Sample {
  const [, name = "", labels = "", value = ""] = SAMPLE.exec(line) ?? [];
  if (name === "" || (value !== "+Inf" && Number.isNaN(Number(value)))) throw new Error(`No sample: ${line}`);
  return {
    name,
    labels: labelsOf(labels),
    value: value === "+Inf" ? Number.POSITIVE_INFINITY : Number(value),
  };
}

function labelsOf(text: string): Record<string, string> {
  if (text === "") return {};
  const match = LABEL.exec(text);
  if (!match) throw new Error(`No label: ${text}`);
  const [all, name = "", value = ""] = match;
  return { [name]: value, ...labelsOf(text.slice(all.length)) };
}
