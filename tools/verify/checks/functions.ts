/** Transformations in code that never end or take all memory: the platform's limits stop them, and nothing else. */

import type { Delivery } from "../../../client/src/api.ts";
import { arrived, type Check } from "../check.ts";

const LOOP = "export default () => { for (;;); };";
const HOARD = "export default () => { const all = []; for (;;) all.push(new Uint8Array(1e6).fill(1)); };";
const PLAIN = "export default ({ data }) => ({ body: data });";
const EVENTS = 20;
const WITHIN_MS = 60_000;

export const functions: Check = {
  name: "functions",
  expected:
    "an endless loop and one that takes all memory are stopped, each with a fault; others arrive meanwhile",
  usesReceiver: true,
  run: async (run) => {
    if (run.isLocal) return { skipped: "the local runtime limits neither CPU nor memory" };
    const { deployment } = run;
    const endpoint = await run.endpoint("functions", { per: "request", replies: [{ status: 204 }] });
    const draft = { url: endpoint.url, tenant: deployment.tenant, transform: { code: PLAIN } };
    const tried = await deployment.request("POST", "/v1/destinations", JSON.stringify(draft));
    if (tried.status === 422) return { skipped: "the deployment runs no code" };
    const hostile = await Promise.all(
      Object.entries({ loop: LOOP, memory: HOARD }).map(async ([name, code]) => {
        const { type } = await deployment.createDestination(name, endpoint.url, { transform: { code } });
        const [event] = await deployment.post(type, [{}], run.unique(name));
        return { name, id: event?.deliveries[0]?.id ?? "" };
      }),
    );
    const { type } = await deployment.createDestination("functions", endpoint.url, {
      transform: { code: PLAIN },
    });
    const data = Array.from({ length: EVENTS }, (_, n) => ({ n }));
    await deployment.post(type, data, run.unique("functions"));
    const hits = await run.hitsOnce(endpoint, arrived(EVENTS), WITHIN_MS);
    const faults = new Map<string, string>();
    const areStopped = async () => {
      for (const { name, id } of hostile) {
        const { reason, transform_fault } = await deployment.call<Delivery>("GET", `/v1/deliveries/${id}`);
        if (reason === "transform_failed") faults.set(name, JSON.stringify(transform_fault));
      }
      return faults.size === hostile.length;
    };
    const ok = (await run.until(areStopped, WITHIN_MS)) && arrived(EVENTS)(hits);
    const seen = hostile.map(({ name }) => `${name}: ${faults.get(name) ?? "not stopped"}`).join("; ");
    return { ok, seen: `${seen}; beside them ${hits.length} of ${EVENTS} arrived` };
  },
};
