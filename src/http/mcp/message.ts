/**
 * Messages of the Model Context Protocol, read by hand: the official server (2.4.0) would add a ninth to the script that
 * every gate and consumer loads, and about 120 ms of CPU to an isolate's first request, for the five methods that tools need.
 *
 * Two eras are spoken, both without a session. Since 2026-07-28 each request says its revision and the client's capabilities
 * in `_meta`, and repeats revision, method and tool in headers. Before that a client begins with `initialize`.
 * https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
 */
import { isJsonObject } from "../../core/json-value.ts";

/** The revision that the documentation names. */
export const REVISION = "2026-07-28";
/** Earlier revisions, whose clients begin with `initialize`, the newest first. */
const HANDSHAKE_REVISIONS: readonly string[] = ["2025-11-25", "2025-06-18"];
export const revisions = [REVISION, ...HANDSHAKE_REVISIONS];

/** Error codes of JSON-RPC and of MCP. */
export const rpcCodes = {
  unparseable: -32700,
  notARequest: -32600,
  unknownMethod: -32601,
  invalidParams: -32602,
  internal: -32603,
  headerMismatch: -32020,
  unsupportedRevision: -32022,
} as const;

export type RpcId = string | number;

/** A JSON-RPC error, with the status code of the answer that has it. */
export type RpcFault = Readonly<{
  kind: "fault";
  status: number;
  code: number;
  message: string;
  /** Absent if the message has none that can be read. */
  id?: RpcId;
  data?: unknown;
}>;

export type RpcRequest = Readonly<{
  kind: "request";
  id: RpcId;
  method: string;
  params: Fields;
  /** Whether the client speaks a revision without handshake. */
  isStateless: boolean;
}>;

type Fields = Readonly<Record<string, unknown>>;

/** The message that a client has posted, checked against its headers. */
export function messageIn(
  value: unknown,
  headers: Headers,
): RpcRequest | RpcFault | Readonly<{ kind: "notification" }> {
  if (Array.isArray(value)) return notARequest("is a batch; expected a single message");
  const { jsonrpc, id, method, params = {} } = fieldsOf(value) ?? {};
  if (jsonrpc !== "2.0") return notARequest('has no "jsonrpc": "2.0"');
  if (typeof method !== "string") return notARequest("has no method");
  if (id === undefined) return { kind: "notification" };
  if (typeof id !== "string" && !Number.isSafeInteger(id))
    return notARequest("has an id that is neither a string nor an integer");
  const named = { id: id as RpcId };
  const fields = fieldsOf(params);
  if (fields === undefined) return { ...notARequest("has params that are not an object"), ...named };
  const request = { kind: "request", ...named, method, params: fields } as const;
  const read = eraOf(request, headers);
  return typeof read === "boolean" ? { ...request, isStateless: read } : { ...read, ...named };
}

/** The revision to speak with a client that begins with `initialize` and names this one. */
export function handshakeRevision(asked: string): string {
  return HANDSHAKE_REVISIONS.find((one) => one === asked) ?? HANDSHAKE_REVISIONS[0] ?? "";
}

type Unread = Omit<RpcRequest, "isStateless">;

/** Whether the request is of the era without handshake; a fault if its headers and its body disagree. */
function eraOf({ method, params }: Unread, headers: Headers): boolean | RpcFault {
  const header = headers.get("mcp-protocol-version")?.trim();
  const meta = fieldsOf(params._meta);
  const named = meta?.["io.modelcontextprotocol/protocolVersion"];
  if (named === undefined) {
    if (method === "initialize" || (header !== undefined && HANDSHAKE_REVISIONS.includes(header)))
      return false;
    if (header === undefined)
      return headerMismatch(`MCP-Protocol-Version is missing; send ${REVISION}, or begin with initialize`);
    return header === REVISION ? missingMeta("protocolVersion") : unsupported(header);
  }
  if (named !== header) return headerMismatch("MCP-Protocol-Version and the protocolVersion in _meta differ");
  if (named !== REVISION) return unsupported(String(named));
  if (headers.get("mcp-method")?.trim() !== method) return headerMismatch("Mcp-Method and the method differ");
  if (method === "tools/call" && decoded(headers.get("mcp-name")?.trim()) !== params.name)
    return headerMismatch("Mcp-Name and params.name differ");
  return fieldsOf(meta?.["io.modelcontextprotocol/clientCapabilities"]) === undefined
    ? missingMeta("clientCapabilities")
    : true;
}

/** The value of a header: names that are not plain ASCII come in base64. */
function decoded(value: string | undefined): string | undefined {
  const base64 = /^=\?base64\?(.*)\?=$/.exec(value ?? "")?.[1];
  if (base64 === undefined) return value;
  try {
    return new TextDecoder().decode(Uint8Array.fromBase64(base64));
  } catch {
    return undefined;
  }
}

export function fieldsOf(value: unknown): Fields | undefined {
  return isJsonObject(value) ? value : undefined;
}

export function rpcFault(status: number, code: keyof typeof rpcCodes, message: string): RpcFault {
  return { kind: "fault", status, code: rpcCodes[code], message };
}

/** @param fault completes "The message" */
function notARequest(fault: string): RpcFault {
  return rpcFault(400, "notARequest", `The message ${fault}`);
}

function headerMismatch(message: string): RpcFault {
  return rpcFault(400, "headerMismatch", message);
}

function missingMeta(name: string): RpcFault {
  return rpcFault(400, "invalidParams", `params._meta lacks io.modelcontextprotocol/${name}`);
}

function unsupported(requested: string): RpcFault {
  const data = { supported: revisions, requested: requested.slice(0, 100) };
  return { ...rpcFault(400, "unsupportedRevision", "Unsupported protocol version"), data };
}
