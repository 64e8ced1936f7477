/** A consumer of a polled destination, as its owner would write it: it fetches, works, and commits, or does not. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Random } from "../../../src/core/seeded-random.ts";
import { type Answer, type SoakClient, unexpected } from "./client.ts";
import type { Customer, SoakData } from "./customers.ts";
import type { Ledger } from "./ledger.ts";

const VISIBILITY_S = 15;
/** A page whose answer was lost comes again within this time; until then newer events come first. */
const LOST_MS = 3 * VISIBILITY_S * 1_000;
const PAUSE_MS = 500;

type Entry = Readonly<{ id: string; body: string }>;
type Page = Readonly<{ data: readonly Entry[]; iterator: string }>;

export type PollerAccess = Readonly<{
  client: SoakClient;
  ledger: Ledger;
  /** Whether the current version handles everything: the former one has no inboxes. */
  isCurrent: () => boolean;
  destination: string;
  apiKey: string;
}>;

export class Poller {
  readonly #customer: Customer;
  readonly #access: PollerAccess;
  readonly #random: Random;
  #lostAt = 0;
  #stopped = false;

  constructor(customer: Customer, access: PollerAccess, random: Random) {
    this.#customer = customer;
    this.#access = access;
    this.#random = random;
  }

  /** @throws what is not answered as it should be is in the books */
  async run(): Promise<void> {
    while (!this.#stopped) {
      if (this.#access.isCurrent())
        await this.#poll().catch((error: unknown) => {
          this.#access.ledger.findings.observe("answers", false, () => `poll: ${error}`);
        });
      await sleep(PAUSE_MS);
    }
  }

  stop(): void {
    this.#stopped = true;
  }

  async #poll(): Promise<void> {
    const { path, consumer = "" } = this.#customer;
    const { ledger } = this.#access;
    const limit = 1 + Math.floor(this.#random() * 60);
    const wait = this.#random() < 0.5 ? 0 : 3;
    const query = `consumer=${consumer}&limit=${limit}&wait_s=${wait}&visibility_s=${VISIBILITY_S}`;
    const answer = await this.#ask("GET", `poll?${query}`);
    if (answer === undefined) this.#lostAt = Date.now();
    if (answer === undefined || isBusy(answer)) return;
    if (answer.status !== 200) unexpected(answer);
    const { data, iterator } = answer.body as Page;
    const now = Date.now();
    const entries = data.map(({ id, body }) => ({ id, body, data: dataIn(body) }));
    for (const { id, ...fetched } of entries)
      ledger.fetched(path, id, fetched, now, now > this.#lostAt + LOST_MS);
    // Sometimes its process dies before the commit.
    if (entries.length === 0 || this.#random() < 0.1) return;
    await this.#commit(iterator, entries);
  }

  /** The picky one takes some and returns others. */
  async #commit(iterator: string, entries: readonly (Entry & { data: SoakData })[]): Promise<void> {
    const { path, consumer } = this.#customer;
    const isPicky = consumer === "picky" && this.#random() < 0.5;
    const returned = isPicky ? entries.filter(() => this.#random() < 0.2) : [];
    const body = {
      consumer,
      iterator,
      ...(returned.length > 0 && { return: returned.map(({ id }) => ({ id, retry_after_s: 2 })) }),
    };
    const answer = await this.#ask("POST", "poll/commit", body);
    if (answer === undefined || isBusy(answer)) return;
    if (answer.status >= 300) unexpected(answer);
    const kept = entries.filter((one) => !returned.includes(one)).map(({ data }) => data.ref);
    this.#access.ledger.committed(path, kept, Date.now());
  }

  /** A commit is made until it is answered. */
  #ask(method: string, path: string, body?: unknown): Promise<Answer | undefined> {
    const { client, destination, apiKey } = this.#access;
    const isRepeatable = method === "POST";
    return client.ask(method, `/new/v1/destinations/${destination}/${path}`, { apiKey, body, isRepeatable });
  }
}

/** Too many pages are handed out. */
function isBusy({ status }: Answer): boolean {
  return status === 429;
}

function dataIn(body: string): SoakData {
  return (JSON.parse(body) as { data: SoakData }).data;
}
