/** The site of the documentation, built and served as a host of static files would, under a path of its own. */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { globSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { promisify } from "node:util";
import { localServer } from "../support/local-server.ts";

const ROOT = new URL("../..", import.meta.url).pathname;

/** A base path, as projects have on GitHub Pages: links without it lead nowhere. */
const BASE = "/breakwater/";

export type Site = Readonly<{
  origin: string;
  /** The path of every page, as links have it, and its HTML as it is served. */
  pages: ReadonlyMap<string, string>;
  /** Whether a path of the site is a page or another file. */
  has: (path: string) => boolean;
  paths: readonly string[];
  /** The text of a file of the site. */
  textOf: (path: string) => string;
  stop: () => void;
}>;

export async function startSite(): Promise<Site> {
  const folder = mkdtempSync(join(tmpdir(), "breakwater-site-"));
  const args = ["vitepress", "build", "site", "--base", BASE, "--outDir", folder];
  const remove = () => rmSync(folder, { recursive: true });
  await promisify(execFile)("npx", args, { cwd: ROOT }).catch((error: unknown) => {
    remove();
    throw error;
  });
  const files = new Map(
    globSync("**/*.*", { cwd: folder }).map((file) => [addressOf(file), join(folder, file)]),
  );
  const server = localServer(({ url = "" }, response) => {
    const file = files.get(new URL(url, "http://site").pathname);
    if (file === undefined) return response.writeHead(404).end();
    return response
      .writeHead(200, { "content-type": types[extname(file)] ?? "text/plain" })
      .end(readFileSync(file));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const pages = [...files].filter(([, file]) => extname(file) === ".html");
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    pages: new Map(pages.map(([path, file]) => [path, readFileSync(file, "utf8")])),
    has: (path) => files.has(path),
    paths: [...files.keys()],
    textOf: (path) => readFileSync(files.get(path) ?? "", "utf8"),
    stop: () => {
      server.closeAllConnections();
      server.close();
      remove();
    },
  };
}

/** Without `.html` and `index`, as GitHub Pages and Cloudflare serve pages. */
function addressOf(file: string): string {
  return `${BASE}${file.replace(/(^|\/)index\.html$/, "$1").replace(/\.html$/, "")}`;
}

const types: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".json": "application/json",
};
