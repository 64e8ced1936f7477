/** Templates in Liquid: what they render, what they cannot reach, and that none of them takes long. */
import { describe, expect, test } from "vitest";
import { compile, fillIn } from "../../../src/core/transform/liquid.ts";
import { readyTemplate, readyTemplates } from "../../../src/core/transform/ready.ts";
import { faultText, guardedRequest } from "../../../src/core/transform/result.ts";
import type { TransformTemplate } from "../../../src/core/transform/template.ts";
import { transformedUrl } from "../../../src/core/transform/url.ts";

const data = {
  name: 'B"ob\n',
  count: 5,
  items: [{ a: 1 }, { a: 2 }],
  "a&b": "c=d",
  big: "a".repeat(200_000),
  pattern: `b${"a".repeat(99_999)}`,
  list: Array.from({ length: 20_000 }, (_, n) => n),
  digits: Array.from({ length: 10 }, () => "1".repeat(100)),
  same: { a: 1 },
  none: [],
  empty: [],
  nothing: null,
};
const event = {
  id: "evt_0000000000001",
  type: "order.paid",
  timestamp: "2026-11-26T10:00:00.000Z",
  tenant: "acme",
  data,
};

function filled(template: TransformTemplate) {
  const compiled = compile(template);
  return "fill" in compiled ? fillIn(compiled, event) : compiled;
}

function bodyOf(body: string, content_type?: string): unknown {
  const made = filled({ body, ...(content_type && { content_type }) });
  return "made" in made ? made.made?.body : made;
}

const text = (body: string) => bodyOf(body, "text/plain");

const headersOf = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`x-${i}`, "a"]));

const plain = () => ({ body: new Uint8Array([1]), contentType: "application/json" });
const encode = (given: string) => new Uint8Array(new TextEncoder().encode(given));

describe("a body", () => {
  test("that is JSON is filled in string by string, which needs no escaping and keeps types", () => {
    const body =
      '{"text":"Hi {{ data.name }}!","n":"{{ data.count }}","all":["{{ data.items }}"],"no":"{{ data.no }}"}';
    expect(JSON.parse(String(bodyOf(body)))).toEqual({
      text: 'Hi B"ob\n!',
      n: 5,
      all: [[{ a: 1 }, { a: 2 }]],
      no: null,
    });
  });

  test("may loop over lists, and then its result must be JSON", () => {
    const loop =
      "{% for one in data.items %}{{ one.a }}{% unless forloop.last %},{% endunless %}{% endfor %}";
    expect(bodyOf(`[${loop}]`)).toBe("[1,2]");
    expect(bodyOf(`{"a": {{ data.name }} }`)).toEqual({
      field: "body",
      fault: "renders text that is not JSON",
    });
  });

  test("that is JSON only when it is filled in has its texts escaped, so that no event adds to it", () => {
    const body =
      '{"text":"Hi {{ data.name | default: "you" }}!","n":{{ data.count }},"all":{{ data.items }},"own":{{ data.name | json }}}';
    const filledIn = { text: 'Hi B"ob\n!', n: 5, all: [{ a: 1 }, { a: 2 }], own: 'B"ob\n' };
    expect(JSON.parse(String(bodyOf(body)))).toEqual(filledIn);
  });

  test("of a form has its values encoded", () => {
    expect(bodyOf("a={{ data['a&b'] }}&l={{ data.items }}", "application/x-www-form-urlencoded")).toBe(
      "a=c%3Dd&l=%5B%7B%22a%22%3A1%7D%2C%7B%22a%22%3A2%7D%5D",
    );
  });

  test("that comes out empty, or is cancelled, cancels the delivery", () => {
    expect(filled({ body: " {{ data.no }} " })).toEqual({ made: null });
    expect(filled({ body: "{% if data.count > 3 %}{% cancel %}{% endif %}{}" })).toEqual({ made: null });
    expect(filled({ headers: { "x-a": "{% cancel %}" } })).toEqual({ made: null });
  });
});

