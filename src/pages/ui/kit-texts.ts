/**
 * The texts of the pages that dashboard and portal share, in English as the portal has them. The portal has them in its
 * other languages too, and the dashboard its own words if its terms differ.
 */

import type { Child } from "hono/jsx";
import { type CertificationTexts, certificationTexts } from "../../core/certification.ts";
import { capitalized } from "./status-text.ts";
import { transformTexts } from "./transform-texts.ts";

/** A formatted number with what it counts. */
export const withNoun = (count: string, one: string, many = `${one}s`) =>
  `${count} ${count === "1" ? one : many}`;

/** The different terms of dashboard and portal. */
type Nouns = Readonly<{ endpoint: string; added: string; server: string; answer: string }>;

const textsWith = ({ endpoint, added, server, answer }: Nouns) => ({
  copy: "Copy",
  moreLines: (count: string) => withNoun(count, "more line"),
  /** Introduces links to the fields of a form that are at fault. */
  check: "Correct these fields:",
  chooseOne: "Choose one from the list.",
  save: "Save",
  /** Links between the pages of a list. */
  pager: { label: "The rest of the list", first: "First page", next: "Next page" },
  log: {
    title: "Deliveries",
    states: {
      all: "All",
      queued: "Queued",
      waiting: "Waiting",
      retrying: "Retrying",
      delivered: "Delivered",
      dead: "Given up",
      cancelled: "Cancelled",
    },
    /** On the timeline of a delivery's attempts. */
    marks: {
      accepted: "accepted",
      succeeded: "successful attempt",
      failed: "failed attempt",
      next: "next attempt",
      now: "now",
      given_up: "given up here",
    },
    event: "Event",
    state: "State",
    attempts: "Attempts",
    answer: `Last ${answer}`,
    accepted: "Accepted",
    pick: "Select",
    select: (event: string) => `Select ${event}`,
    deletedEvent: "deleted event",
    tags: (names: string) => `Tags: ${names}`,
    channels: (names: string) => `Channels: ${names}`,
    newest: "Newest",
    older: "Older",
    noOlder: "No older deliveries.",
  },

  blocked: {
    title: "Blocked keys",
    first: "First event",
    behind: "Waiting behind it",
    held: "given up, holds its key",
  },

  consumers: {
    title: "Consumers",
    none: `No consumer has fetched from this ${endpoint} yet.` as Child,
    heads: {
      consumer: "Consumer",
      events: "Not committed",
      oldest: "Oldest",
      fetched: "Last fetch",
      committed: "Last commit",
    },
    orMore: (count: string) => `${count} or more`,
  },

  notices: {
    title: "Notices",
    lede: (_tenant: string) =>
      `Get a notice when something is wrong with this ${endpoint}: at most one an hour.`,
    kind: "Send notices by",
    kinds: { mail: "Mail", webhook: "A webhook of your own" },
    target: "Address",
    targetHint: "The https URL of the incoming webhook, or the mail address. A URL is not shown again.",
    kept: (target: string) => `Currently ${target}. Leave this empty to keep it.`,
    on: "Send one when",
    events: {
      disabled: `the ${endpoint} was paused because of its failures`,
      circuit_open: "deliveries have failed for a while",
      dead: "deliveries were given up",
      recovered: `the ${endpoint} takes events again`,
    },
    minutes: "How long deliveries fail before there is a notice (minutes)",
    language: "Language of notices",
    saved: "Saved. It applies from now on.",
    test: "Send a test notice",
    tested: "The test notice was accepted.",
    remove: "Stop notices",
    /** Introduces the channel's own fault. */
    fault: "The last notice was not accepted",
    faults: {
      target: "Enter a public URL that begins with https://, or for mail an address such as ops@example.com.",
      on: "Choose at least one.",
      open_after_minutes: "Enter a whole number from 1 to 1,440.",
    },
  },

  certification: {
    ...(certificationTexts as CertificationTexts),
    title: "Conformance test",
    lede: "Checks that your server verifies signatures, refuses forgeries, and answers in time. It is sent eight requests, one after the other; their ids begin with test_, and their type is breakwater.test. None of them is stored or repeated. At most once a minute.",
    consent: "Send these requests to my endpoint",
    run: "Run the test",
    certified: "Your endpoint has passed",
    notCertified: "Your endpoint has not passed",
    never: "Not tested yet",
  },

  transform: transformTexts,

  /** The actions that an agent has requested. */
  actions: {
    states: {
      pending: "Undecided",
      approved: "Approved",
      refused: "Refused",
      expired: "Expired",
      done: "Done",
      failed: "Failed",
    },
    about: {
      pending: "Nothing is changed yet. If you approve, it is done at once.",
      approved: `Approved. It is not known whether it was carried out: check the ${endpoint}.`,
      refused: "Refused. Nothing was changed.",
      expired: "No decision was made in time. Nothing was changed.",
      done: "Approved and done.",
      failed: "Approved, but it could not be done.",
    },
    approve: "Approve",
    refuse: "Refuse",
    asked: "Requested",
    until: "Expires",
    answer: "Answer",
  },
  exchange: {
    /** Leads to its delivery. */
    back: "Delivery",
    after: (time: string) => `after ${time}`,
    archive: {
      none: "Nothing more of this attempt is stored.",
      missing: `The whole ${answer} is not stored, or not yet. This is its beginning.`,
      unavailable: `The whole ${answer} cannot be read at the moment. This is its beginning.`,
    },
    request: "Request",
    /** Follows the heading of a request as it would be made now. */
    requestHint: `Shown with the current headers of the ${endpoint}. Signatures and the values of your own headers are masked.`,
    /** Follows that of one as it was sent. */
    masked: "As it was sent. Signatures and the values of your own headers are masked.",
    noRequest: `The ${endpoint} is deleted: its requests cannot be shown.`,
    noBody: "The contents have been erased, or are damaged: they cannot be shown.",
    response: capitalized(answer),
    noAnswer: `There was no ${answer}, or none of it is stored.`,
    cut: `Only the beginning of the ${answer} is stored.`,
    empty: `The ${answer} was empty.`,
    binary: (count: string) => `Binary contents: ${withNoun(count, "byte")}.`,
    download: `Save the ${answer} as a file`,
    /** Shown instead of the page to visitors who may not see contents. */
    hidden: "You may not see the contents of events here.",
  },
  body: {
    erased: "The contents have been erased: they cannot be shown or sent again.",
    damaged: "The stored contents are damaged: they cannot be sent.",
    text: "Contents of the event",
    base64: "The contents in base64",
  },
  test: {
    title: "Test event",
    accepted: (status: string) => `${capitalized(server)} accepted it: HTTP ${status}`,
    rejected: (status: string) => `${capitalized(server)} rejected it: HTTP ${status}`,
    noAnswer: (why: string) => `No ${answer}: ${why}`,
    took: (time: string) => `It took ${time}.`,
    what: "A test event is signed like any other event, but it is not stored and not retried.",
    type: "Event type",
    send: "Send test event",
    again: "Send another test event",
    back: `Back to the ${endpoint}`,
    redirect: "Redirect (not followed)",
  },

  /** The forms in which requests are signed. */
  signing: {
    forms: "Signed as",
    own: (number: string) => `A form of your own, no. ${number}`,
    contentHint:
      "{body} exactly once, and {id}, {timestamp} and {type} any number of times. Empty means no form of your own.",
    keys: { text: "the secret's text", bytes: "the bytes after whsec_" },
  },

  secret: {
    title: "Signing secret",
    previous: (_count: number, time: string) => `A replaced secret also signs for another ${time}.`,
    rotate: "Rotate secret",
    overlap: "Keep signing with the old secret too for (hours)",
    create: "Create new secret",
    once: "The new secret is shown once.",
    createdTitle: `${capitalized(endpoint)} ${added}`,
    createdLede: `${capitalized(server)} verifies signatures with this secret. Copy it now: it is not shown again.`,
    rotatedTitle: "Secret rotated",
    rotatedLede:
      "Requests are signed with this secret from now on, and with the replaced ones until they expire. Copy it now: it is not shown again.",
    /** In place of it where there is only a public key. */
    keyLede: `${capitalized(server)} verifies signatures with this public key.`,
    label: "The signing secret",
    publicKey: "The public key",
    next: `Go to the ${endpoint}`,
  },
  replays: {
    states: { running: "In progress", paused: "Paused", completed: "Completed", cancelled: "Stopped" },
    stop: "Stop",
  },

  /** The last events that a destination would take. */
  preview: {
    none: "There are no events yet to try it on.",
    takes: (taken: string, all: string) => `Takes ${taken} of the last ${withNoun(all, "event")}.`,
    taken: "taken",
    takenBut: (why: string) => `would be taken: ${why}`,
    notTaken: (why: string) => `not taken: ${why}`,
    reasons: {
      type: "its type is not among those chosen",
      channel: `it has none of the ${endpoint}'s channels`,
      filter: "the filter does not match",
      body: `it is not JSON, and the ${endpoint} takes only JSON`,
      corrupt: "the stored event is damaged",
      erased: "its contents were erased",
      created_later: `the ${endpoint} did not exist yet`,
    },
  },

  types: {
    exampleOf: (name: string) => `Example of ${name}`,
    schema: "JSON Schema",
    schemaOf: (name: string) => `JSON Schema of ${name}`,
  },
});

