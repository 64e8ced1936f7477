/** The parts of two client libraries that a test uses, narrower than their own types: no answer here is a stream. */
type McpFetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;
type McpTools = Readonly<{ tools: readonly Readonly<{ name: string }>[] }>;
type McpAnswer = Readonly<{ content: unknown; isError?: unknown }>;

declare module "@modelcontextprotocol/client" {
  export class StreamableHTTPClientTransport {
    constructor(url: URL, options: Readonly<{ fetch: McpFetch; requestInit: RequestInit }>);
  }
  export class Client {
    constructor(
      info: Readonly<{ name: string; version: string }>,
      options: Readonly<{ versionNegotiation: Readonly<{ mode: "auto" | "legacy" }> }>,
    );
    connect(transport: StreamableHTTPClientTransport): Promise<void>;
    listTools(): Promise<McpTools>;
    callTool(params: Readonly<{ name: string; arguments: object }>): Promise<McpAnswer>;
    close(): Promise<void>;
  }
}

declare module "@ai-sdk/mcp" {
  type AiTool = Readonly<{ execute: (input: object, options: object) => Promise<McpAnswer> }>;
  export function createMCPClient(
    config: Readonly<{
      transport: Readonly<{ type: "http"; url: string; headers: Record<string, string>; fetch: McpFetch }>;
      protocolVersionDiscovery: boolean;
    }>,
  ): Promise<
    Readonly<{
      listTools: () => Promise<McpTools>;
      tools: () => Promise<Readonly<Record<string, AiTool>>>;
      close: () => Promise<void>;
    }>
  >;
}
