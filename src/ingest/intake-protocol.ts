/**
 * The RPC of intake. A request carries a version, because after a deployment an object may run the former code for
 * some minutes: any other version is answered `unknown`, and the Worker commits the event itself. Versions 1 and 2 were one
 * argument, an object.
 */
import type { CommitOutcome, Entry } from "./bundle.ts";

/**
 * A Worker whose call is lost calls again, perhaps another object, but not sooner than this after the first call, ms.
 * So data that an object has read this soon after an entry arrived is older than any other try of the entry.
 */
export const SECOND_CALL_MS = 100;

/** To be raised with each change of `Entry` or a result that a former object or Worker would misread. */
export const INTAKE_VERSION = 5;

export type IntakeResult =
  | Readonly<{ kind: "done"; outcome: CommitOutcome }>
  /** Not taken: too much is pending already. */
  | Readonly<{ kind: "full" }>
  /** Not taken: the object does not know this version. */
  | Readonly<{ kind: "unknown" }>;

/** The methods of the object that a Worker calls. */
export type IntakeRpc = Rpc.DurableObjectBranded & {
  /** @param entry of one event */
  accept(version: number, database: number, entry: Entry): Promise<IntakeResult>;
};