export const kitTexts = textsWith({
  endpoint: "endpoint",
  added: "added",
  server: "your server",
  answer: "answer",
});

export const dashboardTexts = textsWith({
  endpoint: "destination",
  added: "created",
  server: "the receiver",
  answer: "response",
});

/** Texts that only dashboard or portal has. */
type More = Readonly<{
  /** The results of actions, by the names that addresses have for them. */
  done: Readonly<Record<string, string>>;
  /** Beside a delivery that cannot be selected. */
  log: Readonly<{ erased?: string }>;
  /** `none`: where no key is blocked; without it there is no section then. `more`: where more are blocked than are shown. */
  blocked: Readonly<{ text?: string; none?: string; more?: string }>;
  /** Introduces the id of its delivery, where ids are shown. */
  exchange: Readonly<{ of?: string }>;
  /**
   * `heading`, `crumb`: where they differ from the title, and from the link back. `challenged`: the answer of a firewall;
   * `showsHints`: whether to say what to do about one. `noTypes`: where no type has an example. `noExample`: why a type without
   * one is refused, where the refusal does not say it.
   */
  test: Readonly<
    { heading?: string; crumb?: string; noTypes?: Child; noExample?: string } & {
      challenged?: (why: string) => string;
      showsHints?: true;
    }
  >;
  signing: Readonly<{ formsHint?: string }>;
  secret: Readonly<{ text?: string }>;
  replays: Readonly<{ pause?: string; resume?: string }>;
}>;

export type KitTexts = Readonly<typeof kitTexts> & More;
