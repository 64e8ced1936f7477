/**
 * The rounds of one test: which mutant is active in each, and what its result says. The first two are without a mutant: they
 * find what the test reaches, and whether it can be repeated at all. A test that fails with a mutant has killed it if it
 * passes without one just before or just after; otherwise something is left over from an earlier round, and the file has to
 * be started again.
 */

export type TestReport = {
  /** The id of the test, the same in every run. */
  id: string;
  name: string;
  /**
   * "late": there was no time. "slow": it takes longer than it may. "afresh": what earlier rounds left behind makes it fail. "broken": it fails without a
   * mutant. "unrepeatable": it fails when it runs twice.
   */
  state: "late" | "slow" | "done" | "afresh" | "broken" | "unrepeatable";
  /** The mutants with which it passes, and those that it has killed. */
  survived: number[];
  killed: number[];
  /** Why it has failed, by mutant: a timeout of a busy machine is no kill. */
  errors: Record<number, string>;
  /** The mutant to begin with when the file is started again. */
  first?: number;
};

/** No mutant is 0. */
export const NONE = 0;

export class Rounds {
  readonly report: TestReport;
  private readonly untried: (reached: ReadonlySet<number>) => number[];
  private readonly isFresh: boolean;
  private round = 0;
  private queue: number[] = [];
  private wasClean = false;
  private doubted = NONE;
  private active = NONE;

  /**
   * @param untried which of the mutants that the test reaches it has to try, the last one first
   * @param isFresh whether no mutant has been active in this file
   */
  constructor(
    id: string,
    name: string,
    untried: (reached: ReadonlySet<number>) => number[],
    isFresh: boolean,
  ) {
    this.untried = untried;
    this.isFresh = isFresh;
    this.report = { id, name, state: "late", survived: [], killed: [], errors: {} };
  }

  /** The mutant of the next round. */
  next(isStillAlive: (id: number) => boolean): number {
    this.active = NONE;
    const mustBeClean = this.round < 2 || this.doubted !== NONE;
    while (!mustBeClean && this.active === NONE && this.queue.length > 0) {
      const id = this.queue.pop() ?? NONE;
      if (isStillAlive(id)) this.active = id;
    }
    return this.active;
  }

  /** Whether another round has to follow. */
  after(hasFailed: boolean, reached: ReadonlySet<number>): boolean {
    const { report } = this;
    if (this.round === 0) this.queue = this.untried(reached);
    if (this.round < 2 && hasFailed) report.state = this.fault();
    else if (this.active !== NONE) this.judge(hasFailed);
    else if (this.doubted !== NONE) this.resolveDoubt(hasFailed);
    else if (this.round > 1) report.state = "done";
    else this.wasClean = true;
    if (this.queue.length === 0 && this.doubted === NONE && report.state === "late") report.state = "done";
    this.round++;
    return report.state === "late";
  }

  private fault(): TestReport["state"] {
    if (this.round === 1) return "unrepeatable";
    return this.isFresh ? "broken" : "afresh";
  }

  private judge(hasFailed: boolean): void {
    const { report, active } = this;
    if (!hasFailed) report.survived.push(active);
    else if (this.wasClean) report.killed.push(active);
    if (hasFailed) this.doubted = active;
    else this.wasClean = false;
  }

  /** After a failure with a mutant the test has run without one. */
  private resolveDoubt(hasFailed: boolean): void {
    const { report, doubted } = this;
    const isKilled = report.killed.at(-1) === doubted;
    if (!isKilled && !hasFailed) report.killed.push(doubted);
    if (!isKilled && hasFailed) report.first = doubted;
    if (hasFailed) report.state = "afresh";
    this.doubted = NONE;
    this.wasClean = true;
  }
}