test("a fault has its field, line and column", () => {
  expect(compile({ body: "{\n{{ data.x | nosuch }}" })).toEqual({
    field: "body",
    fault: "undefined filter: nosuch",
    line: 2,
    column: 1,
  });
  expect(compile({ headers: { "x-a": "{% include 'x' %}" } })).toMatchObject({
    field: "headers.x-a",
    fault: 'tag "include" not found',
  });
  expect(compile({ body: '{"a":[{"b":"{% if %}"}]}' })).toMatchObject({ field: "body.a[0].b", line: 1 });
});

describe("a comparison", () => {
  test.each([
    ["data.name == data.name", true],
    ["data.count == 5", true],
    ["data.count == '5'", false],
    ["data.count != 5", false],
    ["data.count != 6", true],
    ["data.items == data.items", true],
    ["data.items == data.list", false],
    ["data.items[0] == data.same", false],
    ["data.none == data.empty", false],
    ["data.none != data.empty", true],
    ["data.items != data.items", false],
    ["data.items[0] != data.same", true],
    ["data.none == empty", true],
    ["data.list == empty", false],
    ["data.items == nil", false],
    ["data.list contains 7", true],
    ["data.list contains '7'", false],
    ["data.none contains 7", false],
    ["data.digits[0] contains 11", true],
    ["data.name contains 'ob'", true],
    ["data.name contains 'x'", false],
    ["data.items[0] contains 'a'", false],
  ])("%s is %s", (condition, is) => {
    expect(text(`{% if ${condition} %}true{% else %}false{% endif %}`)).toBe(String(is));
  });
});

test.each([
  ["{{ 'now' | upcase }}", "NOW"],
  ["{{ timestamp | date }}", event.timestamp.replace(".000", "")],
  ["x{{ data.nothing }}{{ data.count }}", "x5"],
  ['{"n": "{{ data.count }}"}', '{"n": "5"}'],
])("%s as a text comes out as %s", (body, made) => {
  expect(text(body)).toBe(made);
});

describe("only the event is known:", () => {
  test.each(['{{ "now" | date: "%s" }}', '{{ "today" | date: "%s" }}'])("%s fails", (body) => {
    expect(text(body)).toMatchObject({ fault: expect.stringContaining("use timestamp") });
  });

  test.each([
    "{{ constructor }}",
    "{{ data.constructor }}",
    "{{ data.__proto__ }}",
    "{{ data.name.toString }}",
  ])("%s is empty", (body) => {
    expect(text(`x${body}`)).toBe("x");
  });

  test.each([
    "{% render 'a' %}",
    "{% layout 'a' %}",
    "{% capture a %}{% endcapture %}",
    "{{ data.list | sample }}",
    "{{ data.name | raw }}",
    "{{ data.name | strip_html }}",
  ])("%s does not exist", (body) => {
    expect(compile({ body })).toMatchObject({ fault: expect.stringMatching(/not found|undefined filter/) });
  });
});

