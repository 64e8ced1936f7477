/** A tool of the MCP server: its description for agents, and how it is called. */
import type { z } from "@hono/zod-openapi";
import { checked } from "../../core/field-errors.ts";
import { OUTSIDE } from "../../core/mcp-events.ts";
import { type Permission, refuseWithout } from "../../core/principal.ts";
import { invalidFields, mapOk, type RefusalKind, type Refused, type Result } from "../../core/result.ts";
import { type ActionView, requestAction } from "../../features/approvals/service.ts";
import { storedJson } from "../../features/event-types/service.ts";
import type { Caller } from "../../features/service.ts";
import { problemOf, retryAfterOf } from "../problems.ts";

/**
 * @param origin of the request: links to the dashboard begin with it
 * @param needsApproval whether a person approves changes
 */
export type AgentCall = Caller & Readonly<{ origin: string; needsApproval: boolean }>;

type About = Readonly<{
  name: string;
  title: string;
  description: string;
  permission: Permission;
}>;

type Effects = Readonly<{
  /** It overwrites or ends something. */
  isDestructive?: boolean;
  /** A repeat changes nothing more. */
  isIdempotent?: boolean;
  /** It sends something to a receiver at once. */
  isOpen?: boolean;
}>;

export type Tool = About &
  Readonly<{
    input: z.ZodType;
    annotations: ReturnType<typeof annotationsOf>;
    isChanging: boolean;
    /** @param input as the schema reads it */
    run: (call: AgentCall, input: never) => Promise<Result<unknown>>;
  }>;

type Definition<S extends z.ZodType> = About &
  Readonly<{ input: S; run: (call: AgentCall, input: z.output<S>) => Promise<Result<unknown, RefusalKind>> }>;

function annotationsOf(isReading: boolean, { isDestructive, isIdempotent, isOpen }: Effects) {
  return {
    readOnlyHint: isReading,
    destructiveHint: isDestructive ?? false,
    idempotentHint: isIdempotent ?? false,
    openWorldHint: isOpen ?? false,
  };
}

export function readingTool<S extends z.ZodType>(definition: Definition<S>): Tool {
  return { ...definition, annotations: annotationsOf(true, { isIdempotent: true }), isChanging: false };
}

export function changingTool<S extends z.ZodType>(definition: Definition<S> & Effects): Tool {
  return { ...definition, annotations: annotationsOf(false, definition), isChanging: true };
}

/** Marks text from outside of Breakwater. */
export function outside<T>(value: T): Readonly<{ [OUTSIDE]: T }> {
  return { [OUTSIDE]: value };
}

/** Characters that an answer shows of one text, or of one event's data. */
const MOST_CHARACTERS = 4_000;

export function beginning(text: string, most = MOST_CHARACTERS): string {
  return text.length <= most ? text : `${text.slice(0, most)}… (cut, of ${text.length} characters)`;
}

/** The value, or the beginning of its JSON where that is long. */
export function shortened(value: unknown): unknown {
  const text = JSON.stringify(value) ?? "";
  return text.length <= MOST_CHARACTERS ? value : beginning(text);
}

type ToolResult = Readonly<{
  content: readonly [Readonly<{ type: "text"; text: string }>];
  isError?: true;
}>;

/** Calls the tool with an agent's input. A refusal is a result too: agents read it, and correct their input. */
export async function callTool(tool: Tool, call: AgentCall, given: unknown): Promise<ToolResult> {
  const result = refuseWithout(tool.permission, call.principal) ?? (await ran(tool, call, given));
  return result.kind === "ok" ? asText(result.value) : { ...asText(refusalView(result)), isError: true };
}

async function ran(tool: Tool, call: AgentCall, given: unknown): Promise<Result<unknown>> {
  const read = checked(tool.input, given);
  if (!("data" in read)) return invalidFields(read);
  if (!tool.isChanging || !call.needsApproval) return tool.run(call, read.data as never);
  return mapOk(await requestAction(call, { tool: tool.name, input: given }), (action) =>
    actionShown(action, call),
  );
}

/** The state of an action, for the agent that requested it. */
export function actionShown(
  { id, tool, state, created_at, expires_at, decided_at, outcome }: ActionView,
  call: AgentCall,
) {
  return {
    ...{ action_id: id, tool, state, created_at, expires_at, decided_at },
    ...(state === "pending" && {
      approve_at: actionPage(call, id),
      next: "Nothing is changed yet. Ask the person to open approve_at, then call get_action.",
    }),
    ...(state === "approved" && { next: "Whether it was carried out is not known: read what it changes." }),
    ...(outcome !== null && { result: storedJson(outcome) }),
  };
}

function actionPage({ origin, principal }: AgentCall, id: string): string {
  return `${origin}/${principal.visit === undefined ? "dashboard" : "portal"}/actions/${id}`;
}

function refusalView(refused: Refused) {
  const { title, detail, errors } = problemOf(refused);
  const seconds = retryAfterOf(refused);
  return {
    title,
    detail,
    ...(errors && { errors }),
    ...(seconds !== undefined && { retry_after_s: seconds }),
  };
}

function asText(value: unknown): ToolResult {
  return { content: [{ type: "text", text: JSON.stringify(value) }] };
}
