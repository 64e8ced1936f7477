/** A sender under test: it is handed deliveries and makes attempts as its design would. */
import type { DestinationSettings } from "./breakwater/destinations.ts";
import type { Engine } from "./engine.ts";
import type { Attempt } from "./exchange.ts";
import type { Ledger } from "./ledger.ts";

export type SenderScene = Readonly<{
  engine: Engine;
  attempt: Attempt;
  ledger: Ledger;
  /** How many receivers there are. */
  receivers: number;
  /** What the receivers' owners have set, for a sender that has settings. */
  settings: DestinationSettings;
}>;

export type Sender = Readonly<{ post: (delivery: number, receiver: number) => void }>;

export type Contender = Readonly<{
  name: string;
  /** Whether it is a model of somebody else's published behaviour. */
  model: boolean;
  start: (scene: SenderScene) => Sender;
}>;
