/** Between senders and receivers: what a sender can do, what it is told, and how long the way is. */
import type { Exchange } from "../policy/outcome.ts";
import type { Ledger } from "./ledger.ts";
import type { Receiver } from "./receiver.ts";
import type { VirtualTime } from "./virtual-time.ts";

/** One way between a sender and a receiver. */
export const WIRE_MS = 10;

/** Attempts one delivery; `answer` is called exactly once, after `timeoutMs` at the latest. */
export type Attempt = (delivery: number, answer: (exchange: Exchange) => void, timeoutMs: number) => void;

/** Attempts over the wire to the receiver of each delivery, all of them entered in the ledger. */
export function attemptsTo(
  engine: VirtualTime,
  receivers: readonly Receiver[],
  receiverOf: (delivery: number) => number,
  ledger: Ledger,
): Attempt {
  return (delivery, answer, timeoutMs) => {
    const place = receiverOf(delivery);
    const receiver = receivers[place];
    if (!receiver) throw new Error(`Delivery ${delivery} has no receiver`);
    let over = false;
    const end = (exchange: Exchange) => {
      if (over) return;
      over = true;
      ledger.answered(delivery, place, exchange, engine.now());
      answer(exchange);
    };
    engine.after(timeoutMs, () => end({ kind: "timeout" }));
    engine.after(WIRE_MS, () => {
      ledger.arrived(place, engine.now());
      receiver.take((exchange) => engine.after(WIRE_MS, () => end(exchange)));
    });
  };
}
