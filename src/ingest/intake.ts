/**
 * Intake: the object that commits single events for everybody who posts at the same time, as databases commit groups.
 *
 * While one commit is under way the next bundles gather. It waits for nobody: with one caller it commits at once. A
 * linger is for traffic so dense that a few milliseconds fill bundles. What is pending is bounded: whoever comes
 * beyond that is told to come later, and nothing of it is kept.
 */
import { DurableObject } from "cloudflare:workers";
import { MAX_EVENTS } from "../core/bundle.ts";
import { faultOf } from "../log.ts";
import { type Services, servicesOf } from "../services.ts";
import { commitEntries, type Entry, type Outcome } from "./commit.ts";
import { enqueueBundles } from "./enqueue.ts";
import { INTAKE_VERSION, type IntakeAnswer, type IntakeRequest } from "./intake-client.ts";

type Pending = Readonly<{
  entry: Entry;
  /** What the key is called with its tenant; two of the same do not go together. */
  name: string | undefined;
  bytes: number;
  deadlineAt: number;
  answer: (answer: IntakeAnswer) => void;
}>;

/** Pending at once. At a thousand a second this is some seconds of traffic. */
const MOST_PENDING = 5_000;
const MOST_BYTES = 16 * 1024 * 1024;
/** What one commit takes. */
const COMMIT_EVENTS = 10 * MAX_EVENTS;
const COMMIT_BYTES = 2 * 1024 * 1024;

export class Intake extends DurableObject<Env> {
  #pending: Pending[] = [];
  #bytes = 0;
  #busy = false;
  readonly #services: Services = servicesOf(this.env, this.ctx);

  /** Commits one event together with those of others; answers when it is in D1. */
  accept(request: IntakeRequest): Promise<IntakeAnswer> {
    if (request.version !== INTAKE_VERSION) return Promise.resolve({ kind: "unknown" });
    const bytes = request.body.byteLength;
    const isFull = this.#pending.length >= MOST_PENDING || this.#bytes + bytes > MOST_BYTES;
    if (isFull) return Promise.resolve({ kind: "full" });
    return new Promise((answer) => {
      const { key, tenant, deadlineAt } = request;
      const name = key && `${tenant} ${key.key}`;
      this.#pending.push({ entry: entryOf(request), name, bytes, deadlineAt, answer });
      this.#bytes += bytes;
      if (!this.#busy) this.ctx.waitUntil(this.#work(request.database));
    });
  }

  async #work(database: number): Promise<void> {
    this.#busy = true;
    try {
      while (this.#pending.length > 0) {
        await this.#linger();
        const taken = this.#take();
        const { outcomes, bundles } = await this.#commit(database, taken);
        for (const [i, { answer }] of taken.entries()) {
          answer({ kind: "done", outcome: outcomes[i] ?? { kind: "unavailable" } });
        }
        this.ctx.waitUntil(enqueueBundles(this.#services, bundles));
      }
    } finally {
      this.#busy = false;
    }
  }

  /** Those that are called at the same moment come in one after the other: they are let in first. */
  async #linger(): Promise<void> {
    const { intakeLingerMs } = this.#services.config;
    await (this.#pending.length > 1 && intakeLingerMs > 0
      ? this.#services.sleep(intakeLingerMs)
      : Promise.resolve());
  }

  /** The oldest that fit into one commit, each key once. Nobody waits any more for those past their deadline. */
  #take(): Pending[] {
    const now = this.#services.now();
    const names = new Set<string>();
    const taken: Pending[] = [];
    const left: Pending[] = [];
    let bytes = 0;
    for (const one of this.#pending) {
      if (one.deadlineAt < now) {
        one.answer({ kind: "done", outcome: { kind: "unavailable" } });
        continue;
      }
      const fits = taken.length < COMMIT_EVENTS && (taken.length === 0 || bytes + one.bytes <= COMMIT_BYTES);
      if (!fits || (one.name !== undefined && names.has(one.name))) {
        left.push(one);
        continue;
      }
      if (one.name !== undefined) names.add(one.name);
      taken.push(one);
      bytes += one.bytes;
    }
    this.#pending = left;
    this.#bytes = left.reduce((sum, one) => sum + one.bytes, 0);
    return taken;
  }

  async #commit(database: number, taken: readonly Pending[]) {
    try {
      const entries = taken.map(({ entry }) => entry);
      return await commitEntries(this.#services, database, entries, this.#services.now());
    } catch (error) {
      this.#services.log({ what: "intake_failed", events: taken.length, error: faultOf(error) });
      const outcomes = taken.map((): Outcome => ({ kind: "unavailable" }));
      return { outcomes, bundles: [] };
    }
  }
}

function entryOf({ token, tenant, type, body, deliverAt, key }: IntakeRequest): Entry {
  const data = () => (JSON.parse(new TextDecoder().decode(body)) as { data: unknown }).data;
  return { token, events: [{ tenant, type, data, body, deliverAt }], key };
}
