/**
 * The RPC of intake. A request carries a version, because after a deployment an object may run the former code for
 * some minutes: an unknown version is answered `unknown`, and the Worker commits the event itself.
 */
import type { CommitResult, Entry } from "./bundle.ts";

/** 2 knows of content types. A request says the lowest version that can read it. */
export const INTAKE_VERSION = 2;

/** An entry of one event. */
export type IntakeRequest = Readonly<{
  version: 1 | 2;
  database: number;
  tenant: string;
  type: string;
  body: Uint8Array;
  contentType?: string | undefined;
  deliverAt?: number | undefined;
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
