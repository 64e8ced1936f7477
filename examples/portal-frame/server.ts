/**
 * A page of your product with the webhooks portal in a frame. For each visit the server makes a new link with its API key, which
 * never reaches the browser.
 *
 *   BREAKWATER_URL=http://localhost:8787 BREAKWATER_KEY=dev-… node examples/portal-frame/server.ts
 */
import { createServer, type Server } from "node:http";

export type Options = Readonly<{
  /** The origin of Breakwater. */
  breakwater: string;
  /** An API key that may make portal links, with the scopes that visitors need. */
  key: string;
  /** Who is signed in at your product: take it from your session, never from the request. */
  tenant: string;
}>;

async function newPortalLink({ breakwater, key, tenant }: Options): Promise<string> {
  const response = await fetch(`${breakwater}/v1/portal-links`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ tenant }),
  });
  if (!response.ok) throw new Error(`Breakwater answered ${response.status}: ${await response.text()}`);
  const { url } = (await response.json()) as { url: string };
  return url;
}

const page = (link: string, breakwater: string) => `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Settings</title>
<h1>Settings</h1>
<iframe id="webhooks" title="Webhooks" allow="clipboard-write" style="width: 100%; border: 0" src="${link}"></iframe>
<script>
  addEventListener("message", ({ origin, data }) => {
    if (origin !== ${JSON.stringify(breakwater)} || data?.type !== "breakwater:height") return;
    document.getElementById("webhooks").style.height = data.height + "px";
  });
</script>
</html>`;

/** A server of that page. Breakwater's PORTAL_ORIGINS must have its origin. */
export function pageServer(options: Options): Server {
  return createServer(async ({ url }, response) => {
    if (url !== "/") return void response.writeHead(404).end();
    try {
      const html = page(await newPortalLink(options), options.breakwater);
      response.writeHead(200, { "content-type": "text/html; charset=utf-8" }).end(html);
    } catch (error) {
      console.error(error);
      response.writeHead(502, { "content-type": "text/plain" }).end("The webhooks cannot be shown now.");
    }
  });
}

if (import.meta.main) {
  const { BREAKWATER_URL = "http://localhost:8787", BREAKWATER_KEY = "", PORT = "3000" } = process.env;
  const options = { breakwater: BREAKWATER_URL, key: BREAKWATER_KEY, tenant: "acme" };
  pageServer(options).listen(Number(PORT), "localhost", () => console.log(`http://localhost:${PORT}`));
}
