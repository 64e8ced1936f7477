/**
 * `npm run import:svix` as its users run it, into Breakwater in the local runtime: from a server of Svix's API, from
 * another deployment of Breakwater, and killed in the middle.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Svix, Webhook } from "svix";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { projectRoot } from "../../../tools/wrangler.ts";
import { until } from "../../scenario/until.ts";
import { startBreakwater } from "../../support/breakwater-runtime.ts";
import {
  FakeSvix,
  fakeApplication,
  fakeEndpoint,
  secretOf,
  serveFake,
  TOKEN,
} from "../../support/fake-svix.ts";
import { type HttpReceiver, startHttpReceiver } from "../../support/http-receiver.ts";
import { localServer } from "../../support/local-server.ts";
import type { Runtime } from "../../support/runtime.ts";

const KEY = "test-admin-key-0123456789";

let receiver: HttpReceiver;
let runtime: Runtime;
let svix: Svix;
beforeAll(async () => {
  receiver = await startHttpReceiver();
  runtime = await startBreakwater({ vars: { ADMIN_KEY: KEY, ALLOW_PRIVATE_DESTINATIONS: "true" } });
  svix = new Svix(KEY, { serverUrl: runtime.url });
});
afterAll(async () => {
  await runtime?.stop();
  receiver?.stop();
});

type Result = Readonly<{ code: number | null; output: string }>;

function start(
  from: string,
  to: string,
  ...flags: string[]
): Readonly<{ child: ChildProcess; ended: Promise<Result> }> {
  const script = join(projectRoot, "tools/import-svix.ts");
  const child = spawn(process.execPath, [script, "--from", from, "--to", to, ...flags], {
    env: { ...process.env, SVIX_TOKEN: TOKEN, BREAKWATER_KEY: KEY },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  const ended = new Promise<Result>((resolve) => child.once("close", (code) => resolve({ code, output })));
  return { child, ended };
}

function runImport(from: string, to: string, ...flags: string[]): Promise<Result> {
  return start(from, to, ...flags).ended;
}

/** A source with the name in the ids of all that it has. */
function sourceOf(name: string): FakeSvix {
  const source = new FakeSvix();
  const endpoints = ["a", "b", "c"].map((one) =>
    fakeEndpoint(
      `ep_${name}_${one}`,
      {
        url: `${receiver.url}/${name}/${one}`,
        uid: one === "a" ? "orders" : null,
        description: one,
        metadata: { one },
      },
      { headers: one === "b" ? { "X-Api-Key": "letmein" } : {} },
    ),
  );
  source.applications = [
    fakeApplication(
      `app_${name}_1`,
      { name: "Acme", uid: name, throttleRate: 50, metadata: { plan: "pro" } },
      endpoints,
    ),
    fakeApplication(`app_${name}_2`, { name: "Other" }, [
      fakeEndpoint(`ep_${name}_d`, {
        url: `${receiver.url}/${name}/d`,
        disabled: true,
        eventTypes: [`${name}.paid`],
      }),
      fakeEndpoint(
        `ep_${name}_e`,
        { url: `${receiver.url}/${name}/e`, throttleRate: 100 },
        { sensitive: ["Authorization"] },
      ),
    ]),
  ];
  const schemas = { "1": { type: "object", properties: { total: { type: "number" } } } };
  source.eventTypes = [
    { name: `${name}.paid`, description: "Paid", schemas },
    { name: `${name}.old`, description: "", archived: true },
  ];
  return source;
}

/** The expected result of an import from this source, as the SDK shows it at the target. */
async function expectCopied(name: string, source: FakeSvix): Promise<void> {
  const all = (await svix.application.list({ limit: 250 })).data.filter(({ uid }) => uid?.includes(name));
  expect(all.map(({ uid }) => uid).sort()).toEqual([`app_${name}_2`, name].sort());
  for (const { id, shown, endpoints } of source.applications) {
    const app = (shown.uid as string | undefined) ?? id;
    const copies = (await svix.endpoint.list(app)).data;
    expect(copies).toHaveLength(endpoints.length);
    for (const endpoint of endpoints) {
      const uid = (endpoint.shown.uid as string | null | undefined) ?? endpoint.id;
      expect(copies.filter((copy) => copy.uid === uid)).toHaveLength(1);
      expect((await svix.endpoint.getSecret(app, uid)).key).toBe(endpoint.secret);
    }
  }
}

