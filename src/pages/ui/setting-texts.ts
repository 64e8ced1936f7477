/** The settings of destinations in words, for their forms and their pages. */
import type { BodyForm } from "../../core/content.ts";
import type { Template } from "../../core/message-templates.ts";
import type { SignatureForm } from "../../core/signature-forms.ts";
import type { DestinationKind } from "../../delivery/kinds/sending.ts";

export const kindTexts: Readonly<Record<DestinationKind, string>> = {
  https: "HTTPS endpoint",
  queue: "Cloudflare queue",
  service: "Worker behind a service binding",
  poll: "Inbox that consumers poll",
};

export const bodyTexts: Readonly<Record<BodyForm, string>> = {
  envelope: "Envelope with type, timestamp and data",
  data: "The data alone, as it was posted",
};

export const orderTexts = {
  ordering: {
    "": "Any order",
    destination: "All events in order",
    key: "Events with the same key in order",
  },
  on_dead: { skip: "Continue with the next one", hold: "Hold the key until it is retried or skipped" },
} as const;

export const templateTexts: Readonly<Record<Template, string>> = {
  slack: "A message for Slack",
  discord: "A message for Discord",
  teams: "A message for Microsoft Teams",
  pagerduty: "An alert for PagerDuty",
  svix: "An operational webhook as Svix sends it",
};

export const formTexts: Readonly<Record<SignatureForm["form"], string>> = {
  standard: "Standard Webhooks",
  svix: "Svix",
  stripe: "Stripe",
  github: "GitHub",
  slack: "Slack",
  shopify: "Shopify",
  template: "Template",
};
