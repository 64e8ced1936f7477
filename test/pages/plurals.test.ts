/** A count of one has its noun in the singular, on pages of one of each thing and in every text of the portal. */
import { beforeEach, describe, expect, it } from "vitest";
import { texts } from "../../src/pages/portal/texts/languages.ts";
import { emptyDatabase, insertRow, NOW, testApi } from "../support/api.ts";
import { metric } from "../support/attempt-metrics.ts";
import { testDashboard } from "../support/dashboard.ts";

beforeEach(emptyDatabase);

const NOUNS =
  "requests|events|deliveries|attempts|destinations|endpoints|replays|keys|bytes|seconds|minutes|hours|days|times|lines|secrets|types|tenants|failures|retries";
const NOMEN =
  "Anfragen|Ereignisse|Ereignissen|Zustellungen|Versuche|Endpunkte|Endpunkten|Zeilen|Sekunden|Minuten|Stunden|Geheimnisse";
/** An adjective may be between: "1 missing deliveries". */
const WRONG = new RegExp(`(?<![\\d.,])\\b1 (\\p{L}+ )?(${NOUNS}|${NOMEN})\\b`, "u");

/** Every string that an object of texts can make where each count is one. */
function written(value: unknown): readonly string[] {
  if (typeof value === "string") return [value];
  if (typeof value === "function") return [String(value(...Array.from({ length: value.length }, () => "1")))];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(written) : [];
}

describe.each(Object.entries(texts))("the portal's texts in %s", (_, language) => {
  it("have the singular after one", () => {
    const all = written(language);
    expect(all.length).toBeGreaterThan(250);
    expect(all.filter((text) => WRONG.test(text))).toEqual([]);
  });
});

it("the pages of a deployment with one of everything have the singular", async () => {
  const api = testApi();
  const { json } = await api.call("POST", "/v1/destinations", { url: "https://example.com/hook" });
  const { json: event } = await api.call("POST", "/v1/events", { type: "order.paid", data: 1 });
  const waiting = {
    destination_id: json.id,
    state: "waiting",
    reason: "circuit_open",
    give_up_at: NOW + 9e6,
  };
  await insertRow("deliveries", { ...waiting, event_id: 1 });
  await insertRow("deliveries", { ...waiting, event_id: 2, state: "dead", reason: "exhausted", attempts: 1 });
  const metrics = [metric({ result: "5xx", end: "again" })];
  const view = { circuit: "open", circuitUntil: NOW + 1000, trips: 1, inFlight: 1 } as const;
  const browser = testDashboard({ metrics, view });
  await browser.signIn();
  const faults: string[] = [];
  for (const path of [
    "/dashboard",
    "/dashboard/destinations",
    `/dashboard/destinations/${json.id}`,
    "/dashboard/deliveries",
    "/dashboard/deliveries/repair?action=retry",
    `/dashboard/events/${event.id}`,
    "/dashboard/replays",
    `/dashboard/replays?estimate=1&destination_id=${json.id}&since=2026-11-20T00:00:00Z`,
    "/dashboard/search?q=order",
  ]) {
    const { status, html } = await browser.get(path);
    expect([path, status]).toEqual([path, 200]);
    const text = html.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");
    faults.push(...[...text.matchAll(new RegExp(WRONG, "gu"))].map(([found]) => `${path}: ${found}`));
  }
  expect(faults).toEqual([]);
});
