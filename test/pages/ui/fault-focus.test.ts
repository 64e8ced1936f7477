/** A refused form opens at what has to be changed. */
import { beforeEach, expect, it } from "vitest";
import { emptyDatabase } from "../../support/api.ts";
import { signedIn } from "../../support/dashboard.ts";

beforeEach(emptyDatabase);

const NEW = "/dashboard/destinations/new";

it.each([
  [{ url: "ftp://files.example/in", max_concurrency: "0", description: "x".repeat(501) }, "url"],
  [{ url: "https://example.com/", max_concurrency: "0", description: "x".repeat(501) }, "description"],
  [{ url: "https://example.com/", max_concurrency: "0", timeout_ms: "0" }, "max_concurrency"],
])("the first input at fault, and no other element, has the focus: %j", async (form, name) => {
  const { status, html } = await (await signedIn()).post(NEW, form);
  expect([status, html.match(/ autofocus/g)?.length]).toEqual([422, 1]);
  expect(/<input[^>]* autofocus[^>]*>/.exec(html)?.[0]).toContain(`name="${name}"`);
});

it("a notice has the focus if no input is at fault", async () => {
  const { html } = await (await signedIn()).post(
    "/dashboard/destinations/dst_00000000000000000000/pause",
    {},
  );
  expect(html.match(/ autofocus/g)).toHaveLength(1);
  expect(html).toContain('role="alert" tabindex="-1" autofocus');
});

it("a text with the mark of an input at fault does not take the focus", async () => {
  const trap = 'x" aria-invalid="true" onfocus="alert(1)';
  const form = { url: "https://example.com/", description: trap, max_concurrency: "0" };
  const { html } = await (await signedIn()).post(NEW, form);
  expect(/<input[^>]* autofocus[^>]*>/.exec(html)?.[0]).toContain('name="max_concurrency"');
});

it("a page without faults does not move the focus", async () => {
  expect((await (await signedIn()).get(NEW)).html).not.toContain("autofocus");
});
