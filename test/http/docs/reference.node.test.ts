/** The reference shows the whole document and nothing else, loads nothing from elsewhere, and escapes all text. */
import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { createApp } from "../../../src/http/app.ts";
import { createDocs } from "../../../src/http/docs/app.tsx";
import { curlOf } from "../../../src/http/docs/reference.tsx";
import { type Document, documentOf, type Method } from "../../../src/http/openapi/document.ts";
import { resolved } from "../../../src/http/openapi/examples.ts";
import { problemStatuses, problemTypes } from "../../../src/http/problem-types.ts";
import { problemExample } from "../../../src/http/problems.ts";

const ORIGIN = "https://breakwater.example";
const document = documentOf(createApp());
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ method: method as Method, path, operation })),
);
const named = operations.map((described) => [`${described.method} ${described.path}`, described] as const);

const get = (path: string, headers = {}, of: Document = document) =>
  createDocs(() => of).request(`${ORIGIN}${path}`, { headers });

const html = await (await get("/docs")).text();

/** The visible text of the part of the page that begins at an anchor. */
function shownAt(id: string): string {
  const [, rest = ""] = html.split(`aria-labelledby="${id}"`);
  return textOf(rest.split("</article>")[0] ?? "");
}

function textOf(markup: string): string {
  const plain = markup
    .replaceAll(/<[^>]+>/g, " ")
    .replaceAll("&quot;", '"')
    .replaceAll("&#39;", "'");
  return plain.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}

describe.each(named)("%s", (_name, { method, path, operation }) => {
  const shown = shownAt(operation.operationId);

  test("is shown with its scope, its parameters, its body and its responses", () => {
    const bodies = Object.values(operation.requestBody?.content ?? {});
    const fields = bodies.flatMap(({ schema }) =>
      Object.keys(resolved(schema, document.components.schemas).properties ?? {}),
    );
    const parameters = (operation.parameters ?? []).map(({ name }) => name);
    for (const expected of [
      method.toUpperCase(),
      path,
      operation.summary ?? "",
      ...operation.security.flatMap((way) => Object.values(way).flat()),
      ...parameters,
      ...fields,
      ...Object.keys(operation.responses),
    ]) {
      expect(shown).toContain(expected);
    }
  });

  test("has an example that runs in a shell", () => {
    const command = curlOf({ method, path, operation, origin: ORIGIN });
    expect(shown).toContain(command);
    const shell = `curl() { printf '%s\\0' "$@"; }; BREAKWATER_KEY=bw_key; ${command}`;
    const args = execFileSync("/bin/sh", ["-c", shell], { encoding: "utf8" }).split("\0").slice(0, -1);
    const url = new URL(args.find((arg) => arg.startsWith(ORIGIN)) ?? "");
    expect(url.pathname.split("/")).toHaveLength(path.split("/").length);
    expect(args.includes("Authorization: Bearer bw_key")).toBe(operation.security.length > 0);
    const body = args[args.indexOf("--json") + 1] ?? "";
    if (operation.requestBody) {
      expect(JSON.parse(body)).toEqual(operation.requestBody.content["application/json"]?.example);
    }
  });
});

test("a quote in an example stays within the quotes of the shell", () => {
  const [, described] = named.find(([name]) => name === "post /v1/events") ?? [];
  if (!described) throw new Error("POST /v1/events must be described");
  const example = { data: `it's $HOME \`id\` "x" \\` };
  const content = { "application/json": { schema: {}, example } };
  const operation = { ...described.operation, requestBody: { content } };
  const command = curlOf({ ...described, operation, origin: ORIGIN });
  const said = execFileSync("/bin/sh", ["-c", `curl() { printf %s "$5"; }; ${command}`], {
    encoding: "utf8",
  });
  expect(JSON.parse(said)).toEqual(example);
});

test("every link leads to an anchor on the page, or to this Worker", async () => {
  const ids = [...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id);
  expect(new Set(ids).size).toBe(ids.length);
  const links = [...html.matchAll(/ (?:href|src|action)="([^"]+)"/g)].map(([, to = ""]) => to);
  const lost = links.filter((to) => (to.startsWith("#") ? !ids.includes(to.slice(1)) : !/^\/[a-z]/.test(to)));
  expect(lost).toEqual([]);
  const style = links.find((to) => to.endsWith(".css")) ?? "";
  expect((await get(style)).headers.get("content-type")).toBe("text/css; charset=utf-8");
});

