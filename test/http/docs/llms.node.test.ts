/** /llms.txt: what an agent reads that writes code against a deployment. */
import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { createApp } from "../../../src/http/app.ts";
import { createDocs } from "../../../src/http/docs/app.tsx";
import { documentOf } from "../../../src/http/openapi/document.ts";
import { SECRET } from "../../pages/portal/snippet-cases.ts";

const document = documentOf(createApp());
const answer = await createDocs(() => document).request("https://breakwater.example/llms.txt");
const text = await answer.text();

test("llms.txt is plain text, with the addresses of the deployment", () => {
  expect(answer.headers.get("content-type")).toContain("text/plain");
  expect(text.startsWith("# Breakwater\n\n> ")).toBe(true);
  for (const path of ["/openapi.json", "/openapi.md", "/docs", "/mcp", "/v1/events"])
    expect(text).toContain(`https://breakwater.example${path}`);
});

test("llms.txt lists every operation of the document, with its scope", () => {
  for (const [path, methods] of Object.entries(document.paths))
    for (const [method, { summary, security }] of Object.entries(methods)) {
      const scope = security[0]?.bearer?.[0];
      const line = `- \`${method.toUpperCase()} ${path}\`: ${summary}${scope ? ` (scope \`${scope}\`)` : ""}\n`;
      expect(text).toContain(line);
    }
});

test("the requests in llms.txt are the document's examples", () => {
  const [creation = "", posting = ""] = [...text.matchAll(/```sh\n([\s\S]*?)\n```/g)].map(([, code]) => code);
  expect(creation).toContain("https://breakwater.example/v1/destinations");
  const body = /--json '([\s\S]*)'$/.exec(posting)?.[1] ?? "";
  expect(JSON.parse(body)).toEqual(
    document.paths["/v1/events"]?.post?.requestBody?.content["application/json"]?.example,
  );
});

test("the code in llms.txt verifies a valid signature, and no other", () => {
  const code = /```js\n([\s\S]*?)\n```/.exec(text)?.[1] ?? "";
  const check = `
    const body = Buffer.from('{"type":"order.paid"}');
    const headers = { "webhook-id": "evt_1", "webhook-timestamp": String(Math.floor(Date.now() / 1000)) };
    const mac = (bytes) => "v1," + createHmac("sha256", key).update(headers["webhook-id"] + "." + headers["webhook-timestamp"] + ".").update(bytes).digest("base64");
    const given = (signature) => verify({ ...headers, "webhook-signature": signature }, body);
    console.log(JSON.stringify([given(mac(body)), given("v1,x " + mac(body)), given(mac(Buffer.from("{}"))), given("")]));`;
  const env = { ...process.env, WEBHOOK_SECRET: SECRET };
  const args = ["--input-type=module", "-e", `${code}\n${check}`];
  expect(JSON.parse(execFileSync(process.execPath, args, { env, encoding: "utf8" }))).toEqual([
    true,
    true,
    false,
    false,
  ]);
});

test("/openapi.md has every operation with its fields, its example and its answers, and every schema", async () => {
  const read = await createDocs(() => document).request("https://breakwater.example/openapi.md");
  expect(read.headers.get("content-type")).toBe("text/markdown; charset=utf-8");
  const markdown = await read.text();
  for (const [path, methods] of Object.entries(document.paths))
    for (const [method, { summary }] of Object.entries(methods))
      expect(markdown).toContain(`\n### ${summary}\n\n\`${method.toUpperCase()} ${path}\`, `);
  for (const name of Object.keys(document.components.schemas)) expect(markdown).toContain(`\n### ${name}\n`);
  const [, creation = ""] = markdown.split("### Create a destination\n");
  const [operation = ""] = creation.split("\n### ");
  for (const part of [
    "- `url` (",
    "- `idempotency-key` (header, ",
    "```sh\ncurl https://breakwater.example/",
    "- 201: ",
    "- 422: ",
  ])
    expect(operation).toContain(part);
  expect(markdown).not.toMatch(/\[object Object\]|undefined/);
});
