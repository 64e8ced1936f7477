/**
 * The RPC of intake. A request carries a version, because after a deployment an object may run the former code for
 * some minutes: an unknown version is answered `unknown`, and the Worker commits the event itself.
 */
import type { CommitResult, Entry, EventOptions } from "./bundle.ts";

/**
 * A Worker whose call gets lost calls again, perhaps another object, but not sooner than this after the first call, ms. So
 * what an object has read this soon after an entry arrived is older than any other try of it.
 */
export const SECOND_CALL_MS = 100;

/** The latest version that an object takes. */
export const INTAKE_VERSION = 2;

/** Version 2 has options, which an object that knows only version 1 would lose. */
export function versionFor(options: EventOptions | undefined): number {
  return options ? 2 : 1;
}

/** An entry of one event. */
export type IntakeRequest = Readonly<{
  version: number;
  database: number;
  tenant: string;
  type: string;
  body: Uint8Array;
  deliverAt?: number | undefined;
  options?: EventOptions | undefined;
}> &
  Pick<Entry, "token" | "key" | "deadlineAt" | "triedAt">;

export type IntakeResult =
  | Readonly<{ kind: "done"; outcome: CommitResult }>
  /** Not taken: too much is pending already. */
  | Readonly<{ kind: "full" }>
  /** Not taken: the object does not know this version. */
  | Readonly<{ kind: "unknown" }>;

/** The methods of the object that a Worker calls. */
export type IntakeRpc = Rpc.DurableObjectBranded & {
  accept(request: IntakeRequest): Promise<IntakeResult>;
};
