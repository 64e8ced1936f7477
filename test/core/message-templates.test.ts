/** Templates: an operational event becomes what each service takes, within its limits, whatever it is about. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { envelopeOf } from "../../src/core/content.ts";
import { rendered, templateOf, templates } from "../../src/core/message-templates.ts";
import { svixTypeOf } from "../../src/core/operational-message.ts";

const AT = "2026-11-22T12:00:00.000Z";
const LINK = "https://hooks.example.com/dashboard/destinations/dst_one";

const opened = {
  at: AT,
  destination_id: "dst_one",
  tenant: "acme",
  host: "hooks.acme.example",
  last_15_minutes: { retries: 40, failures: 51 },
  link: LINK,
};

const made = (template: (typeof templates)[number], type: string, data: unknown) =>
  JSON.parse(rendered(template, envelopeOf(type, AT, data)));

/** The message for an event with little content: one fact, which is empty, and no link. */
const bare = (template: (typeof templates)[number]) => made(template, "shop.closed", { note: "" });

test("Slack gets text that it does not interpret, without previews of links", () => {
  const mrkdwn = (text: string) => ({ type: "mrkdwn", text, verbatim: true });
  expect(bare("slack")).toEqual({
    text: "shop.closed",
    blocks: [
      { type: "section", text: mrkdwn(":large_green_circle: *shop.closed*") },
      { type: "section", fields: [mrkdwn("*note*\n")] },
      { type: "context", elements: [mrkdwn("Breakwater · shop.closed")] },
    ],
    unfurl_links: false,
    unfurl_media: false,
  });
  const { blocks } = made("slack", "shop.closed", { link: LINK });
  expect(blocks.at(-1).elements).toEqual([mrkdwn(`Breakwater · shop.closed · <${LINK}|Open the page>`)]);
});

test("Slack gets a sign of the severity", () => {
  const signs = ["sweep.stalled", "delivery.dead", "destination.paused", "destination.resumed"].map(
    (type) => made("slack", type, {}).blocks[0].text.text.split(" ")[0],
  );
  for (const sign of signs) expect(sign).toMatch(/^:[a-z_]+:$/);
  expect(new Set(signs).size).toBe(4);
});

test("Discord gets no empty field, and no missing link", () => {
  expect(bare("discord")).toEqual({
    embeds: [
      {
        title: "shop.closed",
        color: 0x2e_8b_57,
        fields: [{ name: "note", value: "–", inline: true }],
        footer: { text: "Breakwater · shop.closed" },
        timestamp: AT,
      },
    ],
    allowed_mentions: { parse: [] },
  });
});

test("Teams gets a card of a title, the facts and a line below, without a button if there is no link", () => {
  expect(bare("teams")).toEqual({
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
            {
              type: "TextBlock",
              size: "Medium",
              weight: "Bolder",
              color: "Good",
              text: "shop.closed",
              wrap: true,
            },
            { type: "FactSet", facts: [{ title: "note", value: "" }] },
            { type: "TextBlock", isSubtle: true, text: "Breakwater · shop.closed", wrap: true },
          ],
        },
      },
    ],
  });
});

test.each([
  ["sweep.stalled", "Attention"],
  ["delivery.dead", "Attention"],
  ["destination.paused", "Warning"],
  ["destination.resumed", "Good"],
])("Teams shows the title of %s in the colour %s", (type, colour) => {
  expect(made("teams", type, {}).attachments[0].content.body[0].color).toBe(colour);
});

test("PagerDuty gets no missing link, and Breakwater as the source of events without a subject", () => {
  const event = bare("pagerduty");
  expect(Object.keys(event)).toEqual(["event_action", "dedup_key", "client", "payload"]);
  expect(event.payload).toMatchObject({
    source: "breakwater",
    component: "breakwater",
    summary: "shop.closed",
  });
});

test("a title of more than 120 characters is cut between two of them", () => {
  const titleOf = (type: string) => made("slack", type, {}).text;
  expect(titleOf("😀".repeat(120))).toBe("😀".repeat(120));
  expect(titleOf("😀".repeat(121))).toBe(`${"😀".repeat(119)}…`);
});

test("the title names the subject of an event, if it has one", () => {
  expect(made("slack", "sweep.stalled", {}).text).toBe("The sweep has stalled");
  expect(made("slack", "threshold.crossed", { threshold: "retry_rate" }).text).toBe(
    "A threshold is crossed: retry_rate",
  );
});

test("as many facts are shown as fit into 2,400 characters, and at most 15", () => {
  const shown = (count: number, length: number) => {
    const facts = Array.from({ length: count }, (_, i) => [String(i).padStart(2, "0"), "x".repeat(length)]);
    return made("discord", "shop.closed", Object.fromEntries(facts)).embeds[0].fields.length;
  };
  expect(shown(9, 298)).toBe(8);
  expect(shown(9, 299)).toBe(7);
  expect(shown(20, 1)).toBe(15);
});

test("Slack gets a title, the facts in sections of ten, and a link", () => {
  const facts = Object.fromEntries(Array.from({ length: 12 }, (_, index) => [`fact_${index}`, index]));
  const { text, blocks } = made("slack", "destination.circuit_opened", { ...opened, ...facts });
  expect(text).toBe("Circuit opened: hooks.acme.example (dst_one)");
  expect(blocks[0].text.text).toBe(":red_circle: *Circuit opened: hooks.acme.example (dst_one)*");
  expect(blocks.slice(1, -1).map(({ fields }: { fields: unknown[] }) => fields.length)).toEqual([10, 5]);
  expect(blocks.at(-1).elements[0].text).toContain(`<${LINK}|Open the page>`);
});

