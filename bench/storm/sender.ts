/** A sender that is compared, and its context, to which the settings of the destinations belong. */
import type { SenderContext, SimulatedSender } from "../../src/simulator/sender.ts";
import type { DestinationSettings } from "./breakwater/destinations.ts";
import type { Engine } from "./engine.ts";

export type ContenderContext = SenderContext &
  Readonly<{
    engine: Engine;
    /** The number of receivers. */
    receivers: number;
    /** The settings of the destinations, for a sender that has settings. */
    settings: DestinationSettings;
    /** Whether events that are posted to a receiver at the same moment share a request. */
    isBatched: boolean;
  }>;

export type Contender = Readonly<{
  name: string;
  /** Identifies the sender where several names stand for it. */
  id?: string;
  /** Whether it is a model of another sender's published behaviour. */
  model: boolean;
  start: (context: ContenderContext) => SimulatedSender;
}>;
