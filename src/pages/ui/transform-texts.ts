/** The texts of a transformation's page, in English. The portal has them in its other languages too. */
import type { TransformTemplate } from "../../core/transform/template.ts";

export type TransformPart = keyof TransformTemplate | "code";

/** Names that are the same in every language. */
export const serviceNames = {
  slack: "Slack",
  discord: "Discord",
  teams: "Microsoft Teams",
  pagerduty: "PagerDuty",
} as const;

/** The other languages have the type of this object. */
export const transformTexts = {
  title: "Transformation",
  lede: "Send something else in place of the event: a template in Liquid makes the request. It knows id, type, timestamp, tenant and data. Leave all fields empty to send events as they are.",
  /** The heading of the form that fills in a ready template. */
  ready: "Start from",
  asTheyAre: "Nothing: events as they are",
  readyNames: {
    text: "Plain text",
    form: "A form (URL-encoded)",
    cloudevents: "CloudEvents, structured",
    "cloudevents-binary": "CloudEvents, binary",
  },
  fillIn: "Fill in",
  labels: {
    body: "Body",
    content_type: "Content type",
    headers: "Headers",
    method: "Method",
    path: "Path",
    query: "Query",
    code: "Code, in place of a template",
  },
  hints: {
    body: "In JSON the strings are filled in one by one and need no escaping; a string that is one {{ value }} keeps its type. An event whose body is empty, or that reaches {% cancel %}, is not sent.",
    content_type: "application/json if empty.",
    headers: "One on each line, such as X-Order: {{ data.order.id }}.",
    path: "Begins with /, and follows the path of the URL.",
    query: "One on each line, such as type: {{ type }}. It follows the query of the URL.",
    code: "A JavaScript module: export default (event) => ({ body: event.data }). It returns body, content_type, headers, method and path, all optional, or null so that nothing is sent.",
  },
  saved:
    "Saved. It applies to events that are accepted from now on, and to deliveries that wait because of it.",
  /** The notice of a form that was open while another version was saved. */
  outdated:
    "Another version was saved after you opened this form. Your input is below: check the versions, then save again.",
  notSaved: "It cannot be saved at the moment. Try again in a few seconds.",
  /** Introduces the fault of a part. */
  wrong: "This cannot be used",
  try: "Try it",
  tryHint: "Shows what it makes of the last events and the example. Saves and sends nothing.",
  example: "Example of the event type",
  noExample: "None",
  preview: "Preview",
  noEvents: "No recent event that would be sent. Choose the example of an event type.",
  results: { sent: "Is sent", cancelled: "Is not sent", failed: "Fails" },
  before: "Without it",
  after: "With it",
  changed: (parts: string) => `Changes: ${parts}.`,
  unchanged: "Changes nothing.",
  parts: { method: "method", url: "URL", content_type: "content type", headers: "headers", body: "body" },
  noText: "(content that is not text)",
  versions: "Versions",
  noVersions: "None has been saved yet.",
  version: (number: string) => `Version ${number}`,
  /** A version without a template or code. */
  none: "events as they are",
  show: "Show",
  restore: "Restore",
  /** Introduces the version that is in use. */
  current: "In use:",
  unreadable: "The stored transformation cannot be read, so nothing is sent. Save it again.",
  edit: "Edit the transformation",
  faults: "It failed recently",
  faultsHint: "These deliveries wait, and are sent by the next version that works for them.",
  authors: { portal: "in this portal", sender: "by the sender" },
};

export type TransformTexts = Readonly<typeof transformTexts>;
