/** Small pieces that several pages show. */
import type { Child, FC } from "hono/jsx";
import { type StatsWindow, windows } from "../../core/rollups.ts";
import { isoTime } from "../../time.ts";
import { agoOf } from "../format.ts";
import type { Refused } from "../internal-client.ts";
import type { StatusText, Tone } from "../status-text.ts";

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

// §§ What came of the thing that a person has just done. Named in the address, never spelled there.

const done = {
  created: "The destination is there. What is posted from now on goes to it.",
  "created-before":
    "This form had created this destination already, and did nothing more. For another one, open a new form.",
  "rotated-before":
    "The secret has been rotated already, and this form did nothing more. It was shown once: if nobody has kept it, make another one.",
  paused: "Paused. What is posted meanwhile waits.",
  resumed: "Resumed. What has waited goes out, beginning with one at a time.",
  "hold-cleared": "The hold is over. What has waited goes out, beginning with one at a time.",
  limits: "Saved. It holds from the next batch.",
  policy: "Saved. It holds from the next attempt.",
  retried: "It waits for its destination's door, and is tried again.",
  replaying: "The replay has begun.",
  "replay-paused": "The replay is paused.",
  "replay-resumed": "The replay goes on.",
  "replay-cancelled": "The replay is cancelled. What waits already is still sent.",
} as const;

export type Done = keyof typeof done;

/** The address to go to after something has been done, so that reloading does not do it again. */
export function doneAt(path: string, what: Done, anchor = ""): string {
  return `${path}?done=${what}${anchor}`;
}

export const DoneNotice: FC<{ what: string | undefined }> = ({ what }) =>
  what !== undefined && Object.hasOwn(done, what) ? (
    <output class="notice tone-good">{done[what as Done]}</output>
  ) : null;

/** Why something was not done, field by field. */
export const RefusedNotice: FC<{ refused: Refused }> = ({ refused: { detail, errors } }) => (
  <div class="notice tone-bad" role="alert">
    {errors.length === 0 ? (
      <p>{`${detail}.`.replace(/\.\.$/, ".")}</p>
    ) : (
      <ul>
        {errors.map(({ field, fault, expected }) => (
          <li>{`${field} ${fault}; expected ${expected}.`}</li>
        ))}
      </ul>
    )}
  </div>
);

// §§ How far back a page looks, chosen by links.

type Words = Readonly<{ short: string; long: string; each: string }>;

export const windowWords: Readonly<Record<StatsWindow, Words>> = {
  "15m": { short: "15 min", long: "15 minutes", each: "a minute" },
  "1h": { short: "1 h", long: "hour", each: "a minute" },
  "24h": { short: "24 h", long: "24 hours", each: "an hour" },
  "7d": { short: "7 d", long: "7 days", each: "an hour" },
};

export function windowNamed(name: string | undefined): StatsWindow {
  return windows.find((window) => window === name) ?? "15m";
}

export const WindowTabs: FC<{ path: string; current: StatsWindow }> = ({ path, current }) => (
  <nav class="tabs" aria-label="How far back">
    {windows.map((window) => (
      <a
        href={window === "15m" ? path : `${path}?window=${window}`}
        {...(window === current && { "aria-current": "true" })}
      >
        {windowWords[window].short}
      </a>
    ))}
  </nav>
);