test("Slack gets no markup, mention or link from the texts of an event", () => {
  const text = rendered(
    "slack",
    envelopeOf("delivery.dead", AT, { host: "<!channel> & <http://evil|click>" }),
  );
  expect(text).toContain("&lt;!channel&gt; &amp; &lt;http://evil|click&gt;");
  expect(text).not.toContain("<!channel>");
});

test("Discord gets an embed that mentions nobody", () => {
  const { embeds, allowed_mentions } = made("discord", "destination.circuit_opened", opened);
  expect(allowed_mentions).toEqual({ parse: [] });
  expect(embeds[0]).toMatchObject({ url: LINK, timestamp: AT, color: 0xd9_3a_2b });
  expect(embeds[0].fields).toContainEqual({
    name: String.raw`last\_15\_minutes.retries`,
    value: "40",
    inline: true,
  });
});

test("Teams gets an adaptive card, with Markdown taken as text", () => {
  const data = { ...opened, host: "[click](https://evil.example)" };
  const { type, attachments } = made("teams", "destination.circuit_opened", data);
  expect(type).toBe("message");
  const { contentType, content } = attachments[0];
  expect(contentType).toBe("application/vnd.microsoft.card.adaptive");
  expect(content.body[0].text).toContain(String.raw`\[click\]\(https://evil.example\)`);
  expect(content.actions).toEqual([{ type: "Action.OpenUrl", title: "Open the page", url: LINK }]);
});

describe("PagerDuty", () => {
  test("gets an alert with source, severity and details", () => {
    expect(made("pagerduty", "destination.circuit_opened", opened)).toEqual({
      event_action: "trigger",
      dedup_key: "breakwater destination.circuit_opened dst_one",
      client: "Breakwater",
      client_url: LINK,
      links: [{ href: LINK, text: "Open the page" }],
      payload: {
        summary: "Circuit opened: hooks.acme.example (dst_one)",
        source: "hooks.acme.example (dst_one)",
        severity: "error",
        timestamp: AT,
        class: "destination.circuit_opened",
        component: "breakwater",
        custom_details: {
          at: AT,
          destination_id: "dst_one",
          tenant: "acme",
          host: "hooks.acme.example",
          "last_15_minutes.retries": "40",
          "last_15_minutes.failures": "51",
        },
      },
    });
  });

  test.each([
    ["destination.circuit_opened", "destination.circuit_closed"],
    ["destination.storm_detected", "destination.recovered"],
    ["destination.paused", "destination.resumed"],
  ])("gets the end of %s under the key of its beginning", (beginning, end) => {
    const began = made("pagerduty", beginning, opened);
    expect(made("pagerduty", end, opened)).toEqual({ event_action: "resolve", dedup_key: began.dedup_key });
  });

  test("gets the trouble of two destinations under two keys", () => {
    const keys = ["dst_one", "dst_two"].map(
      (destination_id) => made("pagerduty", "delivery.dead", { destination_id }).dedup_key,
    );
    expect(new Set(keys).size).toBe(2);
  });
});

describe("a receiver of Svix's operational webhooks", () => {
  test.each([
    ["destination.paused", { ...opened, reason: "manual" }, "endpoint.disabled", { trigger: "manual" }],
    ["destination.paused", { ...opened, reason: "gone" }, "endpoint.disabled", { trigger: "automatic" }],
    ["destination.resumed", { ...opened, reason: "manual" }, "endpoint.enabled", {}],
  ])("gets %s with %j as %s", (type, data, theirs, rest) => {
    const about = { appId: "acme", endpointId: "dst_one" };
    expect(made("svix", type, data)).toEqual({ type: theirs, data: { ...about, ...rest } });
  });

  test("gets events without a counterpart there unchanged", () => {
    expect(made("svix", "delivery.dead", opened)).toEqual({ type: "delivery.dead", data: opened });
    for (const data of [null, "gone", 7])
      expect(made("svix", "destination.paused", data)).toEqual({ type: "destination.paused", data });
    expect(["delivery.dead", "destination.paused", "shop.closed"].map(svixTypeOf)).toEqual([
      "delivery.dead",
      "endpoint.disabled",
      "shop.closed",
    ]);
  });
});

test.each(templates)("%s takes an event of any type, with any data", (template) => {
  fc.assert(
    fc.property(fc.string(), fc.jsonValue({ maxDepth: 4 }), (type, data) => {
      const text = rendered(template, envelopeOf(type, AT, data));
      expect(JSON.parse(text)).toBeTypeOf("object");
      // The least of the services' limits: Discord's embeds, beside the JSON around them.
      expect(text.length).toBeLessThan(20_000);
    }),
  );
});

test("Discord's limits hold for the longest facts, of characters that are escaped", () => {
  const data = Object.fromEntries(
    Array.from({ length: 40 }, (_, index) => ["*".repeat(100) + index, "_".repeat(5_000)]),
  );
  const { embeds } = made("discord", "*".repeat(300), data);
  const [{ title, fields, footer }] = embeds;
  const inFields = fields.map(({ name, value }: Record<"name" | "value", string>) => {
    expect(name.length).toBeLessThanOrEqual(256);
    expect(value.length).toBeLessThanOrEqual(1024);
    return name.length + value.length;
  });
  expect(title.length).toBeLessThanOrEqual(256);
  expect(fields.length).toBeLessThanOrEqual(25);
  const sum = inFields.reduce((all: number, one: number) => all + one, title.length + footer.text.length);
  expect(sum).toBeLessThanOrEqual(6_000);
});

test("an unknown template after an edit in the database counts as none", () => {
  expect(["fax", "", null, 7].map(templateOf)).toEqual([undefined, undefined, undefined, undefined]);
  for (const name of ["slack", "discord", "teams", "pagerduty", "svix"]) expect(templateOf(name)).toBe(name);
});
