/** The kit's pages as the dashboard has them: in English, with its addresses. */
import { certificationTexts } from "../../core/certification.ts";
import type { Services } from "../../services.ts";
import { isoTime } from "../../time.ts";
import { agoOf, atMost, countOf, durationOf, type Formats, untilOf } from "../ui/format.ts";
import { actionStates, consumerHeads, type KitTexts, logTexts, noticeTexts } from "../ui/kit-texts.ts";
import type { PageView } from "../ui/page.tsx";
import { causeText, deliveryText, resultText } from "../ui/status-text.ts";
import { transformTexts } from "../ui/transform-texts.ts";
import { actorText } from "./actor-text.ts";
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

/** How many more lines there are, and so on: counts come formatted. */
const counted = (count: string, noun: string) => `${count} ${noun}${count === "1" ? "" : "s"}`;

const t: KitTexts = {
  copy: "Copy",
  moreLines: (count) => counted(count, "more line"),
  check: "Correct these fields:",
  pager: { label: "The rest of the list", first: "First page", next: "Next page" },
  log: {
    ...logTexts,
    title: "Deliveries",
    states: {
      all: "All",
      queued: "Queued",
      waiting: "Waiting",
      retrying: "Retrying",
      delivered: "Delivered",
      dead: "Dead",
      cancelled: "Cancelled",
    },
    answer: "Last response",
  },
  blocked: {
    title: "Blocked keys",
    none: "No key is blocked. Where a delivery holds up later ones of its key, it appears here.",
    first: "First event",
    behind: "Waiting behind it",
    held: "dead, holds the key",
    more: "More keys were not looked at: the API lists all of them.",
  },
  consumers: {
    title: "Consumers",
    none: (
      <>
        Nobody has fetched from this destination yet. A program needs a key with the scope <code>poll</code>.
      </>
    ),
    heads: consumerHeads,
    orMore: (count) => `${count} or more`,
  },
  notices: {
    ...noticeTexts,
    lede: (tenant) =>
      `The tenant ${tenant} gets a notice when something is wrong with this destination: at most one an hour.`,
  },
  certification: {
    ...certificationTexts,
    title: "Conformance test",
    lede: "Sends the receiver at most eight signed requests, right ones and forged ones, and judges each by the status and the time of its answer. Their ids begin with test_. They are not stored, not retried and not counted.",
    consent: "The owner of the endpoint agrees",
    run: "Run the test",
    certified: "The receiver has passed",
    notCertified: "The receiver has not passed",
    never: "Not tested yet",
  },
  transform: transformTexts,
  actions: {
    states: actionStates,
    about: {
      pending:
        "Nothing is changed yet. If you approve, it is done at once, with the rights that the agent has then.",
      approved: "Approved. Whether it was carried out is not known: see the audit trail.",
      refused: "Refused. Nothing was changed.",
      expired: "Nobody decided in time. Nothing was changed.",
      done: "Approved and done.",
      failed: "Approved, but the tool refused.",
    },
    approve: "Approve",
    refuse: "Refuse",
    asked: "Asked for",
    state: "State",
    until: "Expires",
    answer: "The tool's answer",
  },
  exchange: {
    back: "Event",
    after: (time) => `after ${time}`,
    of: ", of ",
    archive: {
      none: "Nothing more of this attempt is stored. The request is shown as it would be made now.",
      missing:
        "The whole response is not stored, or not yet: this is its beginning. The request is shown as it would be made now.",
      unavailable:
        "The stored request and response cannot be read at the moment. This is the beginning of the response, and the request as it would be made now.",
    },
    request: "Request",
    requestHint: "Secrets and signatures are masked.",
    masked: "Secrets and signatures are masked.",
    noRequest: "The destination is deleted: its requests cannot be shown.",
    noBody: "The event's content has been erased, or is damaged: the body cannot be shown.",
    response: "Response",
    noAnswer: "There was no response, or none of it is stored.",
    cut: "Only the beginning of the body is stored.",
    empty: "The body is empty.",
    download: "Save the body",
    binary: (bytes) => `The body is binary: ${counted(bytes, "byte")}.`,
    hidden: "You may not see the contents of events.",
  },
  signing: {
    forms: "Signature forms",
    own: (number) => (number === "1" ? "A form of your own" : `Form of your own no. ${number}`),
    contentHint:
      "{body} once, and {id}, {timestamp} and {type} as often as you like. Empty means no form of your own.",
    keys: { text: "the secret's text", bytes: "the bytes behind whsec_" },
  },
  test: {
    title: "Test event",
    heading: "Send a test event",
    accepted: (status) => `The receiver accepted it: HTTP ${status}`,
    rejected: (status) => `The receiver rejected it: HTTP ${status}`,
    noAnswer: (why) => `No response: ${why}`,
    challenged: (why) => `Not delivered: ${why}`,
    showsHints: true,
    took: (time) => `It took ${time}.`,
    what: "A test event is signed like any other event, but it is not stored, not retried and not counted.",
    type: "Event type",
    send: "Send test event",
    again: "Send another test event",
    crumb: "Destination",
    back: "Back to the destination",
    request: "Request",
    response: "Response",
    redirect: "Redirect, not followed",
    noTypes: (
      <>
        Event types with an example can be chosen here. <a href="/dashboard/event-types">Add an example</a> to
        a type.
      </>
    ),
  },
};

/** How pages are shown to the visitor, or to nobody in particular where there is none, or the services have failed. */
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
    tagAt: (tenant, tag) => `/dashboard/deliveries?${new URLSearchParams({ tenant, tag })}`,
    causeText,
    resultText,
    authorText: actorText,
    deliveryText: (delivery, acceptedAt) => deliveryText(delivery, acceptedAt, now),
  };
}
