/**
 * The effects of the lease runner (core/lease-runner.ts), which decides when to attempt what: the invocation's timers and
 * connections, HTTP, and the destination's gate.
 */
import type { Refusal } from "../core/admit.ts";
import { type LeaseEffects, type LeaseProgress, LeaseRunner, type LeaseTerms } from "../core/lease-runner.ts";
import type { RetryPolicy } from "../core/retry/policy.ts";
import { destinationStateAtGate, holdAtGate } from "../gate/client.ts";
import type { Services } from "../services.ts";
import type { LoadedDelivery } from "../store/deliveries.ts";
import { type Connections, type Sender, send } from "./http.ts";
import { type Finished, finish } from "./outcome.ts";

export type DeliveryLeaseOrder = LeaseTerms &
  Readonly<{
    destination: string;
    deliveries: readonly LoadedDelivery[];
    policy: RetryPolicy;
    sender: Sender;
  }>;

/** A lease in use. */
export type LeaseRun = Readonly<{
  progress: LeaseProgress<LoadedDelivery, Finished>;
  /** Why what is left over must wait. */
  leftoverReason: () => Refusal;
  /** True when the rest takes no longer than to be admitted again; false when it is over without that. */
  readyForSuccessor: Promise<boolean>;
  /** All attempts have ended, or nothing more is started: one has been without an answer for too long. */
  enough: Promise<void>;
  finished: Promise<void>;
  /** Goes on with the next lease over the same connections, as each of them has nothing more to start under this one. */
  continueWith: (order: DeliveryLeaseOrder) => LeaseRun;
}>;

type Runner = LeaseRunner<LoadedDelivery, Finished>;

export function runLease(services: Services, connections: Connections, order: DeliveryLeaseOrder): LeaseRun {
  const { destination } = order;
  const effects: LeaseEffects = {
    now: services.now,
    random: services.random,
    at: (time, then) => after(services.sleep(Math.max(0, time - services.now())), then),
    withConnection: (task, then) =>
      after(
        connections.run(destination, (free) => asPromise(task, free)),
        then,
      ),
    readState: (then) => after(destinationStateAtGate(services, destination), then),
    hold: (until) => services.background(holdAtGate(services, destination, until)),
  };
  const runner: Runner = new LeaseRunner(effects, order);
  const after = <T>(promise: Promise<T>, then: (value: T) => void) =>
    void promise.then(then).catch((error: unknown) => runner.fail(error));
  return begin(services, runner, order);
}

function begin(services: Services, runner: Runner, order: DeliveryLeaseOrder): LeaseRun {
  const { sender, policy } = order;
  const { timeoutMs } = order.settings;
  const readyForSuccessor = Promise.withResolvers<boolean>();
  const enough = Promise.withResolvers<void>();
  const finished = Promise.withResolvers<void>();
  const progress = runner.begin({
    ...order,
    send: (delivery, then, failed, free) => {
      const attempt = send(services, delivery, { timeoutMs, sender, answered: free });
      attempt.then((made) => then(finish(made, policy, services.random()))).catch(failed);
    },
    readyForSuccessor: readyForSuccessor.resolve,
    enough: () => enough.resolve(),
    finished: () => finished.resolve(),
    failed: (error) => {
      enough.reject(error);
      finished.reject(error);
    },
  });
  // Each awaiter of one of them handles its error; nobody need await both.
  for (const { promise } of [enough, finished]) promise.catch(() => {});
  return {
    progress,
    leftoverReason: () => runner.leftoverReason(progress),
    readyForSuccessor: readyForSuccessor.promise,
    enough: enough.promise,
    finished: finished.promise,
    continueWith: (following) => begin(services, runner, following),
  };
}

function asPromise(
  task: (done: (error?: unknown) => void, free: () => void) => void,
  free: () => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    task((error) => (error === undefined ? resolve() : reject(error)), free);
  });
}