test("the page has no script, and its policy allows none", async () => {
  expect(html).not.toMatch(/<script|<iframe|<object|<form|\son\w+=|\sstyle=|javascript:/i);
  const policy = (await get("/docs")).headers.get("content-security-policy");
  expect(policy).toContain("default-src 'none'; style-src 'self'; img-src 'self'");
  expect(policy).not.toMatch(/script-src|unsafe|https?:/);
});

test("text of the document is never markup", async () => {
  const evil = `<img src=x onerror=alert(1)>"'&\`<b>\``;
  const hostile = JSON.parse(JSON.stringify(document), (key, value) =>
    ["summary", "description", "pattern", "example", "default"].includes(key) && typeof value === "string"
      ? evil
      : value,
  ) as Document;
  const page = await (await get("/docs", { host: "x" }, hostile)).text();
  expect(page).toContain("&lt;img src=x");
  expect(page).not.toMatch(/<img|<b>`|<b>&/);
});

test("the page is sent again only when it has changed", async () => {
  const first = await get("/docs");
  const tag = first.headers.get("etag") ?? "";
  expect((await get("/docs", { "if-none-match": tag })).status).toBe(304);
  const other = { ...document, info: { ...document.info, description: "Other words." } };
  expect((await get("/docs", { "if-none-match": tag }, other)).status).toBe(200);
});

describe.each(problemStatuses)("the type of a problem with status %i", (status) => {
  const { title, meaning, remedy } = problemTypes[status];
  const { type } = problemExample(status);

  test("shows a browser what it means and what to do", async () => {
    const answer = await get(type, { accept: "text/html,application/xhtml+xml,*/*;q=0.8" });
    expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "text/html; charset=UTF-8"]);
    const shown = textOf(await answer.text());
    for (const text of [title, ...[meaning, remedy].flatMap((one) => one.split("`"))])
      expect(shown).toContain(text);
  });

  test("gives a program the same as JSON", async () => {
    const answer = await get(type);
    expect(answer.headers.get("vary")).toBe("Accept");
    expect(await answer.json()).toEqual({
      ...{ type, title, status, meaning, remedy },
      example: problemExample(status),
    });
  });

  test("is explained in the reference too", () => {
    expect(textOf(html.split(`id="problem-${status}"`)[1] ?? "")).toContain(meaning.split("`")[0]);
  });
});

test("an unknown type of problem is not found", async () => {
  expect((await get("/problems/nonsense")).status).toBe(404);
});

test("a schema with choices shows the fields of each", () => {
  const from = html.indexOf('aria-label="Fields of DestinationAuthInput"');
  const fields = html.slice(from, html.indexOf("</dl>", from));
  for (const name of ["username", "token", "header", "client_secret"])
    expect(fields).toContain(`<code>${name}</code>`);
});

test("the part about event types links to those of the deployment, which need a sign-in", () => {
  const [, part = ""] = html.split('<h2 id="event-types">');
  expect(part.split("<article")[0]).toContain('<a href="/dashboard/event-types">');
});

test("the texts need no key, and each is made once for an origin", async () => {
  let made = 0;
  let read = 0;
  const counted = new Proxy(document, {
    get: (of, name: keyof Document) => {
      read++;
      return of[name];
    },
  });
  const docs = createDocs(() => {
    made++;
    return counted;
  });
  const all = ["/docs", "/llms.txt", "/openapi.md"].map((path) => `${ORIGIN}${path}`);
  for (const url of all) await docs.request(url);
  const atFirst = read;
  for (const url of [...all, ...all]) expect((await docs.request(url)).status).toBe(200);
  expect([made, read]).toEqual([1, atFirst]);
  const [other] = all.map((url) => url.replace(ORIGIN, "https://hooks.example"));
  expect(await (await docs.request(other ?? "")).text()).toContain("https://hooks.example");
});
