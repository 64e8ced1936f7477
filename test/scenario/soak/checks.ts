/** The checks of the soak, each with the number of observations and the violations. */

/** The invariant of docs/invariants.md, or the rule, that a check is about. */
export const checks = {
  arrives: ["1", "an accepted delivery arrives, or ends with a reason"],
  batch: ["1", "a batch whose answer was lost is stored as a whole or not at all"],
  ends: ["2", "every delivery has ended when all receivers work"],
  attempts: ["3", "the attempt's number is no higher than the requests that the receiver has seen"],
  concurrency: ["4", "no more requests at once than max_concurrency"],
  group: ["4", "no more requests at once to a group's members than the group's max_concurrency"],
  bytes: ["5", "every attempt has the same id and bytes"],
  shape: ["5", "a destination with a template gets what the template makes"],
  signature: ["5", "every attempt is signed, with a timestamp of its own"],
  retryAfter: ["6", "a delivery that was answered 429 comes back no earlier than asked"],
  quiet: ["6", "the whole destination is quiet for as long as asked"],
  herd: ["7", "after a quiet, one request at a time until the first success"],
  once: ["9", "what was delivered is not sent again without a cause"],
  ended: ["9", "what is dead, cancelled or erased is not sent again"],
  key: ["9", "one key has one event"],
  requeued: ["9", "what is retried or replayed on request arrives again"],
  tenants: ["10", "an event comes to its tenant's endpoints only, and to those that take its type"],
  foreign: ["10", "a tenant's key sees no event of another tenant"],
  erased: ["-", "what was erased is shown no more"],
  secrets: ["11", "no line of the log has a piece of a secret"],
  order: ["13", "first successes of a key are in the order of acceptance"],
  committed: ["9", "what a consumer has committed is not handed out again"],
  log: ["13", "a consumer gets the events of each database in the order of acceptance"],
  scheduled: ["rule 5", "nothing scheduled comes before its time"],
  answers: ["rule 13", "no request is answered 500"],
  misread: ["rule 4", "no version misreads what the other has written"],
  quotas: ["platform", "no quota of the platform is exceeded"],
  tables: ["rule 11", "tables do not grow"],
  memory: ["-", "what the isolates hold in memory does not grow"],
} as const satisfies Readonly<Record<string, readonly [string, string]>>;

export type Check = keyof typeof checks;

/** The number of violations of each check that are stored with details; the others are only counted. */
const KEPT = 20;

export type Finding = Readonly<{ check: Check; count: number; observed: number; seen: readonly string[] }>;

export class Findings {
  readonly #observed = new Map<Check, number>();
  readonly #violations = new Map<Check, { count: number; seen: string[] }>();
  /** Called with the details of each stored violation. */
  onViolation: (check: Check, text: string) => void = () => {};

  /** Counts an observation; if it is not good, it is a violation with this text. */
  observe(check: Check, isGood: boolean, text: () => string, observations = 1): void {
    this.#observed.set(check, (this.#observed.get(check) ?? 0) + observations);
    if (isGood) return;
    const known = this.#violations.get(check) ?? { count: 0, seen: [] };
    known.count += 1;
    if (known.seen.length < KEPT) {
      known.seen.push(text());
      this.onViolation(check, known.seen.at(-1) ?? "");
    }
    this.#violations.set(check, known);
  }

  count(check: Check): number {
    return this.#violations.get(check)?.count ?? 0;
  }

  all(): Finding[] {
    return (Object.keys(checks) as Check[]).map((check) => ({
      check,
      observed: this.#observed.get(check) ?? 0,
      count: this.count(check),
      seen: this.#violations.get(check)?.seen ?? [],
    }));
  }

  total(): number {
    return this.all().reduce((sum, { count }) => sum + count, 0);
  }
}
