/** A sender under test: it is handed deliveries and makes attempts as its design would. */
import type { Attempt } from "./exchange.ts";
import type { Ledger } from "./ledger.ts";
import type { VirtualTime } from "./virtual-time.ts";

export type Scene = Readonly<{ engine: VirtualTime; attempt: Attempt; ledger: Ledger }>;

export type Sender = Readonly<{ post: (delivery: number, receiver: number) => void }>;
