/** The texts of a transformation's page, in English. The portal has them in its other languages too. */
import type { ReadyTemplate } from "../../core/transform/ready.ts";
import type { TransformTemplate } from "../../core/transform/template.ts";
import type { TransformPreview } from "../../features/destinations/transforms.ts";

export type TransformPart = keyof TransformTemplate | "code";
type Preview = TransformPreview["events"][number];

/** Names that are the same in every language. */
export const serviceNames = {
  slack: "Slack",
  discord: "Discord",
  teams: "Microsoft Teams",
  pagerduty: "PagerDuty",
} as const;

export type TransformTexts = Readonly<{
  title: string;
  lede: string;
  /** The heading of the form that fills in a ready template. */
  ready: string;
  asTheyAre: string;
  readyNames: Readonly<Record<Exclude<ReadyTemplate, keyof typeof serviceNames>, string>>;
  fillIn: string;
  labels: Readonly<Record<TransformPart, string>>;
  hints: Readonly<Record<Exclude<TransformPart, "method">, string>>;
  save: string;
  saved: string;
  /** The notice of a form that was open while another version was saved. */
  outdated: string;
  notSaved: string;
  /** Introduces the fault of a part. */
  wrong: string;
  try: string;
  tryHint: string;
  example: string;
  noExample: string;
  preview: string;
  noEvents: string;
  exampleOf: (type: string) => string;
  results: Readonly<Record<Preview["result"], string>>;
  before: string;
  after: string;
  changed: (parts: string) => string;
  unchanged: string;
  parts: Readonly<Record<Preview["changed"][number], string>>;
  noText: string;
  versions: string;
  noVersions: string;
  version: (number: string) => string;
  /** A version without a template or code. */
  none: string;
  show: string;
  restore: string;
  /** Introduces the version at work. */
  current: string;
  unreadable: string;
  edit: string;
  faults: string;
  faultsHint: string;
  authors: Readonly<Record<"portal" | "sender", string>>;
}>;

export const transformTexts: TransformTexts = {
  title: "Transformation",
  lede: "Send something else in place of the event: a template in Liquid makes the request. It knows id, type, timestamp, tenant and data. Leave all fields empty to send events as they are.",
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
    body: "In JSON the strings are filled in one by one and need no escaping; a string that is one {{ value }} keeps its type. An event whose body comes out empty is not sent, nor one that reaches {% cancel %}.",
    content_type: "application/json where empty.",
    headers: "One on each line, such as X-Order: {{ data.order.id }}.",
    path: "Begins with /, and follows the path of the URL.",
    query: "One on each line, such as type: {{ type }}. It follows the query of the URL.",
    code: "A JavaScript module: export default (event) => ({ body: event.data }). It returns body, content_type, headers, method and path, all optional, or null so that nothing is sent.",
  },
  save: "Save",
  saved: "Saved. It is for events that are accepted from now on, and for those that wait because of it.",
  outdated:
    "Another version was saved after you opened this form. Your input is below: check the versions, then save again.",
  notSaved: "It cannot be saved at the moment. Try again in a few seconds.",
  wrong: "This cannot be used",
  try: "Try it",
  tryHint: "Shows what it makes of the last events and the example. Saves and sends nothing.",
  example: "Example of the event type",
  noExample: "None",
  preview: "Preview",
  noEvents: "No recent event that would be sent. Choose the example of an event type.",
  exampleOf: (type) => `Example of ${type}`,
  results: { sent: "Is sent", cancelled: "Is not sent", failed: "Fails" },
  before: "Without it",
  after: "With it",
  changed: (parts) => `Changes: ${parts}.`,
  unchanged: "Changes nothing.",
  parts: { method: "method", url: "URL", content_type: "content type", headers: "headers", body: "body" },
  noText: "(content that is no text)",
  versions: "Versions",
  noVersions: "None has been saved yet.",
  version: (number) => `Version ${number}`,
  none: "events as they are",
  show: "Show",
  restore: "Restore",
  current: "At work:",
  unreadable: "What is stored cannot be read, so nothing is sent. Save it again.",
  edit: "Edit the transformation",
  faults: "Its last faults",
  faultsHint: "These deliveries wait, and are sent by the next version that works for them.",
  authors: { portal: "in this portal", sender: "by the sender" },
};
