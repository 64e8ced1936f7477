/** The network between senders and receivers: a sender's attempts, and their latency. */
import type { Exchange } from "../core/retry/classify.ts";
import type { Ledger } from "./ledger.ts";
import type { Receiver } from "./receiver.ts";
import type { VirtualTime } from "./virtual-time.ts";

/** One way between a sender and a receiver. */
export const WIRE_MS = 10;

/** Attempts one delivery; `answer` is called exactly once, after `timeoutMs` at the latest. */
export type SendAttempt = (delivery: number, answer: (exchange: Exchange) => void, timeoutMs: number) => void;

export type SenderContext = Readonly<{ engine: VirtualTime; attempt: SendAttempt; ledger: Ledger }>;

/** A sender under test: it gets deliveries and makes attempts as its design would. */
export type SimulatedSender = Readonly<{ post: (delivery: number, receiver: number) => void }>;

/** Attempts over the wire to the receiver of each delivery, all of them entered in the ledger. */
export function attemptsTo(
  engine: VirtualTime,
  receivers: readonly Receiver[],
  receiverOf: (delivery: number) => number,
  ledger: Ledger,
): SendAttempt {
  return (delivery, answer, timeoutMs) => {
    const id = receiverOf(delivery);
    const receiver = receivers[id];
    if (!receiver) throw new Error(`Delivery ${delivery} has no receiver`);
    let isOver = false;
    const end = (exchange: Exchange) => {
      if (isOver) return;
      isOver = true;
      ledger.answered(delivery, id, exchange, engine.now());
      answer(exchange);
    };
    engine.after(timeoutMs, () => end({ kind: "timeout" }));
    engine.after(WIRE_MS, () => {
      ledger.arrived(id, engine.now());
      receiver.take((exchange) => engine.after(WIRE_MS, () => end(exchange)));
    });
  };
}
