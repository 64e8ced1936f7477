/**
 * Templates: messages for services for people and on-call, and for receivers of Svix, in place of an operational event.
 * A template is a pure function of the stored event, so that every attempt sends the same bytes.
 *
 * - Slack: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
 * - Discord: https://discord.com/developers/docs/resources/webhook#execute-webhook
 * - Microsoft Teams, a workflow with the trigger for webhooks: https://adaptivecards.io/explorer/
 * - Svix, its operational webhooks: svix-operational.ts
 * - PagerDuty, Events API v2: https://developer.pagerduty.com/docs/events-api-v2/overview/
 */

import { messageAbout, type OperationalMessage, type Severity, svixEventOf } from "./operational-message.ts";
import { portionsOf } from "./portions.ts";

export const templates = ["slack", "discord", "teams", "pagerduty", "svix"] as const;
export type Template = (typeof templates)[number];

/** The template in effect; undefined if there is none, or an edit by hand has made it unknown. */
export function templateOf(stored: unknown): Template | undefined {
  return templates.find((one) => one === stored);
}

/** The facts that are shown at most, and their length in all. Escaping may double it: Discord takes 25 with 6,000. */
const MOST_FACTS = 15;
const LONGEST_FACTS = 2_400;
const LONGEST_TITLE = 120;
const LONGEST_NAME = 60;
const LONGEST_VALUE = 300;

/**
 * The JSON that is sent for a stored event.
 * @param envelope the text of the event, with `type`, `timestamp` and `data`
 */
export function rendered(template: Template, envelope: string): string {
  const { type, timestamp, data } = JSON.parse(envelope) as {
    type: string;
    timestamp: string;
    data: unknown;
  };
  if (template === "svix") return JSON.stringify(svixEventOf(type, data));
  return renderedMessage(template, messageAbout(type, data), { type, timestamp });
}

/** The JSON of a message that is in words already. */
export function renderedMessage(
  template: Exclude<Template, "svix">,
  message: OperationalMessage,
  about: Readonly<{ type: string; timestamp: string }>,
): string {
  const facts = shownFacts(message);
  const headline = short([message.title, message.subject].filter(Boolean).join(": "), LONGEST_TITLE);
  return JSON.stringify(
    renderers[template]({ linkText: "Open the page", ...message, ...about, facts, headline }),
  );
}

function shownFacts({ facts }: OperationalMessage) {
  let left = LONGEST_FACTS;
  return facts
    .slice(0, MOST_FACTS)
    .map(([name, value]) => [short(name, LONGEST_NAME), short(value, LONGEST_VALUE)] as const)
    .filter(([name, value]) => {
      left -= name.length + value.length;
      return left >= 0;
    });
}

type Rendering = OperationalMessage &
  Readonly<{ linkText: string; headline: string; type: string; timestamp: string }>;

const renderers: Readonly<Record<Exclude<Template, "svix">, (message: Rendering) => unknown>> = {
  slack: slackMessage,
  discord: discordMessage,
  teams: teamsMessage,
  pagerduty: pagerDutyEvent,
};

const FOOTER = "Breakwater";

function slackMessage({ headline, facts, severity, link, linkText, type }: Rendering) {
  const text = `${slackSigns[severity]} *${slackText(headline)}*`;
  // A section takes ten fields.
  const sections = portionsOf(facts, 10).map((some) => ({
    type: "section",
    fields: some.map(([name, value]) => mrkdwn(`*${slackText(name)}*\n${slackText(value)}`)),
  }));
  const footer = [
    `${FOOTER} · ${type}`,
    ...(link === undefined ? [] : [`<${slackText(link)}|${slackText(linkText)}>`]),
  ];
  return {
    // The text that notifications show.
    text: slackText(headline),
    blocks: [
      { type: "section", text: mrkdwn(text) },
      ...sections,
      { type: "context", elements: [mrkdwn(footer.join(" · "))] },
    ],
    unfurl_links: false,
    unfurl_media: false,
  };
}

const slackSigns: Readonly<Record<Severity, string>> = {
  critical: ":rotating_light:",
  error: ":red_circle:",
  warning: ":large_yellow_circle:",
  info: ":large_green_circle:",
};

function mrkdwn(text: string) {
  return { type: "mrkdwn", text, verbatim: true } as const;
}

/** Slack's three control characters; mentions and links begin with one of them. */
function slackText(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function discordMessage({ headline, facts, severity, link, type, timestamp }: Rendering) {
  return {
    embeds: [
      {
        title: markdownText(headline),
        color: colours[severity],
        ...(link !== undefined && { url: link }),
        fields: facts.map(([name, value]) => ({
          name: markdownText(name),
          value: markdownText(value) || "–",
          inline: true,
        })),
        footer: { text: `${FOOTER} · ${type}` },
        timestamp,
      },
    ],
    // Names of tenants and hosts must not mention anybody.
    allowed_mentions: { parse: [] },
  };
}

const colours: Readonly<Record<Severity, number>> = {
  critical: 0xb0_00_20,
  error: 0xd9_3a_2b,
  warning: 0xe0_a1_00,
  info: 0x2e_8b_57,
};

function teamsMessage({ headline, facts, severity, link, linkText, type }: Rendering) {
  const heading = {
    type: "TextBlock",
    size: "Medium",
    weight: "Bolder",
    color: teamsColours[severity],
    text: markdownText(headline),
    wrap: true,
  };
  const factSet = {
    type: "FactSet",
    facts: facts.map(([name, value]) => ({ title: markdownText(name), value: markdownText(value) })),
  };
  const footer = { type: "TextBlock", isSubtle: true, text: `${FOOTER} · ${markdownText(type)}`, wrap: true };
  const content = {
    $schema: "http://adaptivecards.io/schemas/adaptive-card.json",
    type: "AdaptiveCard",
    version: "1.4",
    body: [heading, factSet, footer],
    ...(link !== undefined && {
      actions: [{ type: "Action.OpenUrl", title: linkText, url: link }],
    }),
  };
  const contentType = "application/vnd.microsoft.card.adaptive";
  return { type: "message", attachments: [{ contentType, contentUrl: null, content }] };
}

const teamsColours: Readonly<Record<Severity, string>> = {
  critical: "Attention",
  error: "Attention",
  warning: "Warning",
  info: "Good",
};

/** The routing key is a header of the destination, `x-routing-key`, because those are sealed. */
function pagerDutyEvent({
  headline,
  facts,
  severity,
  link,
  linkText,
  subject,
  type,
  timestamp,
  problem,
  isEnd,
}: Rendering) {
  const dedupKey = short(`breakwater ${problem}`, 255);
  const common = { event_action: isEnd ? "resolve" : "trigger", dedup_key: dedupKey };
  if (isEnd) return common;
  return {
    ...common,
    client: FOOTER,
    ...(link !== undefined && { client_url: link, links: [{ href: link, text: linkText }] }),
    payload: {
      summary: headline,
      source: subject || FOOTER.toLowerCase(),
      severity,
      timestamp,
      class: type,
      component: FOOTER.toLowerCase(),
      custom_details: Object.fromEntries(facts),
    },
  };
}

/** The text without Markdown's special characters. */
function markdownText(text: string): string {
  return text.replaceAll(/[\\`*_{}[\]()#+!|<>~]/g, String.raw`\$&`);
}

function short(text: string, most: number): string {
  const characters = [...text];
  return characters.length <= most ? text : `${characters.slice(0, most - 1).join("")}…`;
}
