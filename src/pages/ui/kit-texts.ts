/** The texts of the pages that dashboard and portal share. Each has them in its words, the portal in several languages. */

import type { Child } from "hono/jsx";
import type { CertificationTexts } from "../../core/certification.ts";
import type { ActionView } from "../../features/approvals/service.ts";
import type { AttemptJson, DeliveryJson } from "../../features/deliveries/schema.ts";
import type { TransformTexts } from "./transform-texts.ts";

type ActionState = ActionView["state"];

/** Texts of these names. */
type Words<Names extends string> = Readonly<Record<Names, string>>;

type ActionTexts = Words<"approve" | "refuse" | "asked" | "state" | "until" | "answer"> &
  Readonly<{ states: Words<ActionState>; about: Words<ActionState> }>;

export type CertificationPageTexts = CertificationTexts &
  Words<"title" | "lede" | "consent" | "run" | "certified" | "notCertified" | "never">;

/**
 * The page of an attempt. `back` leads to its delivery, `hidden` is in place of the page for who may not see contents.
 * `requestHint` follows the heading of a request as it would be made now, `masked` that of one as it was sent.
 */
type ExchangeTexts = Words<
  | ("back" | "request" | "requestHint" | "masked" | "noRequest" | "noBody")
  | ("response" | "noAnswer" | "cut" | "empty" | "download" | "hidden")
> &
  Readonly<{
    after: (time: string) => string;
    /** Introduces the id of its delivery, where ids are shown. */
    of?: string;
    archive: Words<Exclude<AttemptJson["archive"], "kept">>;
    binary: (bytes: string) => string;
  }>;

/** Notices in English: on the dashboard, and in the portal. */
export const noticeTexts = {
  title: "Notices",
  lede: (_tenant: string) => "Get a notice when something is wrong with this endpoint: at most one an hour.",
  kind: "Send notices by",
  kinds: { mail: "Mail", webhook: "A webhook of your own" },
  target: "Address",
  targetHint: "The https URL of the incoming webhook, or the mail address. A URL is not shown again.",
  kept: (target: string) => `Currently ${target}. Leave this empty to keep it.`,
  on: "Send one when",
  events: {
    disabled: "the endpoint was paused because of its failures",
    circuit_open: "deliveries have failed for a while",
    dead: "deliveries were given up",
    recovered: "the endpoint takes events again",
  },
  minutes: "How long deliveries fail before there is a notice (minutes)",
  language: "Language of notices",
  save: "Save",
  saved: "Saved. It applies from now on.",
  test: "Send a test notice",
  tested: "The test notice was accepted.",
  remove: "Stop notices",
  /** Introduces the channel's own fault. */
  fault: "The last notice was not accepted",
  faults: {
    kind: "Choose one of the list.",
    target: "Enter a public URL that begins with https://, or for mail an address such as ops@example.com.",
    on: "Choose at least one.",
    open_after_minutes: "Enter a whole number from 1 to 1,440.",
    language: "Choose one of the list.",
  },
};

export type NoticeTexts = Readonly<typeof noticeTexts>;

/** The page of a test event. */
type TestTexts = Words<
  | ("title" | "heading" | "what" | "type" | "send" | "again" | "crumb" | "back")
  | ("request" | "response" | "redirect")
> &
  Readonly<{
    accepted: (status: string) => string;
    rejected: (status: string) => string;
    noAnswer: (why: string) => string;
    /** The same for the answer of a firewall, where that has words of its own. */
    challenged?: (why: string) => string;
    /** Whether to say what to do about a firewall. */
    showsHints?: true;
    took: (time: string) => string;
    /** Where no type has an example. */
    noTypes?: Child;
    /** Why a type without an example is refused, where the refusal does not say it. */
    noExample?: string;
  }>;

/** The list of deliveries. */
type LogTexts = Words<
  | ("title" | "event" | "state" | "attempts" | "answer" | "accepted" | "pick")
  | ("deletedEvent" | "newest" | "older" | "noOlder")
> &
  Readonly<{
    states: Words<DeliveryJson["state"] | "all">;
    select: (event: string) => string;
    tags: (names: string) => string;
    channels: (names: string) => string;
    /** Beside a delivery that cannot be selected. */
    erased?: string;
  }>;

/** The forms in which requests are signed. */
type SigningTexts = Readonly<{
  forms: string;
  formsHint?: string;
  own: (number: string) => string;
  contentHint: string;
  keys: Words<"text" | "bytes">;
}>;

export type KitTexts = Readonly<{
  copy: string;
  moreLines: (count: string) => string;
  /** Introduces links to the fields of a form that are at fault. */
  check: string;
  /** Links between the pages of a list. */
  pager: Readonly<{ label: string; first: string; next: string }>;
  log: LogTexts;
  blocked: Readonly<{
    title: string;
    text?: string;
    first: string;
    behind: string;
    held: string;
    /** Shown where no key is blocked; without it there is no section then. */
    none?: string;
    /** Where there are more keys than are shown. */
    more?: string;
  }>;
  consumers: Readonly<{
    title: string;
    none: Child;
    heads: Readonly<Record<"consumer" | "events" | "oldest" | "fetched" | "committed", string>>;
    orMore: (count: string) => string;
  }>;
  notices: NoticeTexts;
  certification: CertificationPageTexts;
  transform: TransformTexts;
  actions: ActionTexts;
  exchange: ExchangeTexts;
  test: TestTexts;
  signing: SigningTexts;
}>;

/** Words in English that dashboard and portal share. */
export const actionStates = {
  pending: "Undecided",
  approved: "Approved",
  refused: "Refused",
  expired: "Expired",
  done: "Done",
  failed: "Failed",
};

export const consumerHeads = {
  consumer: "Consumer",
  events: "Not committed",
  oldest: "Oldest",
  fetched: "Last fetch",
  committed: "Last commit",
};

export const logTexts = {
  event: "Event",
  state: "State",
  attempts: "Attempts",
  accepted: "Accepted",
  pick: "Select",
  select: (event: string) => `Select ${event}`,
  deletedEvent: "deleted event",
  tags: (names: string) => `Tags: ${names}`,
  channels: (names: string) => `Channels: ${names}`,
  newest: "Newest",
  older: "Older",
  noOlder: "No older deliveries.",
};
