/** Small pieces that several pages show. */
import type { Child, FC } from "hono/jsx";
import { isoTime } from "../iso-time.ts";
import type { StatusText, Tone } from "./door-words.ts";
import { agoOf } from "./figures.ts";

/** A number with its name, in a `dl.figures`. */
export const Figure: FC<{
  name: string;
  value: string;
  unit?: string;
  tone?: "bad" | "warn" | undefined;
}> = ({ name, value, unit, tone }) => (
  <div class={tone ? `is-${tone}` : ""}>
    <dt>{name}</dt>
    <dd>
      {value}
      {unit !== undefined && <small>{unit}</small>}
    </dd>
  </div>
);

/** A state in a word, with a dot of its colour: the word says it for whoever sees no colours. */
export const Word: FC<{ tone: Tone; children?: Child }> = ({ tone, children }) => (
  <span class={`word nowrap tone-${tone}`}>{children}</span>
);

/** A door's state as one sentence. */
export function statusSentence({ says, reason }: StatusText): string {
  return reason === undefined ? says : `${says}: ${reason}`;
}

/** How long ago, with the exact time for whoever points at it. */
export const Ago: FC<{ at: number; now: number }> = ({ at, now }) => {
  const iso = isoTime(at);
  return (
    <time class="nowrap" datetime={iso} title={iso}>
      {agoOf(at, now)}
    </time>
  );
};

/** Text that one wants to take along, and a button that does it. `id` is unique on the page. */
export const Copyable: FC<{ id: string; text: string; label: string }> = ({ id, text, label }) => (
  <section class="copy" aria-label={label}>
    <pre>
      <code id={id}>{text}</code>
    </pre>
    <button class="tiny" type="button" data-copy={id} aria-label={`Copy: ${label}`}>
      Copy
    </button>
  </section>
);

/** A description, with what stands in backticks as code. */
export const Prose: FC<{ text: string }> = ({ text }) => (
  <>{text.split("`").map((part, i) => (i % 2 === 1 ? <code>{part}</code> : part))}</>
);
