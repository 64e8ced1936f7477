/** Who is compared: a sender with a name, in a context that may have settings of its receivers' owners. */
import type { SenderContext, SimulatedSender } from "../../src/simulator/sender.ts";
import type { DestinationSettings } from "./breakwater/destinations.ts";
import type { Engine } from "./engine.ts";

export type ContenderContext = SenderContext &
  Readonly<{
    engine: Engine;
    /** How many receivers there are. */
    receivers: number;
    /** What the receivers' owners have set, for a sender that has settings. */
    settings: DestinationSettings;
    /** Whether what is posted to a receiver at the same moment is one request. */
    isBatched: boolean;
  }>;

export type Contender = Readonly<{
  name: string;
  /** Where several names stand for the same sender. */
  id?: string;
  /** Whether it is a model of somebody else's published behaviour. */
  model: boolean;
  start: (context: ContenderContext) => SimulatedSender;
}>;
