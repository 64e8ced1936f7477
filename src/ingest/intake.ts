/**
 * Intake: the object that commits single events for everybody who posts at the same time, as databases commit groups.
 *
 * While one commit is under way the next bundles gather. It waits for nobody: with one caller it commits at once. A
 * linger is for traffic so dense that a few milliseconds fill bundles. What is pending is bounded: whoever comes
 * beyond that is told to come later, and nothing of it is kept.
 */
import { DurableObject } from "cloudflare:workers";
import { MAX_EVENTS } from "../core/bundle.ts";
import { type Services, servicesOf } from "../services.ts";
import { type Entry, INTAKE_VERSION, type IntakeAnswer, type IntakeRequest } from "./bundle.ts";
import { type CommittedBundle, commitEntries } from "./commit.ts";
import { enqueueCommitted } from "./enqueue.ts";

type Pending = Readonly<{ entry: Entry; bytes: number; answer: (answer: IntakeAnswer) => void }>;

/** Pending at once. At a thousand a second this is some seconds of traffic. */
const MOST_PENDING = 5_000;
const MOST_BYTES = 16 * 1024 * 1024;
/** What one commit takes: bytes of bodies, on the wire twice as many. */
const COMMIT_EVENTS = 10 * MAX_EVENTS;
const COMMIT_BYTES = 2 * 1024 * 1024;
/** Sends to the queue at once; what is committed meanwhile gathers for the next. */
const MOST_SENDS = 2;
/** Bundles that wait for a send. What is beyond that is left to the sweep. */
const MOST_UNSENT = 10_000;

export class Intake extends DurableObject<Env> {
  readonly #commits = new GroupCommit(servicesOf(this.env, this.ctx));

  /** Commits one event together with those of others; answers when it is in D1. */
  accept(request: IntakeRequest): Promise<IntakeAnswer> {
    return this.#commits.accept(request);
  }
}

/** What gathers, what is being committed, and what is on its way to the queue: of one database. */
export class GroupCommit {
  readonly #services: Services;
  readonly #outbox: Outbox;
  #pending: Pending[] = [];
  #bytes = 0;
  #isBusy = false;

  constructor(services: Services) {
    this.#services = services;
    this.#outbox = new Outbox(services);
  }

  accept(request: IntakeRequest): Promise<IntakeAnswer> {
    if (request.version !== INTAKE_VERSION) return Promise.resolve({ kind: "unknown" });
    const bytes = request.body.byteLength;
    const isFull = this.#pending.length >= MOST_PENDING || this.#bytes + bytes > MOST_BYTES;
    if (isFull) return Promise.resolve({ kind: "full" });
    return new Promise((answer) => {
      this.#pending.push({ entry: this.#entryOf(request), bytes, answer });
      this.#bytes += bytes;
      if (!this.#isBusy) this.#services.background(this.#work(request.database));
    });
  }

  #entryOf({
    database,
    token,
    tenant,
    type,
    body,
    deliverAt,
    key,
    deadlineAt,
    triedAt,
  }: IntakeRequest): Entry {
    const data = () => (JSON.parse(new TextDecoder().decode(body)) as { data: unknown }).data;
    const { routing } = this.#services;
    const floor = routing.hasFloor(database) ? routing.floor(database) : undefined;
    return { token, events: [{ tenant, type, data, body, deliverAt }], key, deadlineAt, triedAt, floor };
  }

  async #work(database: number): Promise<void> {
    this.#isBusy = true;
    try {
      while (this.#pending.length > 0) {
        await this.#linger();
        const taken = this.#take();
        const entries = taken.map(({ entry }) => entry);
        const now = this.#services.now();
        const { outcomes, bundles } = await commitEntries(this.#services, database, entries, now);
        for (const [i, { answer }] of taken.entries()) {
          answer({ kind: "done", outcome: outcomes[i] ?? { kind: "unavailable" } });
        }
        this.#outbox.add(bundles);
      }
    } finally {
      this.#isBusy = false;
    }
  }

  /** Those that are called at the same moment come in one after the other: they are let in first. */
  async #linger(): Promise<void> {
    const { intakeLingerMs } = this.#services.config;
    await (this.#pending.length > 1 && intakeLingerMs > 0
      ? this.#services.sleep(intakeLingerMs)
      : Promise.resolve());
  }

  /** The oldest that fit into one commit. */
  #take(): Pending[] {
    let bytes = 0;
    let count = 0;
    for (const one of this.#pending) {
      if (count > 0 && (count >= COMMIT_EVENTS || bytes + one.bytes > COMMIT_BYTES)) break;
      bytes += one.bytes;
      count += 1;
    }
    this.#bytes -= bytes;
    return this.#pending.splice(0, count);
  }
}

/** Committed bundles on their way to the queue: a few sends at once, each with all that has gathered by then. */
class Outbox {
  readonly #services: Services;
  #unsent: CommittedBundle[] = [];
  #sends = 0;

  constructor(services: Services) {
    this.#services = services;
  }

  add(bundles: readonly CommittedBundle[]): void {
    const room = Math.max(0, MOST_UNSENT - this.#unsent.length);
    if (bundles.length > room) this.#services.log({ what: "unsent", bundles: bundles.length - room });
    this.#unsent.push(...bundles.slice(0, room));
    if (this.#unsent.length > 0 && this.#sends < MOST_SENDS) this.#services.background(this.#send());
  }

  async #send(): Promise<void> {
    this.#sends += 1;
    try {
      while (this.#unsent.length > 0) await enqueueCommitted(this.#services, this.#unsent.splice(0));
    } finally {
      this.#sends -= 1;
    }
  }
}