describe("no template takes long:", () => {
  const loop = (body: string) => `{% for i in (1..9000) %}${body}{% endfor %}`;
  /** Templates of few steps, if each node were one. */
  const short = (body: string) => `{% for i in (1..4000) %}${body}{% endfor %}`;
  test.each([
    "{% for i in (1..100000000) %}x{% endfor %}",
    "{% for i in data.list %}{% for j in data.list %}{% endfor %}{% endfor %}",
    "{% for i in data.list %}{% for j in data.list limit: 0 %}{% endfor %}{% endfor %}",
    '{% assign a = "x" %}{% for i in (1..100) %}{% assign a = a | append: a %}{% endfor %}{{ a }}',
    loop("{% if data.big contains data.pattern %}{% endif %}"),
    loop("{% if data.list == data.list %}x{% endif %}"),
    loop("{{ data.big }}"),
    loop("{% assign x = data.list | sort %}"),
    loop("{% assign x = data | json %}"),
    loop('{% assign x = data.big | replace: "a", data.big %}'),
    loop('{% assign x = data.big | replace: data.pattern, "" %}'),
    loop('{% assign x = data.big | split: "" %}'),
    loop('{% assign x = data.list | map: "a.b.c" %}'),
    loop('{% assign x = data.list | where: "a", 1 %}'),
    loop("{% assign x = data.list | join: data.big %}"),
    loop("{% assign x = data.list | concat: data.list %}"),
    '{{ timestamp | date: "%9999999999s" }}',
    loop("x".repeat(15_000)),
    short("{% assign x = data.digits | sum %}"),
    short("{% assign x = data.digits | times: 2 %}"),
    short(`{% assign x = data${".a".repeat(100)} %}`),
  ])("%s", (body) => {
    expect(text(body)).toMatchObject({
      field: "body",
      fault: expect.stringMatching(/takes more than|reads and writes too much|is longer than/),
    });
  });

  /** The bound on what a template may read and write. */
  const WORK = 2_000_000;
  const smallData = () => ({
    text: "a".repeat(100),
    pattern: "b".repeat(50),
    list: Array.from({ length: 10 }, (_, n) => n),
    nested: [["x".repeat(30)], { a: "y".repeat(20) }],
    other: [1],
  });
  /** Whether it may be filled in beside other work. */
  function fitsBeside(work: number, body: string): boolean {
    const first = "{% for i in data.filler %}{% break %}{% endfor %}x";
    const compiled = compile({ body: `${first}${body}`, content_type: "text/plain" });
    const facts = { ...event, data: { ...smallData(), filler: "f".repeat(work) } };
    return "fill" in compiled && "made" in fillIn(compiled, facts);
  }
  // The library charges for the texts that it makes as well.
  test.each([
    [10, "{% for i in data.list %}{% endfor %}"],
    [2, "{% for i in data.nested %}{% endfor %}"],
    [201, "{{ data.text | upcase }}"],
    [301, "{{ data.text | append: data.pattern }}"],
    [302, "{{ data.text | truncate: 5, data.pattern }}"],
    [3, "{{ data.nested | size }}"],
    [5, "{{ data.nested | compact }}"],
    [11, "{{ data.list | first }}"],
    [21, "{{ data.list | reverse }}"],
    [13, "{{ data.list | slice: 1 }}"],
    [25, "{{ data.list | concat: data.nested }}"],
    [4, "{{ data.nested | default: 1 }}"],
    [112, "{{ data.nested | json }}"],
    [224, "{{ data.nested | json }}{{ data.nested | json }}"],
    [1_031, "{{ data.list | join: data.text }}"],
    [412, "{{ data.list | map: 'a' }}"],
    [331, "{{ data.list | sort }}"],
    [1_013, "{{ data.list | where: 'a', 1 }}"],
    [664, "{{ data.text | replace: data.pattern, data.text }}"],
    [614, "{{ data.text | remove: data.pattern }}"],
    [564, "{{ data.text | split: data.pattern }}"],
    [11, "{% if data.list == data.other %}{% endif %}"],
    [150, "{% if data.text != data.pattern %}{% endif %}"],
    [413, "{% if data.text contains data.pattern %}{% endif %}"],
    [10, "{% if data.list contains data.pattern %}{% endif %}"],
  ])("%i units of work are charged for %s", (work, body) => {
    expect(fitsBeside(WORK - work, body)).toBe(true);
    expect(fitsBeside(WORK - work + 1, body)).toBe(false);
  });

  test("a template's own text costs nothing, wherever its tags are", () => {
    const written = `{% for i in (1..1500) %}${"x".repeat(390)}{% endfor %}`;
    expect(String(text(written))).toHaveLength(585_000);
    expect(text(`${"x".repeat(5_000)}{% for i in (1..100) %}{{ i }}{% endfor %}`)).toMatch(/^x{5000}123/);
  });

  test("its faults are short", () => {
    const long = compile({ body: `{{ data | ${"x".repeat(300)} }}` });
    expect(long).toMatchObject({ fault: expect.stringMatching(/^undefined filter: x+$/) });
    expect((long as { fault: string }).fault).toHaveLength(200);
  });

  test("a template that nests too deep fails with a fault", () => {
    expect(compile({ body: `${"[".repeat(100_000)}${"]".repeat(100_000)}` })).toEqual({
      field: "body",
      fault: "RangeError: Maximum call stack size exceeded",
    });
  });

  test("one that has too much side by side fails at no line", () => {
    const long = `{{ data${".a".repeat(3_200)} }}`;
    expect(text(`${long}${"{{ id }}".repeat(100)}`)).toEqual({
      field: "body",
      fault: "takes more than 10000 steps",
    });
  });
});

