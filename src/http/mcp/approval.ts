/** Carries out an agent's request that a person has approved: the tool is called as the agent calls it. */
import { type Principal, refuseWithout } from "../../core/principal.ts";
import { conflict, missing, type Result } from "../../core/result.ts";
import { type ActionView, agentOf, decideAction, getAction } from "../../features/approvals/service.ts";
import { storeOutcome } from "../../features/approvals/sql.ts";
import { actorOf } from "../../features/audit/trail.ts";
import type { Caller } from "../../features/service.ts";
import { changingTools } from "./changing.ts";
import { callTool, type Tool } from "./tool.ts";

/** The tool that an action calls; undefined for one of another version. */
export function toolOf({ tool }: Pick<ActionView, "tool">): Tool | undefined {
  return changingTools.find(({ name }) => name === tool);
}

type Decision = Readonly<{ id: string; decision: "approved" | "refused"; origin: string }>;

/**
 * Carries out a person's decision.
 * @param origin of the page: links in the tool's answer begin with it
 */
export function decide(caller: Caller, { id, decision, origin }: Decision): Promise<Result<unknown>> {
  return decision === "approved"
    ? approveAction(caller, { id, origin })
    : decideAction(caller, { id, decision });
}

/**
 * Approves the action and carries it out, at most once, with the rights that its agent has now. The approver needs the
 * tool's permission too. An end that cannot be stored leaves it `approved`.
 */
async function approveAction(caller: Caller, { id, origin }: Readonly<{ id: string; origin: string }>) {
  const undecided = refuseWithout(decideAction.permission, caller.principal);
  const found = undecided ?? (await getAction(caller, id));
  if (found.kind !== "ok") return found;
  const tool = toolOf(found.value);
  if (tool === undefined) return missing("tool", found.value.tool);
  const agent = await agentOf(caller, found.value);
  const refused = refuseWithout(tool.permission, caller.principal) ?? refuseAgent(agent, tool);
  if (refused) return refused;
  const decided = await decideAction(caller, { id, decision: "approved" });
  if (decided.kind !== "ok") return decided;
  const { confirm: _, ...rights } = agent as Principal;
  const principal: Principal = { ...rights, via: "mcp", approver: actorOf(caller.principal) };
  const { services } = caller;
  const result = await callTool(
    tool,
    { services, principal, origin, needsApproval: false },
    found.value.input,
  );
  const [{ text }] = result.content;
  await storeOutcome(services.db, id, result.isError ? "failed" : "done", text);
  return decided;
}

/** The steps of the pages' paths by which a person decides. */
export const decisions = [
  ["approve", "approved"],
  ["refuse", "refused"],
] as const;

function refuseAgent(agent: Principal | undefined, tool: Tool) {
  if (agent === undefined) return conflict("The agent's key or visit has ended, so nothing is changed");
  const { confirm: _, ...rights } = agent;
  return refuseWithout(tool.permission, rights) && conflict("The agent no longer has the right to do that");
}
