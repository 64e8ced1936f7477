/**
 * `npm run bench:isolation [-- rounds --save]`: what does one destination in trouble do to a hundred that are well?
 *
 * Breakwater beside the do-it-yourself stack of BullMQ and Redis, in turn, in a phase in which the one is
 * well and one for each trouble. Each round begins with another of them, and every ratio is taken within its
 * round, because neighbours in time share the machine's mood.
 */

import { phasedBreakwater } from "./isolation/breakwater.ts";
import { phasedBullmq } from "./isolation/bullmq.ts";
import { openCustomers } from "./isolation/customers.ts";
import { customersFor, customerWith, type Fault, none, troubles } from "./isolation/faults.ts";
import { figuresOf, type PhaseFigures } from "./isolation/figures.ts";
import { phase } from "./isolation/phase.ts";
import type { PhasedContender, Setup } from "./isolation/phased-contender.ts";
import { newPost } from "./isolation/post-events.ts";
import { type Round, report, resultsOf } from "./isolation/report.ts";
import { benchArgs, save } from "./results.ts";
import { inTurn } from "./rounds.ts";

const args = benchArgs();
const ROUNDS = Number(args.words[0] ?? 3);

type Entrant = Readonly<{ phased: PhasedContender; rounds: Round[] }>;

async function main(): Promise<void> {
  const setup = { customers: await openCustomers(customersFor(ROUNDS)), post: newPost() };
  const entrants = await enterAll(setup);
  try {
    for (let round = 0; round < ROUNDS; round++) {
      for (const { phased, rounds } of inTurn(entrants, round)) {
        rounds.push(await measure(setup, phased, round));
      }
    }
    const series = entrants.map(({ phased: { contender }, rounds }) => ({ contender, rounds }));
    console.log(`\n${report(series)}`);
    if (args.save) save("isolation", resultsOf(series));
  } finally {
    await Promise.allSettled(entrants.map(({ phased }) => phased.stop()));
  }
}

async function enterAll(setup: Setup): Promise<Entrant[]> {
  const own = { phased: await phasedBreakwater(setup), rounds: [] };
  const other = phasedBullmq(setup);
  const missing = other.contender.missing();
  if (missing) console.log(`Without ${other.contender.name}: ${missing}.`);
  return missing ? [own] : [own, { phased: other, rounds: [] }];
}

/** One round of one of them: every trouble once, and once none. */
async function measure(setup: Setup, phased: PhasedContender, round: number): Promise<Round> {
  const figures = new Map<Fault, PhaseFigures>();
  for (const trouble of inTurn([none, ...troubles], round)) {
    const measured = await measurePhase(setup, phased, trouble, round);
    figures.set(trouble, measured);
    const { p50, p99 } = measured.whole;
    const times = `p50 ${p50.value.toFixed(0)} ms, p99 ${p99.value.toFixed(0)} ms`;
    console.log(
      `round ${round + 1} of ${ROUNDS} · ${phased.contender.name} · one ${trouble.name} · ${times}`,
    );
  }
  return figures;
}

async function measurePhase(
  { customers, post }: Setup,
  { ready }: PhasedContender,
  trouble: Fault,
  round: number,
): Promise<PhaseFigures> {
  const customer = customerWith(trouble, round);
  // A backlog is there before the phase: its customer must not have worked it off by then.
  if (trouble.waiting > 0) customers.behave(customer, trouble.mood);
  const { running, end } = await ready(trouble, round);
  customers.behave(customer, trouble.mood);
  try {
    return figuresOf(await phase(running, customers, post, { customer, perSecond: trouble.perSecond }));
  } finally {
    await end();
    customers.behave(customer, "well");
  }
}

await main();
process.exit(0);