describe("a request, however it was made,", () => {
  const guarded = (made: Parameters<typeof guardedRequest>[0]) => guardedRequest(made, plain, encode);

  test.each([
    [{ method: "GET" }, "method"],
    [{ contentType: "text/plain\r\nx: y" }, "content_type"],
    [{ headers: { "x-a": "b\r\nx-b: c" } }, "headers.x-a"],
    [{ headers: { "x-a": "ü" } }, "headers.x-a"],
    [{ headers: { "webhook-id": "evt" } }, "headers.webhook-id"],
    [{ headers: { "content-length": "1" } }, "headers.content-length"],
    [{ headers: { __proto__x: "1", ["__proto__"]: "1" } }, "headers.__proto__"],
    [{ path: "/a/../../b" }, "path"],
    [{ path: "/a/%2E%2e/b" }, "path"],
    [{ path: "//evil\\.example" }, "path"],
    [{ path: "@evil.example/" }, "path"],
    [{ path: "/a?b" }, "path"],
    [{ path: "/ä" }, "path"],
    [{ query: "a=b#c" }, "query"],
    [{ query: "a=ü" }, "query"],
    [{ body: "x".repeat(600_000) }, "body"],
  ])("is refused with %o", (made, field) => {
    expect(guarded(made as never)).toMatchObject({ kind: "fault", fault: { field } });
  });

  test.each([
    ["20 headers", "headers", (n: number) => ({ headers: headersOf(n) }), 20],
    ["1,024 characters of a path", "path", (n: number) => ({ path: `/${"a".repeat(n - 1)}` }), 1_024],
    ["2,048 characters of a query", "query", (n: number) => ({ query: "a".repeat(n) }), 2_048],
    ["524,288 bytes of a body", "body", (n: number) => ({ body: "a".repeat(n) }), 524_288],
  ] as const)("is taken up to %s, and not beyond", (_what, field, madeOf, most) => {
    expect(guarded(madeOf(most)).kind).toBe("request");
    expect(guarded(madeOf(most + 1))).toMatchObject({
      fault: { field, fault: expect.stringMatching(new RegExp(`(more|longer|larger) than ${most}`)) },
    });
  });

  test("is POST, PUT or PATCH, and a fault says what a part may be", () => {
    for (const method of ["POST", "PUT", "PATCH"]) expect(guarded({ method })).toMatchObject({ method });
    const long = `x-${"a".repeat(150)}`;
    const faults = [
      { method: "GET" },
      { contentType: "text" },
      { path: "a" },
      { query: "ü" },
      { headers: { "x-a": "ü" } },
      { headers: { Host: "a" } },
      { headers: { [long]: "ü" } },
    ].map((made) => {
      const result = guarded(made);
      return result.kind === "fault" ? faultText(result.fault) : result.kind;
    });
    expect(faults).toEqual([
      "method: is not one of POST, PUT, PATCH",
      "content_type: is not a media type",
      "path: is not a path of printable ASCII characters without ?, #, \\ and dot segments",
      "query: is not percent-encoded",
      expect.stringMatching(/^headers\.x-a: has line breaks/),
      "headers.Host: may not be set",
      expect.stringMatching(/^headers\.x-a{98}: /),
    ]);
    const placed = { field: "body", fault: "ends", line: 2 };
    expect([faultText(placed), faultText({ ...placed, column: 3 })]).toEqual([
      "body (line 2): ends",
      "body (line 2, column 3): ends",
    ]);
  });

  test("has the event's body unless it made one, the content type that it named, and no empty header", () => {
    const { body, contentType } = plain();
    const common = { kind: "request", method: "POST", path: "", query: "", headers: {} };
    expect(guarded({})).toEqual({ ...common, body, contentType });
    expect(guarded({ contentType: "text/plain" })).toEqual({ ...common, body, contentType: "text/plain" });
    expect(guarded({ body: "a", headers: { "X-A": "1", "x-b": "" } })).toEqual({
      ...common,
      ...{ body: encode("a"), contentType: "application/json", headers: { "x-a": "1" } },
    });
    expect(guarded(null)).toEqual({ kind: "cancelled" });
  });

  test.each([
    ["https://ok.example/hook/", "", "", "https://ok.example/hook/"],
    ["https://ok.example/hook/?", "", "", "https://ok.example/hook/?"],
    ["https://ok.example/hook/", "", "a=b", "https://ok.example/hook/?a=b"],
    ["https://ok.example/hook?x=1", "", "a=b", "https://ok.example/hook?x=1&a=b"],
    ["https://ok.example/hook/?x=1", "/a", "", "https://ok.example/hook/a?x=1"],
  ])("%s with %j and %j is called as %s", (url, path, query, called) => {
    expect(transformedUrl(url, { path, query })).toBe(called);
  });

  test("stays on the destination's origin", () => {
    for (const path of ["//evil.example/x", "/.evil", "/a//b", "/%2f%2fevil"]) {
      const made = guarded({ path, query: "a=//b@c" });
      expect(made.kind).toBe("request");
      const url = new URL(transformedUrl("https://ok.example/hook?x=1", made as never));
      expect(url.origin).toBe("https://ok.example");
      expect(`${url.pathname}${url.search}`).toBe(`/hook${path}?x=1&a=//b@c`);
    }
    expect(transformedUrl("https://ok.example", { path: "/a", query: "" })).toBe("https://ok.example/a");
    expect(transformedUrl("https://ok.example/?", { path: "/a", query: "b=c" })).toBe(
      "https://ok.example/a?b=c",
    );
  });
});

