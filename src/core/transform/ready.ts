/**
 * Ready templates, to pick and to adapt. A destination stores the text that it picked, so that a change here affects no
 * destination's requests.
 */
import type { TransformTemplate } from "./template.ts";

export const readyTemplates = [
  "slack",
  "discord",
  "teams",
  "pagerduty",
  "text",
  "form",
  "cloudevents",
  "cloudevents-binary",
] as const;
export type ReadyTemplate = (typeof readyTemplates)[number];

export function readyTemplate(name: ReadyTemplate): TransformTemplate {
  return templates[name];
}

function json(value: unknown): string {
  return JSON.stringify(value, null, 2);
}

const ABOUT = "{{ timestamp }} · {{ id }}";

const templates: Readonly<Record<ReadyTemplate, TransformTemplate>> = {
  // Plain text has no mentions and no links, so an event cannot notify anybody.
  slack: {
    body: json({
      text: "{{ type }}",
      blocks: [
        { type: "header", text: { type: "plain_text", text: "{{ type | truncate: 150 }}" } },
        { type: "section", text: { type: "plain_text", text: "{{ data | json: 2 | truncate: 2900 }}" } },
        { type: "context", elements: [{ type: "plain_text", text: ABOUT }] },
      ],
    }),
  },
  discord: {
    body: json({
      embeds: [
        {
          title: "{{ type | truncate: 250 }}",
          description: "```json\n{{ data | json: 2 | truncate: 2300 | replace: '```', '` ` `' }}\n```",
          footer: { text: "{{ id }}" },
          timestamp: "{{ timestamp }}",
        },
      ],
      allowed_mentions: { parse: [] },
    }),
  },
  teams: {
    body: json({
      type: "message",
      attachments: [
        {
          contentType: "application/vnd.microsoft.card.adaptive",
          contentUrl: null,
          content: {
            $schema: "http://adaptivecards.io/schemas/adaptive-card.json",
            type: "AdaptiveCard",
            version: "1.4",
            body: [
              textRun({ text: "{{ type }}", size: "Medium", weight: "Bolder" }),
              textRun({ text: "{{ data | json: 2 | truncate: 5000 }}", fontType: "Monospace" }),
              textRun({ text: ABOUT, isSubtle: true }),
            ],
          },
        },
      ],
    }),
  },
  // The integration key is the destination's header `x-routing-key`, which is stored sealed.
  pagerduty: {
    body: json({
      event_action: "trigger",
      dedup_key: "{{ id }}",
      payload: {
        summary: "{{ type }}: {{ data | json | truncate: 900 }}",
        source: "{{ tenant }}",
        severity: "error",
        timestamp: "{{ timestamp }}",
        class: "{{ type }}",
        custom_details: "{{ data }}",
      },
    }),
  },
  text: {
    content_type: "text/plain; charset=utf-8",
    body: "{{ type }} {{ timestamp }}\n{{ data | json: 2 }}\n",
  },
  form: {
    content_type: "application/x-www-form-urlencoded",
    body:
      "id={{ id }}&type={{ type }}&timestamp={{ timestamp }}" +
      "{% for field in data %}&{{ field[0] }}={{ field[1] }}{% endfor %}",
  },
  cloudevents: {
    content_type: "application/cloudevents+json",
    body: json({
      specversion: "1.0",
      id: "{{ id }}",
      source: "/tenants/{{ tenant }}",
      type: "{{ type }}",
      time: "{{ timestamp }}",
      datacontenttype: "application/json",
      data: "{{ data }}",
    }),
  },
  "cloudevents-binary": {
    body: "{{ data | json }}",
    headers: {
      "ce-specversion": "1.0",
      "ce-id": "{{ id }}",
      "ce-source": "/tenants/{{ tenant }}",
      "ce-type": "{{ type }}",
      "ce-time": "{{ timestamp }}",
    },
  },
};

/** Text without Markdown, in which an event could hide a link. */
function textRun(run: Readonly<Record<string, unknown>>) {
  return { type: "RichTextBlock", inlines: [{ type: "TextRun", ...run }] };
}
