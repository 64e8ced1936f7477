/**
 * A model of hookflare's published behaviour: one object per destination that sends a fresh delivery at
 * once; a breaker that opens after 10 failures in a row for 5 minutes; and a single alarm, which works off
 * everything that is pending, one after the other. 10 attempts, 1 min doubling, up to 20 % on top.
 */
import type { Exchange } from "../../../../src/policy/outcome.ts";
import type { Contender, Sender, SenderScene } from "../sender.ts";

const MINUTE = 60_000;
const THRESHOLD = 10;
const RECOVERY_MS = 5 * MINUTE;
const ATTEMPTS = 10;
const TIMEOUT_MS = 30_000;
const STAGGER_MS = 5_000;

type Task = { readonly delivery: number; attempt: number };

export const hookflare: Contender = { name: "hookflare (model)", model: true, start };

function start(scene: SenderScene): Sender {
  const objects = Array.from({ length: scene.receivers }, () => deliveryObject(scene));
  return { post: (delivery, receiver) => objects[receiver]?.(delivery) };
}

/** The object of one destination: takes a delivery. */
function deliveryObject({ engine, attempt, ledger }: SenderScene): (delivery: number) => void {
  const pending = new Map<number, Task>();
  let failures = 0;
  let state: "closed" | "open" | "half_open" = "closed";
  let openedAt = 0;
  let alarmAt = 0;
  let working = false;

  function setAlarm(at: number): void {
    alarmAt = at;
    engine.at(at, () => (alarmAt === at && !working ? workOff([...pending.values()], 0) : undefined));
  }

  /** An open circuit puts the alarm to its own end. */
  function mayTry(): boolean {
    if (state === "open" && engine.now() >= openedAt + RECOVERY_MS) {
      state = "half_open";
      return true;
    }
    if (state === "open") setAlarm(openedAt + RECOVERY_MS);
    return state === "closed";
  }

  function attemptTask(task: Task, then: () => void): void {
    if (!mayTry()) return then();
    const end = (exchange: Exchange) => {
      if (exchange.kind === "response" && exchange.status < 300) succeed(task);
      else fail(task);
      then();
    };
    attempt(task.delivery, end, TIMEOUT_MS);
  }

  function succeed(task: Task): void {
    pending.delete(task.delivery);
    failures = 0;
    state = "closed";
  }

  function fail(task: Task): void {
    failures += 1;
    if (state === "half_open" || failures >= THRESHOLD) {
      state = "open";
      openedAt = engine.now();
    }
    if (task.attempt >= ATTEMPTS) {
      pending.delete(task.delivery);
      return ledger.died(task.delivery, engine.now());
    }
    const waitMs = MINUTE * 2 ** (task.attempt - 1) * (1 + 0.2 * engine.random());
    task.attempt += 1;
    setAlarm(engine.now() + waitMs + engine.random() * STAGGER_MS);
  }

  /** Skips what the circuit does not let through without going deeper into the stack. */
  function workOff(tasks: readonly Task[], from: number): void {
    working = true;
    let next = from;
    while (next < tasks.length && state === "open" && !mayTry()) next += 1;
    const task = tasks[next];
    if (task) return attemptTask(task, () => engine.after(0, () => workOff(tasks, next + 1)));
    working = false;
    if (alarmAt > 0 && alarmAt <= engine.now() && pending.size > 0) setAlarm(engine.now() + 1);
  }

  return (delivery) => {
    const task = { delivery, attempt: 1 };
    pending.set(delivery, task);
    attemptTask(task, () => undefined);
  };
}