test("a fault of a path, a query or a header names it", () => {
  const body = "{{ data }}";
  const faulty = "{% if %}";
  expect(compile({ body, path: faulty })).toMatchObject({ field: "path" });
  expect(compile({ body, query: { q: faulty } })).toMatchObject({ field: "query.q" });
  expect(compile({ body, headers: { "x-a": faulty } })).toMatchObject({ field: "headers.x-a" });
});

test("a request has all parts of its query, and a content type where the template has one", () => {
  const made = filled({ body: "{}", query: { a: "1", b: "{{ data.count }}" } });
  expect(made).toMatchObject({ made: { query: "a=1&b=5" } });
  expect(made).not.toHaveProperty("made.contentType");
  expect(filled({ body: "x", content_type: "text/plain" })).toMatchObject({
    made: { contentType: "text/plain" },
  });
});

test("values in a path and a query are percent-encoded", () => {
  expect(
    filled({ path: "/o/{{ data.name }}/{{ data['a&b'] }}", query: { q: "{{ data['a&b'] }}", none: "" } }),
  ).toEqual({
    made: expect.objectContaining({ path: "/o/B%22ob%0A/c%3Dd", query: "q=c%3Dd" }),
  });
});

describe("the ready template", () => {
  test("has one of these names, by which a destination chooses it", () => {
    const messages = ["slack", "discord", "teams", "pagerduty"];
    expect(readyTemplates).toEqual([...messages, "text", "form", "cloudevents", "cloudevents-binary"]);
  });

  const small = { ...event, data: { total: 5, note: '<!channel> ```"', nested: { a: [1] } } };
  test.each(readyTemplates)("%s makes a request of any event", (name) => {
    const compiled = compile(readyTemplate(name));
    if (!("fill" in compiled)) throw new Error(compiled.fault);
    for (const one of [
      event,
      small,
      { ...small, data: null },
      { ...small, data: [1, "a"] },
      { ...small, data: "x" },
    ]) {
      const made = fillIn(compiled, one);
      const result = "made" in made ? guardedRequest(made.made, plain, encode) : made;
      expect(result).toMatchObject({ kind: "request" });
    }
  });

  const requestOf = (name: (typeof readyTemplates)[number], one: typeof small = small) => {
    const compiled = compile(readyTemplate(name));
    const result = "fill" in compiled ? fillIn(compiled, one) : compiled;
    if (!("made" in result) || !result.made) throw new Error("There is a request");
    return result.made;
  };
  const bodyOf = (...[name, one]: Parameters<typeof requestOf>) =>
    JSON.parse(requestOf(name, one).body ?? "");
  const about = `${event.timestamp} · ${event.id}`;
  const shown = JSON.stringify(small.data, null, 2);

  test("slack gets the type, the data and the event's id, as plain text", () => {
    const plain = (text: string) => ({ type: "plain_text", text });
    expect(bodyOf("slack")).toEqual({
      text: "order.paid",
      blocks: [
        { type: "header", text: plain("order.paid") },
        { type: "section", text: plain(shown) },
        { type: "context", elements: [plain(about)] },
      ],
    });
  });

  test("discord gets an embed that mentions nobody, with the data as code that cannot end early", () => {
    expect(bodyOf("discord")).toEqual({
      embeds: [
        {
          title: "order.paid",
          description: `\`\`\`json\n${shown.replace("```", "` ` `")}\n\`\`\``,
          footer: { text: event.id },
          timestamp: event.timestamp,
        },
      ],
      allowed_mentions: { parse: [] },
    });
  });

  test("teams gets an adaptive card of text without Markdown", () => {
    const run = (part: object) => ({ type: "RichTextBlock", inlines: [{ type: "TextRun", ...part }] });
    expect(bodyOf("teams")).toEqual({
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
              run({ text: "order.paid", size: "Medium", weight: "Bolder" }),
              run({ text: shown, fontType: "Monospace" }),
              run({ text: about, isSubtle: true }),
            ],
          },
        },
      ],
    });
  });

  test("pagerduty gets an alert that is deduplicated by the event's id", () => {
    expect(bodyOf("pagerduty")).toEqual({
      event_action: "trigger",
      dedup_key: event.id,
      payload: {
        summary: `order.paid: ${JSON.stringify(small.data)}`,
        source: "acme",
        severity: "error",
        timestamp: event.timestamp,
        class: "order.paid",
        custom_details: small.data,
      },
    });
  });

  test("text and form have types other than JSON", () => {
    expect(requestOf("text")).toMatchObject({
      contentType: "text/plain; charset=utf-8",
      body: `order.paid ${event.timestamp}\n${shown}\n`,
    });
    const { contentType, body } = requestOf("form", { ...small, data: { a: "b c", d: 5 } as never });
    expect(contentType).toBe("application/x-www-form-urlencoded");
    expect(Object.fromEntries(new URLSearchParams(body))).toEqual({
      ...{ id: event.id, type: "order.paid", timestamp: event.timestamp },
      ...{ a: "b c", d: "5" },
    });
  });

  test("cloudevents is an event of the specification, and its binary form has it in headers", () => {
    expect(bodyOf("cloudevents")).toEqual({
      specversion: "1.0",
      id: event.id,
      source: "/tenants/acme",
      type: "order.paid",
      time: event.timestamp,
      datacontenttype: "application/json",
      data: small.data,
    });
    const { body, headers } = requestOf("cloudevents-binary");
    expect(JSON.parse(body ?? "")).toEqual(small.data);
    expect(headers).toEqual({
      "ce-specversion": "1.0",
      "ce-id": event.id,
      "ce-source": "/tenants/acme",
      "ce-type": "order.paid",
      "ce-time": event.timestamp,
    });
  });
});
