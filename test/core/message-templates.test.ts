/** Templates: an operational event becomes what each service takes, within its limits, whatever it is about. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { envelopeOf } from "../../src/core/content.ts";
import { rendered, templateOf, templates } from "../../src/core/message-templates.ts";
import { messageAbout } from "../../src/core/operational-message.ts";

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

test("Slack gets a title, the facts in sections of ten, and a link", () => {
  const facts = Object.fromEntries(Array.from({ length: 12 }, (_, index) => [`fact_${index}`, index]));
  const { text, blocks } = made("slack", "destination.circuit_opened", { ...opened, ...facts });
  expect(text).toBe("Circuit opened: hooks.acme.example (dst_one)");
  expect(blocks[0].text.text).toBe(":red_circle: *Circuit opened: hooks.acme.example (dst_one)*");
  expect(blocks.slice(1, -1).map(({ fields }: { fields: unknown[] }) => fields.length)).toEqual([10, 5]);
  expect(blocks.at(-1).elements[0].text).toContain(`<${LINK}|Open the page>`);
});

test("Slack gets no markup, mention or link out of what an event says", () => {
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

  test("gets what has no counterpart there as it is", () => {
    expect(made("svix", "delivery.dead", opened)).toEqual({ type: "delivery.dead", data: opened });
    expect(made("svix", "destination.paused", null)).toEqual({ type: "destination.paused", data: null });
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

test("a link is shown only when it is an https one", () => {
  expect(messageAbout("destination.paused", { link: "javascript:alert(1)" })).not.toHaveProperty("link");
});

test("an edit by hand into an unknown template counts as none", () => {
  expect(["slack", "fax", null, 7].map(templateOf)).toEqual(["slack", undefined, undefined, undefined]);
});
