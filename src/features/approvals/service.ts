/**
 * Changes of agents that a person approves. If the agent's key or token requires it, the call of a changing tool is
 * stored instead of being made, and a person approves or refuses it on a page, once and until it expires. Approval
 * checks the rights of both again (http/mcp/approval.ts), which makes the call then.
 */
import { conflict, ok } from "../../core/result.ts";
import { newAgentActionId } from "../../ids.ts";
import { isoTime } from "../../time.ts";
import { principalOfKey } from "../keys/credentials.ts";
import { visitorOfSession } from "../portal-links/visits.ts";
import { type Caller, service, servicesAbout } from "../service.ts";
import {
  type AgentAction,
  decideOnce,
  findAction,
  forgetActions,
  insertAction,
  listActions,
  pendingActions,
} from "./sql.ts";

/** How long a person has to decide. */
const DECIDE_MS = 24 * 3_600_000;
const RETENTION_MS = 30 * 24 * 3_600_000;
/** Undecided actions of a tenant. */
const MOST_PENDING = 100;

/** Characters of the arguments as JSON. */
const MOST_CHARACTERS = 8_192;

type Requested = Readonly<{ tool: string; input: unknown }>;

/**
 * Stores an agent's request. The same request again is the same action while it is undecided. The caller has checked
 * the tool's permission, without which nothing may be stored.
 */
export const requestAction = service(
  { scope: "admin", action: "read" },
  async ({ services, principal, changed }, { tool, input }: Requested) => {
    const { db, now, background } = services;
    const length = JSON.stringify(input).length;
    if (length > MOST_CHARACTERS)
      return conflict(
        `The arguments have ${length} characters, but may have ${MOST_CHARACTERS}, because a person reads them before approving`,
      );
    const { tenant = null, key = null, session, visit, expiresAt = Number.POSITIVE_INFINITY } = principal;
    const sessionId = visit === undefined ? null : (session?.id ?? null);
    const waiting = await pendingActions(db, tenant, now(), MOST_PENDING);
    const same = waiting.find(
      (one) =>
        one.tool === tool &&
        one.keyId === key &&
        one.sessionId === sessionId &&
        JSON.stringify(one.input) === JSON.stringify(input),
    );
    if (same) return ok(viewAt(now())(same));
    if (waiting.length >= MOST_PENDING)
      return conflict(`${MOST_PENDING} actions wait for a person's decision already`);
    const at = now();
    const action = await insertAction(db, {
      ...{ id: newAgentActionId(), tenant, keyId: key, sessionId, tool, input, state: "pending" },
      ...{ createdAt: at, expiresAt: Math.min(at + DECIDE_MS, expiresAt) },
    });
    background(forgetActions(db, at - RETENTION_MS));
    changed("agent_action.requested", action, { tool: { from: null, to: tool } });
    return ok(viewAt(at)(action));
  },
);

/** Only those with a right to change something decide, but every reader may see the decisions. */
const readPermission = { scope: "read", action: "read" } as const;

const actionService = servicesAbout("action", ({ services, principal }, id) =>
  findAction(services.db, id, principal),
);

export const getAction = actionService(readPermission, async ({ services }, row) =>
  ok(viewAt(services.now())(row)),
);

/** The newest first, at most `limit`. */
export const getActions = service(readPermission, async ({ services, principal }, limit: number) =>
  ok((await listActions(services.db, principal, limit)).map(viewAt(services.now()))),
);

type Decision = Readonly<{ id: string; decision: "approved" | "refused" }>;

/** Decides a pending action. An approved action has not been carried out yet: the caller does that, and may do so once. */
export const decideAction = actionService(
  { scope: "admin", action: "read", role: "repair" },
  async ({ services: { db, now }, changed }, found, { id, decision }: Decision) => {
    const decided = await decideOnce(db, id, decision, now());
    if (decided === undefined)
      return conflict(
        `The action is ${viewAt(now())(found).state} already: it can be decided only once, before it expires`,
      );
    const action = decision === "approved" ? "agent_action.approved" : "agent_action.refused";
    changed(action, decided, { tool: { from: null, to: decided.tool } });
    return ok(viewAt(now())(decided));
  },
);

/** The agent that requested it, with its present rights; undefined if it has none any more. */
export async function agentOf({ services }: Caller, { key_id, session_id }: ActionView) {
  if (session_id !== null) return visitorOfSession(services, session_id);
  return key_id === null ? undefined : principalOfKey(services, key_id);
}

export type ActionView = ReturnType<ReturnType<typeof viewAt>>;

const states = ["pending", "approved", "refused", "done", "failed"] as const;

function viewAt(now: number) {
  return ({ id, tool, input, tenant, keyId, sessionId, outcome, ...row }: AgentAction) => {
    const state = states.find((one) => one === row.state) ?? "failed";
    return {
      ...{ id, tool, input, tenant, key_id: keyId, session_id: sessionId, outcome },
      state: state === "pending" && row.expiresAt <= now ? ("expired" as const) : state,
      created_at: isoTime(row.createdAt),
      expires_at: isoTime(row.expiresAt),
      decided_at: isoTime(row.decidedAt),
    };
  };
}
