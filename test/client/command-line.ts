/** The command line as a child process, and a deployment that answers as a test says. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll } from "vitest";
import { bundleCommandLine } from "../../client/bundle.ts";
import { projectRoot } from "../../tools/wrangler.ts";
import { localServer } from "../support/local-server.ts";

export const API_KEY = "bw_test_0123456789abcdef";

type Sent = Readonly<{
  method: string;
  path: string;
  headers: Readonly<Record<string, unknown>>;
  body: unknown;
  /** The body as it was sent. */
  sentText: string;
}>;
type Answer = Readonly<{ status?: number; body?: unknown; headers?: Readonly<Record<string, string>> }>;

/** Answers by method and path without query, as `GET /v1/events`; everything else is 404. */
export type Routes = Record<string, Answer | ((sent: Sent) => Answer)>;

/** A home and a deployment for command lines; both are gone after the tests of the file. */
export async function commandLine() {
  const home = mkdtempSync(join(tmpdir(), "breakwater-cli-"));
  // Within node_modules, where the bundle finds its packages; it starts faster than its sources.
  const script = join(projectRoot, `node_modules/.cache/breakwater-cli-${process.pid}.mjs`);
  await bundleCommandLine(script);
  const requests: Sent[] = [];
  let routes: Routes = {};
  const server = localServer(async (request, response) => {
    const sentText = await text(request);
    const { method = "", url = "", headers } = request;
    const body = sentText === "" ? undefined : JSON.parse(sentText);
    const sent = { method, path: url, headers, body, sentText };
    requests.push(sent);
    const route = routes[`${method} ${url.split("?")[0]}`] ?? problem(404, "Not found");
    const answer = typeof route === "function" ? route(sent) : route;
    const content = typeof answer.body === "string" ? answer.body : JSON.stringify(answer.body ?? {});
    response.writeHead(answer.status ?? 200, { "content-type": "application/json", ...answer.headers });
    response.end(answer.status === 204 ? undefined : content);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  afterAll(() => {
    server.close();
    rmSync(home, { recursive: true });
    rmSync(script);
  });

  /** Starts a command against the deployment. `given` replaces the address and the key that it is otherwise given. */
  function started(
    args: readonly string[],
    given: Readonly<Record<string, string>> = { BREAKWATER_URL: url, BREAKWATER_KEY: API_KEY },
  ) {
    return spawn(process.execPath, [script, ...args], {
      env: {
        PATH: process.env.PATH,
        HOME: home,
        XDG_CONFIG_HOME: join(home, "config"),
        ...given,
      } as object as NodeJS.ProcessEnv,
    });
  }

  /** Runs a command to its end. */
  async function breakwater(
    args: readonly string[],
    options: Readonly<{ input?: string; env?: Readonly<Record<string, string>> }> = {},
  ) {
    const child = started(args, options.env);
    child.stdin.end(options.input ?? "");
    const closed = once(child, "close");
    const [out, error] = await Promise.all([text(child.stdout), text(child.stderr)]);
    const [code] = (await closed) as [number];
    return { code, out, error };
  }

  /** Sets the deployment's answers from now on; requests so far are forgotten. */
  function answers(next: Routes): readonly Sent[] {
    routes = next;
    requests.length = 0;
    return requests;
  }

  return { breakwater, started, answers, url, home };
}

export function problem(status: number, detail: string, errors?: readonly object[]): Answer {
  const body = { type: "/problems/test", title: "A problem", status, detail, ...(errors && { errors }) };
  return { status, body, headers: { "content-type": "application/problem+json" } };
}

export function page(...data: readonly object[]): Answer {
  return { body: { data, next_cursor: null } };
}
