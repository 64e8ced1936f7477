/** The kit's pages as the dashboard has them: in English, with its addresses. */
import type { AuditEntryView } from "../../features/audit/schema.ts";
import { toolOf } from "../../http/mcp/approval.ts";
import type { Services } from "../../services.ts";
import type { Replay } from "../../store/replays.ts";
import { isoTime } from "../../time.ts";
import {
  agoOf,
  atMost,
  countOf,
  decimalOf,
  durationOf,
  type Formats,
  plural,
  untilOf,
} from "../ui/format.ts";
import { type KitTexts, dashboardTexts as texts } from "../ui/kit-texts.ts";
import type { PageView } from "../ui/page.tsx";
import { causeText, deliveryText, resultText } from "../ui/status-text.ts";
import { outcomes } from "./outcomes.ts";
import { type DashboardContext, mayCall } from "./session.ts";

const f: Formats = {
  count: countOf,
  atMost,
  duration: (ms) => durationOf(ms),
  until: (at, now) => untilOf(at, now),
  ago: agoOf,
  moment: (at) => isoTime(at).slice(0, 19).replace("T", " "),
  exact: isoTime,
};

const t: KitTexts = {
  ...texts,
  done: outcomes,
  log: { ...texts.log, states: { ...texts.log.states, dead: "Dead" } },
  blocked: {
    ...texts.blocked,
    none: "No key is blocked. Where a delivery holds up later ones of its key, it appears here.",
    held: "dead, holds the key",
    more: "There may be more: the API lists all of them.",
  },
  consumers: {
    ...texts.consumers,
    none: (
      <>
        No consumer has fetched from this destination yet. A program needs a key with the scope{" "}
        <code>poll</code>.
      </>
    ),
  },
  notices: {
    ...texts.notices,
    lede: (tenant) =>
      `The tenant ${tenant} gets a notice when something is wrong with this destination: at most one an hour.`,
  },
  certification: {
    ...texts.certification,
    lede: "Sends the receiver at most eight signed requests, right ones and forged ones, and judges each by the status and the time of its answer. Their ids begin with test_. They are not stored, not retried and not counted.",
    consent: "The owner of the endpoint agrees",
    certified: "The receiver has passed",
    notCertified: "The receiver has not passed",
  },
  actions: {
    ...texts.actions,
    about: {
      ...texts.actions.about,
      pending:
        "Nothing is changed yet. If you approve, it is done at once, with the rights that the agent has then.",
      approved: "Approved. It is not known whether it was carried out: see the audit trail.",
    },
  },
  exchange: { ...texts.exchange, back: "Event", of: ", of " },
  body: { ...texts.body, text: "The request body" },
  secret: {
    ...texts.secret,
    previous: (count, time) =>
      `${numerals[count]} secrets are in use; the last of those that were replaced expires in ${time}.`,
  },
  replays: {
    states: { ...texts.replays.states, running: "Replaying", cancelled: "Cancelled" },
    pause: "Pause replay",
    resume: "Resume replay",
    stop: "Stop replay",
  },
  test: {
    ...texts.test,
    heading: "Send a test event",
    challenged: (why) => `Not delivered: ${why}`,
    showsHints: true,
    noTypes: (
      <>
        Event types with an example can be chosen here. <a href="/dashboard/event-types">Add an example</a> to
        a type.
      </>
    ),
  },
};

/** By the number of replaced secrets: the current one is in use besides them. */
const numerals = ["One", "Two", "Three", "Four", "Five", "Six"];

/** How pages are shown to the visitor, or without a visitor if there is none, or if the services have failed. */
export function viewFor(c: DashboardContext): PageView {
  const isVisit = c.get("visitor") !== undefined;
  const now = (c.get("services") as Services | undefined)?.now() ?? 0;
  return dashboardView({ now, mayCall: (service) => isVisit && mayCall(c, service) });
}

export function dashboardView({ now, mayCall }: Pick<PageView, "now" | "mayCall">): PageView {
  return {
    now,
    language: "en",
    f,
    t,
    mayCall,
    may: () => true,
    showsTarget: () => true,
    destinationAt: (id) => `/dashboard/destinations/${id}`,
    deliveryAt: ({ id, event_id }, isExact) => `/dashboard/events/${event_id}${isExact ? `#${id}` : ""}`,
    eventAt: (event) => `/dashboard/events/${event}`,
    tagAt: (tenant, tag) => `/dashboard/deliveries?${new URLSearchParams({ tenant, tag })}`,
    actionAt: (id) => `/dashboard/actions/${id}`,
    actionsAt: ["/dashboard/actions", "Approvals"],
    toolText: (tool) => toolOf({ tool })?.title ?? tool,
    causeText,
    resultText,
    authorText: actorText,
    replayText,
    deliveryText: (delivery, acceptedAt) => deliveryText(delivery, acceptedAt, now),
  };
}

const actorTexts: Readonly<Record<AuditEntryView["actor"]["kind"], string>> = {
  api_key: "By a key",
  admin_key: "By ADMIN_KEY",
  dashboard: "At the dashboard",
  portal: "In the portal",
  binding: "By a Worker's binding",
  agent: "By an agent",
  breakwater: "By Breakwater",
};

/** The actor of a change, in words. */
export function actorText({ kind, key, person, approver }: AuditEntryView["actor"]): string {
  const who = person ?? key;
  const text = who === null ? actorTexts[kind] : `${actorTexts[kind]}, ${who}`;
  if (approver === undefined) return text;
  const approved = actorText(approver);
  return `${text}; approved ${approved.charAt(0).toLowerCase()}${approved.slice(1)}`;
}

/** Why a running replay is slow or requeues nothing. */
const slowdowns: Readonly<Record<string, string>> = {
  destination_paused: "stopped while the destination is paused",
  stuck: "stopped while the destination is blocked or its backlog is full",
  doubtful: "slowed down because attempts fail",
};

/** The progress of a replay, and its pace. */
function replayText(replay: Replay): string {
  const { include, state, reason, total, requeued, delivered, failed, pace } = replay;
  const all =
    include === "missing"
      ? plural(requeued, "missing delivery", "missing deliveries")
      : plural(total, "delivery", "deliveries");
  const done = `${countOf(delivered)} of ${all} delivered`;
  const failures = failed > 0 ? `, ${countOf(failed)} failed${include === "missing" ? "" : " again"}` : "";
  if (state !== "running") return `${done}${failures}.`;
  const slowdown = reason === null ? "" : `, ${slowdowns[reason] ?? reason.replaceAll("_", " ")}`;
  return `${done}${failures}; ${countOf(requeued)} requeued to the backlog at ${decimalOf(pace)} per minute${slowdown}.`;
}
