/**
 * Every text of the portal, in English. Every other language has the type of this object: a missing text does not
 * compile. Parts that depend on a number are functions; numbers and times come formatted.
 */
import type { LimitedField, PortalAction } from "../../../core/portal-access.ts";
import type { deliveryReasons, pauseReasons, replayReasons } from "../../../core/reasons.ts";
import type { VisitorField, VisitorText } from "../../../features/destinations/fields.ts";
import { templateFields } from "../../ui/form-fields.ts";
import { kitTexts, withNoun } from "../../ui/kit-texts.ts";

type Reason = (typeof deliveryReasons)[number] | "token_unavailable" | "token_refused";

const requests = (count: string) => withNoun(count, "request");

/** By the unit that a number is written with. */
type Units = Readonly<Record<"ms" | "s" | "min" | "h" | "d", string>>;

type Faults = Readonly<
  Record<
    Exclude<VisitorField, LimitedField> | "url" | "filterJson" | "headerLines" | "overlap_hours" | "since",
    string
  >
>;

export const en = {
  ...kitTexts,
  /** The name in the language itself, for the switch. */
  languageName: "English",
  units: { ms: "ms", s: "s", min: "min", h: "h", d: "d" } satisfies Units,
  reasons: {
    scheduled: "it is scheduled for later",
    paused: "the endpoint is paused",
    hold: "your server asked us to wait (Retry-After)",
    circuit_open: "your server has failed too often; we try it again shortly",
    probing: "one request is testing whether your server has recovered",
    concurrency: "the endpoint has reached its limit of simultaneous requests",
    rate: "the endpoint has reached its rate limit",
    slow: "your server answers slowly, so its deliveries take turns",
    crash_loop: "sending to it has failed on our side; it is sent in small portions",
    group: "your server's shared limit applies; deliveries to it take turns",
    recovered: "it was lost on the way and is sent again",
    sealed: "the endpoint's credentials cannot be opened at the moment",
    unresolved: "the host name cannot be resolved",
    forbidden_address: "the host name leads to a private address",
    token_unavailable: "the token endpoint returns no access token",
    token_refused: "the token endpoint refuses the client",
    unbound: "its target is not available in this deployment",
    transform_failed: "the endpoint's transformation fails for it",
    retried: "it is to be sent again, as requested",
    replayed: "it is part of a bulk resend",
    order: "an earlier event with the same key comes first",
    order_held: "an earlier event with the same key has failed permanently",
    in_flight: "it was sent and has not been answered yet",
    timeout: "no answer in time",
    connection_lost: "the connection was lost",
    refused: "the connection was refused",
    dns: "the host name was not found",
    tls: "the TLS handshake or certificate failed",
    network: "a network error",
    challenged: "a firewall answered with a challenge that only a browser can solve",
    permanent: "your server rejected it permanently",
    gone: "your server answered 410 Gone",
    exhausted: "all attempts failed",
    expired: "it expired",
    forbidden_target: "requests to its address are not allowed",
    too_large: "it is too large for the endpoint's queue",
    event_removed: "the event was deleted",
    corrupt: "the stored event is damaged",
    poison: "it could not be processed",
    destination_deleted: "the endpoint was deleted",
    cancelled_by_request: "the sender cancelled it",
    erased: "the contents of the event were erased",
    transformed: "the endpoint's transformation left it out",
  } satisfies Readonly<Record<Reason, string>>,
  pauses: {
    gone: "We paused it because your server answered 410 Gone.",
    rejecting: "We paused it because your server rejected more than a hundred deliveries in a row.",
    failing: "We paused it because nothing could be delivered for five days.",
    transform_failing: "We paused it because its transformation failed for more than forty deliveries.",
  } satisfies Readonly<Record<Exclude<(typeof pauseReasons)[number], "manual">, string>>,
  replayReason: {
    manual: "stopped by hand",
    doubtful: "slower, because attempts fail",
    stuck: "waiting until the endpoint takes deliveries again",
    destination_paused: "waiting until the endpoint is resumed",
    destination_deleted: "stopped, because the endpoint was deleted",
  } satisfies Readonly<Record<(typeof replayReasons)[number], string>>,
  refusals: {
    read: "You have no access to this.",
    create_endpoint: "You may not add endpoints here.",
    change_endpoint: "You may not change endpoints here.",
    write_transform: "You may not write transformations here.",
    write_code: "You may not write code here.",
    preview_endpoint: "You may not try settings on past events here.",
    pause_endpoint: "You may not pause endpoints here.",
    resume_endpoint: "You may not resume endpoints here.",
    delete_endpoint: "You may not delete endpoints here.",
    rotate_secret: "You may not rotate signing secrets here.",
    send_test: "You may not send test events here.",
    resend: "You may not send deliveries again here.",
    manage_poll_keys: "You may not create keys here.",
    see_payload: "You may not see the contents of events here.",
  } satisfies Readonly<Record<PortalAction, string>>,
  faults: {
    url: "Enter a public address that begins with https://, such as https://example.com/webhooks.",
    description: "Use at most 500 characters.",
    event_types: "Use exact names such as invoice.paid, or a prefix with a star such as invoice.*.",
    filter: "This filter is not valid. Compare it with the examples below the field.",
    filterJson: 'This is not valid JSON. A filter looks like {"order.total": {"gte": 100}}.',
    headers:
      "One of the headers cannot be set. Use a name of your own, such as X-Api-Key, and a value of at most 1,024 plain characters.",
    headerLines: "Write one header on each line, and each header once: the name, a colon, and the value.",
    body: kitTexts.chooseOne,
    transform: "This template is not valid.",
    event_versions: "Choose versions that these event types have.",
    signature_forms:
      "The endpoint cannot be signed like this: each header may be set only once, by a form or by your own headers, and a key pair works only with Standard Webhooks.",
    overlap_hours: "Enter a number of hours from 0 to 168.",
    since: "Enter a time in the past, within the time that events are stored.",
  } satisfies Faults,
  /** The fields of an endpoint that are one line of text. */
  fields: {
    description: { label: "Name", hint: "Shown in your list of endpoints." },
  } satisfies Readonly<Record<VisitorText, Readonly<{ label: string; hint: string }>>>,
  limitNames: {
    max_concurrency: "Requests at the same time",
    rate_per_second: "Requests per second",
  } satisfies Readonly<Record<LimitedField, string>>,
  limitFaults: {
    max_concurrency: "Enter a whole number from 1 to 1,000.",
    rate_per_second: "Enter a number from 0.01 to 10,000.",
  } satisfies Readonly<Record<LimitedField, string>>,

  skip: "Skip to the content",
  pages: "Pages",
  endpoints: "Endpoints",
  eventTypes: "Event types",
  yourWebhooks: "Webhooks",
  backTo: (name: string) => `Back to ${name}`,
  backToSender: "Back",
  leave: "Close",
  language: "Language",
  theme: "Theme",
  themes: { auto: "Automatic", light: "Light", dark: "Dark" },
  apply: "Apply",
  timesAreUtc: "Times are UTC.",
  live: "Live",
  late: "Connection lost; retrying",
  copied: "Copied",
  notCopied: "Copy failed: select the text",
  cancel: "Cancel",
  none: "none",
  justNow: "just now",

  enter: {
    title: "Your webhooks",
    lede: "Choose where events are sent, and see what was delivered.",
    open: "Open",
    invalid: "This link is not valid or has expired",
    used: "This link has already been used",
    again: "Go back to where you found the link, and request a new one.",
    ended: "Your visit has ended",
  },
  notFound: {
    title: "Page not found",
    text: "It does not exist, or you have no access to it.",
    back: "Back to the endpoints",
  },
  failed: {
    title: "Something went wrong on our side",
    soon: "It should be over in a few seconds.",
    again: "It is safe to try again.",
  },
  refused: {
    title: "Request refused",
    busy: "Too many requests at the moment. Wait a little, and try again.",
    conflict: "Something else was changed at the same time. Check the current state, and try again.",
    unavailable: "This cannot be done at the moment. Try again in a few seconds.",
    general: "The request was refused. Check what you entered.",
    changed:
      "The endpoint was changed after you opened this form. Your input is below: if you save again, it overwrites those changes.",
  },
  readOnly: "You can see everything here, but cannot change anything.",

  list: {
    lede: "Events are sent to your endpoints, the addresses of your servers.",
    add: "Add endpoint",
    endpoint: "Endpoint",
    status: "Status",
    traffic: "Last 24 hours",
    full: (most: string) => `You have reached your limit of ${withNoun(most, "endpoint")}.`,
    emptyTitle: "No endpoints yet",
    emptyLede: "Events are sent to your server as HTTPS requests. Tell us where.",
    emptySteps: [
      "Write a handler that answers POST requests with 2xx.",
      "Add its address here, and copy the signing secret.",
      "Send a test event, and see the request and your server's answer.",
    ],
    emptyReadOnly:
      "Nothing is sent to your servers at the moment. You can view endpoints, but not add any. Ask whoever gave you this link.",
    noMore: "No further endpoints.",
    attempts: (attempts: string, failures: string) => `${requests(attempts)}, ${failures} failed`,
  },

  status: {
    paused: "Paused",
    unknown: "Unknown",
    hold: "On hold",
    circuit_open: "Failing",
    probing: "Recovering",
    storm: "Failing",
    rate_limited: "Rate limited",
    idle: "Idle",
    failing: "Failing",
    recovering: "Recovering",
    healthy: "Healthy",
  },
  statusText: {
    paused: "Paused. New events are kept and sent after you resume the endpoint.",
    unknown: "The state of this endpoint cannot be read at the moment.",
    hold: (time: string) => `Your server asked us to wait. Sending continues in ${time}.`,
    circuit_open: (time: string) =>
      `Your server is failing. We try again in ${time}. Until then deliveries wait, which uses up no attempts.`,
    probing: "One request tests whether your server has recovered.",
    storm: "Most requests are retries of failed ones. Check what your server answers.",
    rate_limited: "Sending as fast as the endpoint's rate limit allows.",
    idle: "Nothing was sent in the last 15 minutes.",
    failing: (failed: string, all: string) =>
      all === "1" ? "The last request failed." : `${failed} of the last ${requests(all)} failed.`,
    recovering: "Your server is recovering. Sending speeds up step by step.",
    healthy: (succeeded: string, all: string) =>
      all === "1" ? "The last request succeeded." : `${succeeded} of the last ${requests(all)} succeeded.`,
  },

  endpoint: {
    pause: "Pause",
    resume: "Resume",
    test: "Send a test event",
    edit: "Change",
    allEvents: "All event types",
    actions: "Actions",
    settings: "Settings",
    address: "Address",
    events: "Events",
    filter: "Filter",
    signature: "Signature",
    subscription: "Subscription",
    subscriptionUntil: (time: string) => `An agent's (MCP Events), until ${time} unless the agent renews it`,
    limits: "Limits",
    limitsText: (concurrency: string, rate: string) =>
      `${requests(concurrency)} at the same time, ${rate} per second`,
    attempts24h: "Requests in the last 24 hours",
    succeeded: "succeeded",
    failedLegend: "failed",
    chart: (all: string, failed: string) =>
      `${requests(all)} in the last 24 hours, ${failed} of them failed.`,
    hoursAgo: "24 h ago",
    delete: "Delete endpoint",
    deleteText:
      "Nothing more is sent to this address, and waiting deliveries are cancelled. This cannot be undone. To keep them, pause the endpoint instead.",
    deleteConfirm: "Delete permanently",
    notHttps: "This endpoint was set up for you. Its target cannot be changed here.",
    unreadable: "not readable",
  },

  blocked: {
    ...kitTexts.blocked,
    text: "Events of the same key are sent in order. These wait for the first one of their key. If that was given up, send it again to continue.",
  },

  secret: {
    ...kitTexts.secret,
    text: "Requests are signed with this secret, so that your server can detect forged ones.",
    tooMany: (time: string) =>
      `The maximum number of secrets is in use. Rotate again in ${time}, or rotate now with 0 hours, which ends the older secrets.`,
  },

  form: {
    editTitle: "Change endpoint",
    labels: {
      url: "Address (URL)",
      event_types: "Which events should be sent?",
      filter: "Filter (JSON)",
      headers: "Your own headers",
    },
    more: "More",
    allTypes: "All events",
    someTypes: "Only those chosen below",
    otherTypes: "Other types, or prefixes",
    otherTypesHint:
      'Separated by spaces or commas. invoice.* matches every type that begins with "invoice.".',
    chooseSome: "Choose at least one type, or all events.",
    details: "Example and schema",
    filterHint:
      'Only events whose data matches are sent. Empty means all. Examples: {"order.status": "paid"}, {"order.total": {"gte": 100}}, {"country": {"in": ["DE", "AT"]}}',
    headersHint:
      "One on each line, as in X-Api-Key: secret. They are sent with every request, and their values are not shown again.",
    headersKept: (names: string) =>
      `Currently set: ${names}. Leave this empty to keep them. What you enter replaces all of them.`,
    headersRemove: "Remove all your own headers",
    limitsHint: "Leave a field empty to use its default.",
    atMost: (most: string) => `You may set at most ${most}.`,
  },

  preview: {
    ...kitTexts.preview,
    try: "Try it on the last events",
    nothingSaved: "This saves nothing.",
  },

  signing: {
    ...kitTexts.signing,
    title: "Body and signature",
    body: "What is sent",
    bodies: {
      envelope: "An envelope with type, timestamp and data",
      data: "The data alone, as it was posted",
    },
    formsHint:
      "Each request is signed in all of these forms. To change the form, add the new one, change your server, then remove the old one.",
    fields: { ...templateFields, content: "Text that is signed" },
    faults: {
      content:
        "Use at most 200 plain characters, with {body} once and no other braces than those of {id}, {timestamp} and {type}.",
      header: (example: string) => `Use the name of a header that nothing else sets, such as ${example}.`,
      prefix: "Use at most 100 plain characters, such as sha256=.",
    },
  },

  done: {
    "created-before": "This form was sent twice. The endpoint was added only once.",
    saved: "Saved. It applies to the next requests.",
    paused: "Paused. New events are kept until you resume the endpoint.",
    resumed: "Resumed. Waiting deliveries are sent now, slowly at first.",
    deleted: "Endpoint deleted.",
    resent: "It is sent again as soon as the endpoint can take it.",
    replaying: "Resending has started.",
    "replay-cancelled": "Stopped. Deliveries that are already queued are still sent.",
    "rotated-before":
      "This form was sent twice. The secret was rotated only once. If you did not save the new secret, rotate it again.",
    "key-revoked": "Key revoked. It stops working within a minute.",
    "none-selected": "Nothing was selected.",
  },
  resentSome: (done: string, all: string) => `Sending ${done} of ${all} again.`,
  resentNot: "The others have not ended yet, or cannot be sent again.",

  log: {
    ...kitTexts.log,
    selectAll: "Select all on this page",
    resendSelected: "Send selected again",
    erased: "Contents erased: cannot be sent again.",
    empty: "Nothing was sent yet. Send a test event, or wait for the first event.",
    emptyReadOnly: "Nothing was sent yet.",
    emptyState: "No deliveries in this state.",
  },

  delivery: {
    queued: "Waiting for its first attempt",
    waitingUntil: (why: string, time: string) => `${why}. It waits for ${time} more.`,
    retrying: (number: string, time: string, why: string) =>
      `Attempt ${number} follows in ${time}; the last one failed: ${why}`,
    retryingNow: (number: string, why: string) => `Attempt ${number} is due; the last one failed: ${why}`,
    inFlight: "Sent; no answer yet",
    delivered: "Delivered at the first attempt",
    deliveredAt: (number: string) => `Delivered at attempt ${number}`,
    acceptedAt: (time: string) => `Accepted ${time}`,
    giveUpAt: (time: string) => `given up by ${time}`,
    notAgain: "It cannot be sent again: the contents of the event have been erased.",
    noAttempts: "No request was made yet.",
    attempt: (number: string) => `Attempt ${number}`,
    responseNone: "Answers to successful requests are not stored.",
    beginning: "The beginning of your server's answer.",
    chart: (count: string) => `${withNoun(count, "attempt")} over time`,
    whole: "Show the whole request and answer",
  },

  resend: {
    title: "Send many again",
    text: "Sends deliveries of this endpoint again, no faster than your server can take them.",
    which: "Which",
    dead: "Those that were given up",
    missing: "Those that were never sent to this endpoint",
    delivered: "Those that were delivered",
    since: "Events since (UTC)",
    begin: "Send again",
    underWay: "Resending is in progress. You can start another when it has ended.",
    progress: (delivered: string, all: string) => `${delivered} of ${all} delivered`,
    failedAgain: (count: string) => `${count} failed again`,
  },

  test: {
    ...kitTexts.test,
    noExample: "This event type has no example. Choose another one.",
    tooSoon: (time: string) => `A test event was sent a moment ago. Try again in ${time}.`,
  },

  types: {
    ...kitTexts.types,
    lede: "The names of event types, and what their data looks like.",
    empty: "There is no list of event types yet.",
    emptyText: "Events are sent anyway. An endpoint for all events gets every event.",
    none: "No further event types.",
    version: (n: number) => `Version ${n}`,
    deprecated: (n: number, since: string, until: string | undefined) =>
      `Version ${n} is deprecated since ${since}${until === undefined ? "" : ` and ends on ${until}`}.`,
    versions: "Versions",
    versionsLede:
      "An endpoint gets the version that was the newest when you added it, until you choose another one. A change applies to events that are accepted after it.",
    endpoints: "Your endpoints",
    noEndpoints: "None of these endpoints gets this type.",
    gets: "Gets",
    versionOf: (name: string) => `The version that ${name} gets`,
    saveOf: (name: string) => `Save the version of ${name}`,
  },

  polling: {
    title: "Fetch events",
    target: "Nothing is sent to this endpoint: your programs fetch its events.",
    lede: "Events wait here until your programs fetch them. A program needs a key, which fetches from this endpoint and does nothing else.",
    keys: "Keys",
    none: "No keys yet. Create one, copy it, and run one of the commands below with it.",
    name: "Name",
    nameHint: "A name to recognise it by, such as that of the program that uses it.",
    nameFault: "Use at most 100 characters.",
    create: "Create key",
    once: "The key is shown once.",
    full: "The endpoint has the maximum number of keys. Revoke one that is no longer used.",
    createdTitle: "Key created",
    createdLede: "Copy it now: it is not shown again.",
    key: "The key",
    created: "Created",
    used: "Last used",
    never: "never",
    revoke: "Revoke",
    revokeText: "Programs with this key can no longer fetch events. This cannot be undone.",
    commands: "Commands",
    setKey: "Put the key into your shell",
    listen: "Forward events to a server on your machine, at port 3000",
    fetch: "Fetch the next events, and wait up to 30 seconds for one",
    commit: "Commit what you have processed, with the iterator of the answer",
    again:
      "Events that are not committed within a minute are returned again. So an event may come twice: handle each id once.",
  },

  agent: {
    title: "Connect an agent",
    lede: "An agent such as Claude can find out why an event has not arrived, and do what you can do here. It needs a token, and speaks MCP (Model Context Protocol).",
    make: "Create a token",
    token: "Token",
    until: (moment: string) =>
      `Whoever has this token can do what you can do here. It ends when you close the portal, and on ${moment} UTC at the latest.`,
    confirm: "Ask me before the agent changes anything",
    asked: "Changes that your agents requested",
  },

  actions: {
    ...kitTexts.actions,
    tools: {
      retry_deliveries: "Send deliveries again",
      cancel_deliveries: "Cancel deliveries",
      start_replay: "Start resending",
      cancel_replay: "Stop resending",
      pause_destination: "Pause an endpoint",
      resume_destination: "Resume an endpoint",
      set_limits: "Change an endpoint's limits",
      set_filter: "Change which events an endpoint gets",
      rotate_secret: "Rotate an endpoint's key",
      send_test_event: "Send a test event",
    },
  },

  verify: {
    title: "Verify signatures",
    lede: "Trust a request only if its signature matches. Compute the signature over the raw body, before you parse it.",
    standard:
      "Each request has the headers webhook-id, webhook-timestamp and webhook-signature (Standard Webhooks). The signature is HMAC-SHA256 over id.timestamp.body, in base64. While a secret is being rotated there are several signatures, separated by spaces. One of them must match.",
    ed25519:
      "Each request is signed with an ed25519 key. Verify it with the public keys at the address below, which requires no password.",
    other: (header: string) =>
      `This endpoint uses another signature form. The signature is in the header ${header} and is computed over the text below.`,
    otherText: "The text that is signed",
    keys: "Public keys",
    code: (language: string) => `Code for ${language}`,
    rules: [
      "Refuse a webhook-timestamp that is more than five minutes away from your clock.",
      "Compare in constant time, as the code here does.",
      "Answer with 2xx at once, and process the event afterwards.",
      "Handle each webhook-id once: the same event may arrive twice.",
    ],
    withoutLibrary: "Without a library",
    secretIn: "Put the signing secret into the environment variable WEBHOOK_SECRET.",
  },
};

export type Texts = typeof en;
