/** The measures of a simulation: every delivery's times, every arrival, every failure. */
import { type Exchange, healthOfExchange } from "../core/retry/classify.ts";
import { BEGINNING } from "./scenario.ts";

export type SimulatedDelivery = { acceptedAt: number; receiver: number; endedAt: number; dead: boolean };

export type Ledger = Readonly<{
  deliveries: readonly SimulatedDelivery[];
  /** Requests that reached each receiver, by whole seconds from the beginning. */
  arrivals: readonly number[][];
  /** Requests that did not succeed, by the second in which the answer came. */
  failures: readonly number[][];
  accepted: (delivery: number, receiver: number, at: number) => void;
  arrived: (receiver: number, at: number) => void;
  answered: (delivery: number, receiver: number, exchange: Exchange, at: number) => void;
  /** Given up. */
  died: (delivery: number, at: number) => void;
  /** Deliveries that have ended. */
  ended: () => number;
}>;

export function createLedger(receivers: number): Ledger {
  const deliveries: SimulatedDelivery[] = [];
  const arrivals = Array.from({ length: receivers }, (): number[] => []);
  const failures = Array.from({ length: receivers }, (): number[] => []);
  let ended = 0;

  function end(delivery: number, at: number, dead: boolean): void {
    const record = deliveries[delivery];
    if (!record || record.endedAt > 0) return;
    record.endedAt = at;
    record.dead = dead;
    ended += 1;
  }

  return {
    deliveries,
    arrivals,
    failures,
    accepted: (delivery, receiver, at) => {
      deliveries[delivery] = { acceptedAt: at, receiver, endedAt: 0, dead: false };
    },
    arrived: (receiver, at) => count(arrivals[receiver], at),
    answered: (delivery, receiver, exchange, at) => {
      if (isSuccess(exchange)) end(delivery, at, false);
      else count(failures[receiver], at);
    },
    died: (delivery, at) => end(delivery, at, true),
    ended: () => ended,
  };
}

export function secondOf(at: number): number {
  return Math.floor((at - BEGINNING) / 1000);
}

function isSuccess(exchange: Exchange): boolean {
  return exchange.kind === "response" && healthOfExchange(exchange) === "healthy" && exchange.status < 300;
}

function count(bins: number[] | undefined, at: number): void {
  if (!bins) return;
  const second = secondOf(at);
  bins[second] = (bins[second] ?? 0) + 1;
}
