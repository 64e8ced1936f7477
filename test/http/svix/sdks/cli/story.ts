/**
 * The part of the story that the `svix` command runs: calls with the same names in its versions 1 and 2. The other
 * steps are reported as absent.
 */
import { deepEqual, equal, match } from "node:assert/strict";
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { NotInThisSdk, received, step, until } from "../report.ts";
import { steps } from "../steps.ts";

const { BREAKWATER_URL = "", BREAKWATER_KEY = "", RECEIVER_URL, RUN = "" } = process.env;
const env = { ...process.env, SVIX_SERVER_URL: BREAKWATER_URL, SVIX_AUTH_TOKEN: BREAKWATER_KEY };
const run = promisify(execFile);

/** The output of the command. The last argument may be the body. */
async function svix(resource: string, verb: string, ...args: (string | object)[]) {
  const texts = args.map((arg) => (typeof arg === "string" ? arg : JSON.stringify(arg)));
  const { stdout } = await run("svix", ["--color", "never", resource, verb, ...texts], { env });
  return stdout === "" ? undefined : JSON.parse(stdout);
}

/** The output of the command when it fails with the status. */
async function refused(status: number, ...args: Parameters<typeof svix>): Promise<string> {
  const { stderr } = await svix(...args).then(
    () => ({ stderr: "it has not failed" }),
    (error: { stderr: string }) => error,
  );
  match(stderr, new RegExp(`status=${status}|Validation error`));
  return stderr;
}

const APP = `${RUN}-app`;
const TYPE = `${RUN}.order.paid`;
const PAYLOAD = { total: 12.5, note: "Grüße 👋" };
const uidsIn = ({ data }: { data: readonly { uid: string }[] }) => data.map(({ uid }) => uid);

const told: Record<string, () => Promise<void>> = {
  health: () => svix("health", "get"),
  "application: create": async () => {
    equal((await svix("application", "create", { name: "A", uid: APP })).uid, APP);
  },
  "application: list in pages": async () => {
    await svix("application", "create", { name: "B", uid: `${RUN}-1` });
    const first = await svix("application", "list", "--limit", "1");
    const page = await svix("application", "list", "--iterator", first.iterator);
    equal([...uidsIn(first), ...uidsIn(page)].filter((uid) => uid === APP).length, 1);
  },
  "application: get by id and uid": async () => {
    const app = await svix("application", "get", APP);
    deepEqual(await svix("application", "get", app.id), app);
  },
  "application: patch": async () => {
    equal((await svix("application", "patch", APP, { name: "Patched" })).name, "Patched");
  },
  "application: delete": async () => {
    await svix("application", "delete", `${RUN}-1`);
    await refused(404, "application", "get", `${RUN}-1`);
  },
  "event type: create": async () => {
    const schemas = { "1": { type: "object", examples: [{ total: 1 }] } };
    equal((await svix("event-type", "create", { name: TYPE, description: "Paid", schemas })).name, TYPE);
  },
  "event type: get": async () => equal((await svix("event-type", "get", TYPE)).description, "Paid"),
  "event type: patch": async () => {
    equal((await svix("event-type", "patch", TYPE, { description: "New" })).description, "New");
  },
  "endpoint: create": async () => {
    const endpoint = { uid: "orders", url: `${RECEIVER_URL}/${RUN}/orders` };
    equal((await svix("endpoint", "create", APP, endpoint)).uid, "orders");
  },
  "endpoint: get by id and uid": async () => {
    const endpoint = await svix("endpoint", "get", APP, "orders");
    deepEqual(await svix("endpoint", "get", APP, endpoint.id), endpoint);
  },
  "endpoint: patch": async () => {
    const patched = await svix("endpoint", "patch", APP, "orders", { description: "Patched" });
    equal(patched.description, "Patched");
  },
  "endpoint: patch headers": () =>
    svix("endpoint", "patch-headers", APP, "orders", { headers: { "x-one": "1" } }),
  "endpoint: get headers": async () => {
    deepEqual((await svix("endpoint", "get-headers", APP, "orders")).sensitive, ["x-one"]);
  },
  "endpoint: get the secret": async () => {
    match((await svix("endpoint", "get-secret", APP, "orders")).key, /^whsec_/);
  },
  "message: create": async () => {
    const message = { eventType: TYPE, eventId: "order-1", payload: PAYLOAD };
    equal((await svix("message", "create", APP, message)).eventId, "order-1");
  },
  "message: a repeated eventId is refused": async () => {
    const message = { eventType: TYPE, eventId: "order-1", payload: PAYLOAD };
    await refused(409, "message", "create", APP, message);
  },
  "message: get by id and eventId": async () => {
    const message = await svix("message", "get", APP, "order-1");
    deepEqual(await svix("message", "get", APP, message.id), message);
  },
  "webhook: verify what has arrived": async () => {
    const [{ body, headers } = { body: "", headers: {} }] = await received(`/${RUN}/orders`);
    const { key } = await svix("endpoint", "get-secret", APP, "orders");
    const { "svix-id": id = "", "svix-timestamp": time = "", "svix-signature": signatures = "" } = headers;
    const signature = signatures.split(" ")[0] ?? "";
    const signed = ["--msg-id", id, "--timestamp", time, "--signature", signature];
    await run("svix", ["signature", "verify", "--secret", key, ...signed, body], { env });
  },
  "endpoint: rotate the secret": async () => {
    const { key } = await svix("endpoint", "get-secret", APP, "orders");
    await svix("endpoint", "rotate-secret", APP, "orders", {});
    equal((await svix("endpoint", "get-secret", APP, "orders")).key === key, false);
  },
  "attempt: list by message": async () => {
    const attempt = await until(async () => {
      return (await svix("message-attempt", "list-by-msg", APP, "order-1")).data[0];
    });
    deepEqual([attempt.status, attempt.responseStatusCode], [0, 204]);
  },
  "attempt: list by endpoint": async () => {
    equal((await svix("message-attempt", "list-by-endpoint", APP, "orders")).data.length, 1);
  },
  "error: 404 for what there is not": async () => {
    match(await refused(404, "application", "get", "none"), /There is no application none/);
  },
  "error: 422 with the place of the fault": async () => {
    match(await refused(422, "endpoint", "create", APP, { url: "nowhere" }), /"body", "url"/);
  },
};

const notTold = () => Promise.reject(new NotInThisSdk());
for (const { name } of steps) await step(name, told[name] ?? notTold);
