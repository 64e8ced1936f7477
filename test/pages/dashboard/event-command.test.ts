/** The command on an event's page that sends the event by hand, as an attempt would. */
import { beforeEach, describe, expect, test } from "vitest";
import { emptyDatabase, testApi } from "../../support/api.ts";
import { signedIn } from "../../support/dashboard.ts";
import { utf8 } from "../../support/utf8.ts";

beforeEach(emptyDatabase);

const api = testApi();

/** The command as a browser reads it: without the escapes of HTML, which knows no line end but LF. */
async function commandOf(event: string): Promise<string> {
  const { html } = await (await signedIn()).get(`/dashboard/events/${event}`);
  const [, shown = ""] = /<code id="curl-[^"]*">([\s\S]*?)<\/code>/.exec(html) ?? [];
  return shown
    .replace(/\r\n?/g, "\n")
    .replaceAll("&#39;", "'")
    .replaceAll("&quot;", '"')
    .replaceAll("&lt;", "<")
    .replaceAll("&amp;", "&");
}

describe("the command of an event", () => {
  test("has the headers with which the event was posted, except those that its destination sets itself", async () => {
    const own = { "X-Own": "of-the-destination" };
    const auth = { kind: "bearer", token: "t0k3n" };
    await api.call("POST", "/v1/destinations", { url: "https://example.com/hook", headers: own, auth });
    const headers = { "X-Trace": "abc", "x-own": "of-the-event", Authorization: "of-the-event" };
    const { json } = await api.call("POST", "/v1/events", { type: "a", data: 1, headers });
    const command = await commandOf(json.id);
    expect(command).toContain("-H 'x-trace: abc'");
    expect(command).not.toContain("of-the-");
  });

  test.each([
    ["begins with a byte order mark", utf8("\ufeffa,b\n")],
    ["has line ends that a page does not keep", utf8("<a/>\r\n")],
    ["has a zero byte, which no argument of a command can have", utf8("a\0b")],
    ["is not text", Uint8Array.of(255, 0, 254)],
  ])("whose content %s sends the bytes that are signed", async (_, content) => {
    await api.call("POST", "/v1/destinations", { url: "https://example.com/hook", body: "data" });
    const { json } = await api.call("POST", "/v1/events?type=a", content, { "content-type": "text/csv" });
    const command = await commandOf(json.id);
    const [, base64] = /^printf %s '([^']*)' \| base64 -d \| curl/.exec(command) ?? [];
    const [, text] = /--data-raw '([\s\S]*)'$/.exec(command) ?? [];
    const sent = base64 === undefined ? utf8(text ?? "") : Uint8Array.fromBase64(base64);
    expect(sent.toHex()).toBe(content.toHex());
    expect(text ?? "").not.toContain("\0");
  });
});
