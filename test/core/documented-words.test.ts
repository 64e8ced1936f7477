/** The closed lists of words that the API uses are exactly those of its documentation. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { disableReasonOf } from "../../src/core/auto-disable.ts";
import {
  attemptErrors,
  cancelReasons,
  deadReasons,
  deliveryReasons,
  disableReasons,
  pauseReasons,
  replayReasons,
  waitingReasons,
} from "../../src/core/reasons.ts";
import { scopes } from "../../src/core/scopes.ts";
import { templateWords } from "../../src/core/transform/liquid.ts";

const pageOf = (name: string) => readFileSync(`${import.meta.dirname}/../../docs/${name}`, "utf8");
const page = pageOf("retries-and-replay.md");

const wordsIn = (text: string) => [...text.matchAll(/`([^`]+)`/g)].map(([, word = ""]) => word);
/** The words before the colon of each item, from the row of a state. */
const reasonsOf = (state: string) => {
  const [, row = ""] = new RegExp(`^\\| \`${state}\` \\| (.+) \\|$`, "m").exec(page) ?? [];
  return row.split(" · ").flatMap((item) => wordsIn(item.replace(/:.*/, "")));
};
const same = (words: readonly string[], others: readonly string[]) =>
  expect([...new Set(words)].sort()).toEqual([...new Set(others)].sort());

test("the documentation has the reasons of each state of a delivery", () => {
  const documented = {
    queued: ["scheduled", "order", "order_held"],
    waiting: waitingReasons,
    retrying: ["http_503", ...attemptErrors, "in_flight"],
    dead: deadReasons,
    // Its event can be removed before its end, too.
    cancelled: [...cancelReasons, "event_removed"],
  };
  for (const [state, reasons] of Object.entries(documented)) same(reasonsOf(state), reasons);
  const all = Object.keys(documented).flatMap(reasonsOf);
  same(
    all.filter((reason) => reason !== "http_503"),
    deliveryReasons,
  );
});

test("the documentation has the reasons of a replay", () => {
  const [, sentence = ""] = /`reason` (says why a replay is slow[^.]+)\./.exec(page) ?? [];
  same(wordsIn(sentence), replayReasons);
});

test("the documentation has the reasons of automatic pauses, and that of a pause by an operator", () => {
  const [, section = ""] = /^## Automatic pauses\n(.+?)^## /ms.exec(page) ?? [];
  const documented = [...section.matchAll(/\(`(\w+)`\)/g)].map(([, reason = ""]) => reason);
  same(["manual", ...documented], pauseReasons);
  const byStreak = [
    disableReasonOf({ refusals: 1_000, failures: 0, failingSince: 0 }, 0),
    disableReasonOf({ refusals: 0, failures: 1_000, failingSince: 1 }, 1e12),
  ];
  same([...byStreak.map(String), "transform_failing"], disableReasons);
});

test("the documentation has the scopes of an API key", () => {
  const [line = ""] = /^- `events:write` posts events\..+$/m.exec(pageOf("reference.md")) ?? [];
  same(wordsIn(line), scopes);
});

test("the documentation has the tags and filters of templates", () => {
  const listed = pageOf("transformations.md").replaceAll(/\s+/g, " ");
  const [, tags = ""] = /\*\*Tags\*\*: ([^.]+)\./.exec(listed) ?? [];
  const [, filters = ""] = /\*\*Filters\*\*: ([^.]+)\./.exec(listed) ?? [];
  // `#` is a comment in a line. Closing tags have no entries.
  same(
    wordsIn(tags),
    templateWords.tags.filter((tag) => tag !== "#"),
  );
  same(filters.split(", "), templateWords.filters);
});