describe("an import", () => {
  test("copies everything, so that deliveries verify with the old secrets, and a second run changes nothing", async () => {
    const source = sourceOf("whole");
    const { url, stop } = await serveFake(source);
    const report = join(mkdtempSync(join(tmpdir(), "import-")), "report.json");
    try {
      const dry = await runImport(url, runtime.url, "--report", report);
      expect(dry).toMatchObject({ code: 0, output: expect.stringContaining("endpoints     5 to create") });
      expect(
        (await svix.application.list({ limit: 250 })).data.filter(({ uid }) => uid?.includes("whole")),
      ).toEqual([]);
      const first = await runImport(url, runtime.url, "--report", report, "--apply");
      expect(first).toMatchObject({ code: 0, output: expect.stringContaining("endpoints     5 created") });
      await expectCopied("whole", source);
      const { id } = await svix.application.get("whole");
      const written = JSON.parse(readFileSync(report, "utf8"));
      expect(written).toMatchObject({
        complete: true,
        applications: [{ source_id: "app_whole_1", target_id: id }, {}],
      });
      const shown = await svix.endpoint.list("app_whole_2");
      const states = shown.data.map(({ uid, disabled, eventTypes }) => ({ uid, disabled, eventTypes }));
      expect(states.toSorted((a, b) => (a.uid ?? "").localeCompare(b.uid ?? ""))).toEqual([
        { uid: "ep_whole_d", disabled: true, eventTypes: ["whole.paid"] },
        { uid: "ep_whole_e", disabled: true, eventTypes: null },
      ]);
      expect(await svix.eventType.get("whole.paid")).toMatchObject({
        description: "Paid",
        schemas: { "1": { type: "object" } },
      });
      expect((await svix.eventType.get("whole.old")).archived).toBe(true);

      const second = await runImport(url, runtime.url, "--apply");
      expect(second.code).toBe(0);
      for (const line of [
        "event types   2 as they are",
        "applications  2 as they are",
        "endpoints     5 as they are",
      ])
        expect(second.output).toContain(line);

      await svix.message.create("whole", { eventType: "whole.paid", payload: { total: 1 } });
      const found = () => receiver.hits.filter(({ path }) => path.startsWith("/whole/"));
      await until(() => found().length >= 3, {
        otherwise: () => `${found().length} of 3 came`,
      });
      for (const { path, headers, body } of found()) {
        const secret = secretOf(`ep_whole_${path.at(-1)}`);
        const verify = (key: string) => new Webhook(key).verify(body, headers as Record<string, string>);
        expect(() => verify(secret)).not.toThrow();
        expect(() => verify(secretOf("another"))).toThrow();
      }
      expect(found().find(({ path }) => path === "/whole/b")?.headers["x-api-key"]).toBe("letmein");
      for (const { output } of [dry, first, second])
        for (const hidden of [TOKEN, KEY, "letmein", secretOf("ep_whole_a").slice(6)])
          expect(output).not.toContain(hidden);
    } finally {
      stop();
    }
  });

  test("that is killed at any of its writes continues when it is run again, and creates nothing twice", async () => {
    const source = sourceOf("kill");
    const { url, stop } = await serveFake(source);
    let killIn = 0;
    let child: ChildProcess | undefined;
    /** Passes everything on to the target; the import does not live to see the answer to one of its writes. */
    const proxy = localServer(async (request, response) => {
      let body = "";
      for await (const chunk of request) body += chunk;
      const { method = "GET", headers, url: path } = request;
      if (method !== "GET") killIn -= 1;
      const isLast = method !== "GET" && killIn === 0;
      const sent = Object.fromEntries(
        ["authorization", "content-type", "idempotency-key"].flatMap((name) =>
          headers[name] === undefined ? [] : [[name, String(headers[name])]],
        ),
      );
      const answer = await fetch(`${runtime.url}${path}`, { method, headers: sent, ...(body && { body }) });
      const text = await answer.text();
      if (isLast) child?.kill("SIGKILL");
      response.writeHead(answer.status, { "content-type": "application/json" }).end(text);
    });
    proxy.listen(0, "127.0.0.1");
    await once(proxy, "listening");
    const through = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    try {
      let kills = 0;
      for (let code: number | null = null; code === null; kills += 1) {
        killIn = 2;
        const started = start(url, through, "--apply", "--concurrency", "1");
        child = started.child;
        code = (await started.ended).code;
        if (code !== null) expect(code).toBe(0);
      }
      expect(kills).toBeGreaterThan(4);
      await expectCopied("kill", source);
      const again = await runImport(url, through, "--apply");
      expect(again.output).toContain("endpoints     0 created, 0 changed, 5 left, 0 failed");
    } finally {
      proxy.closeAllConnections();
      proxy.close();
      stop();
    }
  });

  test("from another deployment of Breakwater keeps the secrets, and holds endpoints whose headers are not shown", async () => {
    const other = await startBreakwater({ vars: { ADMIN_KEY: TOKEN, ALLOW_PRIVATE_DESTINATIONS: "true" } });
    try {
      const from = new Svix(TOKEN, { serverUrl: other.url });
      const { id: app } = await from.application.create({ name: "Moving", throttleRate: 20 });
      await from.endpoint.create(app, { url: `${receiver.url}/moved`, uid: "plain", throttleRate: 20 });
      const { id } = await from.endpoint.create(app, {
        url: `${receiver.url}/held`,
        headers: { authorization: "Basic YTpi" },
      });
      const { code, output } = await runImport(other.url, runtime.url, "--apply");
      expect(code).toBe(0);
      expect(output).toContain("headers authorization: the source does not show their values");
      // Ids of Breakwater are no names at another deployment.
      const [moved, held] = [`former-${app}`, `former-${id}`];
      for (const [uid, name] of [
        ["plain", "plain"],
        [held, id],
      ] as const)
        expect((await svix.endpoint.getSecret(moved, uid)).key).toBe(
          (await from.endpoint.getSecret(app, name)).key,
        );
      expect((await svix.endpoint.get(moved, "plain")).disabled).toBe(false);
      expect((await svix.endpoint.get(moved, held)).disabled).toBe(true);
      await svix.endpoint.patchHeaders(moved, held, { headers: { authorization: "Basic YTpi" } });
      const again = await runImport(other.url, runtime.url, "--apply");
      expect(again.output).toContain("endpoints     0 created, 1 changed, 1 left, 0 failed");
      expect((await svix.endpoint.get(moved, held)).disabled).toBe(false);
    } finally {
      await other.stop();
    }
  });

  test("that the target refuses says so, and exits with 1; a mistake in the command line exits with 2", async () => {
    const source = new FakeSvix();
    source.applications = [
      fakeApplication("app_refused", {}, [fakeEndpoint("ep_r", { url: "http://metadata.google.internal/" })]),
    ];
    const { url, stop } = await serveFake(source);
    try {
      const refused = await runImport(url, runtime.url, "--apply");
      expect(refused.code).toBe(1);
      expect(refused.output).toMatch(
        /endpoint ep_r of app_refused: POST .* answered 422: body.url: points to/,
      );
      source.token = "another";
      const stranger = await runImport(url, runtime.url);
      expect(stranger).toMatchObject({ code: 1, output: expect.stringContaining("refuses the --token") });
      expect((await runImport("nowhere", runtime.url)).code).toBe(2);
      stop();
      const gone = await runImport(url, runtime.url, "--to", url);
      expect(gone.code).toBe(2);
    } finally {
      stop();
    }
  });
});
