/**
 * A model of hookflare's published behaviour: one object per destination that sends a fresh delivery at
 * once; a breaker that opens after 10 failures in a row for 5 minutes; and a single alarm, which works off
 * everything that is pending, one after the other. 10 attempts, 1 min doubling, up to 20 % on top.
 */

import type { Exchange } from "../../../src/core/retry/classify.ts";
import type { SimulatedSender } from "../../../src/simulator/sender.ts";
import type { Contender, ContenderContext } from "../sender.ts";

const MINUTE = 60_000;
const THRESHOLD = 10;
const RECOVERY_MS = 5 * MINUTE;
const ATTEMPTS = 10;
const TIMEOUT_MS = 30_000;
const STAGGER_MS = 5_000;

type Task = { readonly delivery: number; attempt: number };

export const hookflare: Contender = { name: "hookflare (model)", model: true, start };

function start(context: ContenderContext): SimulatedSender {
  const objects = Array.from({ length: context.receivers }, () => deliveryObject(context));
  return { post: (delivery, receiver) => objects[receiver]?.(delivery) };
}

/** The object of one destination: takes a delivery. */
function deliveryObject({ engine, attempt, ledger }: ContenderContext): (delivery: number) => void {
  const pending = new Map<number, Task>();
  let failures = 0;
  let state: "closed" | "open" | "half_open" = "closed";
  let openedAt = 0;
  let alarmAt = 0;
  let working = false;

  /** Sets the only alarm: a later call moves it. */
  function setAlarm(at: number): void {
    if (at === alarmAt) return;
    alarmAt = at;
    engine.at(at, () => {
      if (alarmAt === at) ring();
    });
  }

  function ring(): void {
    if (working) {
      engine.after(1_000, ring);
      return;
    }
    alarmAt = 0;
    working = true;
    workOff([...pending.values()], 0);
  }

  function mayTry(): boolean {
    if (state !== "open") return state === "closed";
    const isOver = engine.now() >= openedAt + RECOVERY_MS;
    if (isOver) state = "half_open";
    else setAlarm(openedAt + RECOVERY_MS);
    return isOver;
  }

  function attemptTask(task: Task, then: () => void): void {
    const end = (exchange: Exchange) => {
      if (exchange.kind === "response" && exchange.status < 300) succeed(task);
      else fail(task);
      then();
    };
    if (mayTry()) attempt(task.delivery, end, TIMEOUT_MS);
    else then();
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
    if (task.attempt < ATTEMPTS) retryLater(task);
    else giveUp(task);
  }

  function giveUp({ delivery }: Task): void {
    pending.delete(delivery);
    ledger.died(delivery, engine.now());
  }

  function retryLater(task: Task): void {
    const waitMs = MINUTE * 2 ** (task.attempt - 1) * (1 + 0.2 * engine.random());
    task.attempt += 1;
    setAlarm(engine.now() + waitMs + engine.random() * STAGGER_MS);
  }

  /** Works off tasks one after the other. An open circuit stops that, and moves the alarm to the circuit's end. */
  function workOff(tasks: readonly Task[], from: number): void {
    const task = tasks[from];
    const isShut = state === "open" && engine.now() < openedAt + RECOVERY_MS;
    if (task && isShut) setAlarm(openedAt + RECOVERY_MS);
    working = task !== undefined && state !== "half_open" && !isShut;
    if (task && working) attemptTask(task, () => workOff(tasks, from + 1));
  }

  return (delivery) => {
    const task = { delivery, attempt: 1 };
    pending.set(delivery, task);
    attemptTask(task, () => undefined);
  };
}
