/**
 * `npm run bench:isolation [-- rounds]`: what does one destination in trouble do to a hundred that are well?
 *
 * Breakwater beside the do-it-yourself stack of BullMQ and Redis, in turn, in a phase in which the one is
 * well and one for each trouble. Each round begins with another of them, and every ratio is taken within its
 * round, because neighbours in time share the machine's mood.
 */
import { inTurn } from "./in-turn.ts";
import { openCustomers } from "./isolation/customers.ts";
import { figuresOf, type PhaseFigures } from "./isolation/figures.ts";
import { ourselves } from "./isolation/ourselves.ts";
import { peer } from "./isolation/peer.ts";
import { phase } from "./isolation/phase.ts";
import { newPost } from "./isolation/post.ts";
import { type Round, report } from "./isolation/report.ts";
import type { Stage, Subject } from "./isolation/subject.ts";
import { customersFor, none, type Trouble, theOneWith, troubles } from "./isolation/troubles.ts";

const ROUNDS = Number(process.argv[2] ?? 3);

type Entrant = Readonly<{ subject: Subject; rounds: Round[] }>;

async function main(): Promise<void> {
  const stage = { customers: await openCustomers(customersFor(ROUNDS)), post: newPost() };
  const entrants = await enterAll(stage);
  try {
    for (let round = 0; round < ROUNDS; round++) {
      for (const { subject, rounds } of inTurn(entrants, round)) {
        rounds.push(await measure(stage, subject, round));
      }
    }
    const series = entrants.map(({ subject: { contender }, rounds }) => ({ contender, rounds }));
    console.log(`\n${report(series)}`);
  } finally {
    await Promise.allSettled(entrants.map(({ subject }) => subject.stop()));
  }
}

async function enterAll(stage: Stage): Promise<Entrant[]> {
  const own = { subject: await ourselves(stage), rounds: [] };
  const other = peer(stage);
  const missing = other.contender.missing();
  if (missing) console.log(`Without ${other.contender.name}: ${missing}.`);
  return missing ? [own] : [own, { subject: other, rounds: [] }];
}

/** One round of one of them: every trouble once, and once none. */
async function measure(stage: Stage, subject: Subject, round: number): Promise<Round> {
  const figures = new Map<Trouble, PhaseFigures>();
  for (const trouble of inTurn([none, ...troubles], round)) {
    const measured = await measurePhase(stage, subject, trouble, round);
    figures.set(trouble, measured);
    const { p50, p99 } = measured.whole;
    const times = `p50 ${p50.value.toFixed(0)} ms, p99 ${p99.value.toFixed(0)} ms`;
    console.log(
      `round ${round + 1} of ${ROUNDS} · ${subject.contender.name} · one ${trouble.name} · ${times}`,
    );
  }
  return figures;
}

async function measurePhase(
  { customers, post }: Stage,
  { ready }: Subject,
  trouble: Trouble,
  round: number,
): Promise<PhaseFigures> {
  const customer = theOneWith(trouble, round);
  // A backlog is there before the phase: its customer must not have worked it off by then.
  if (trouble.waiting > 0) customers.become(customer, trouble.mood);
  const { running, end } = await ready(trouble, round);
  customers.become(customer, trouble.mood);
  try {
    return figuresOf(await phase(running, customers, post, { customer, perSecond: trouble.perSecond }));
  } finally {
    await end();
    customers.become(customer, "well");
  }
}

await main();
process.exit(0);
