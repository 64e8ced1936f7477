/** The parts of two client libraries that a test uses, narrower than their own types: no answer here is a stream. */
type McpFetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;
type McpTools = Readonly<{ tools: readonly Readonly<{ name: string }>[] }>;
type McpFields = Readonly<Record<string, unknown>>;
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
    request(message: Readonly<{ method: string; params: object }>, schema: unknown): Promise<McpFields>;
    getServerCapabilities(): McpFields | undefined;
    close(): Promise<void>;
  }
}

declare module "@ai-sdk/mcp" {
  type AiSubscription = Record<string, unknown> & { key: string };
  type AiStore = Readonly<{
    get: (key: string) => Promise<AiSubscription | undefined>;
    getById: (id: string) => Promise<AiSubscription | undefined>;
    set: (subscription: AiSubscription) => Promise<void>;
    update: (key: string, patch: object) => Promise<void>;
    delete: (key: string) => Promise<void>;
  }>;
  type AiEvents = Readonly<{
    list: () => Promise<Readonly<{ events: readonly McpFields[] }>>;
    subscribe: (options: object) => Promise<McpFields>;
    refresh: (options: Readonly<{ id: string }>) => Promise<McpFields>;
    unsubscribe: (options: Readonly<{ id: string }>) => Promise<void>;
  }>;
  export function experimental_createMCPEventWebhook(
    options: Readonly<{
      store: AiStore;
      onEvent: (given: Readonly<{ event: McpFields }>) => void;
      onError?: (error: unknown) => void;
    }>,
  ): (request: Request) => Promise<Response>;
  type AiTool = Readonly<{ execute: (input: object, options: object) => Promise<McpAnswer> }>;
  export function createMCPClient(
    config: Readonly<{
      transport: Readonly<{ type: "http"; url: string; headers: Record<string, string>; fetch: McpFetch }>;
      protocolVersionDiscovery: boolean;
      experimental_events?: Readonly<{ store: AiStore }>;
    }>,
  ): Promise<
    Readonly<{
      listTools: () => Promise<McpTools>;
      tools: () => Promise<Readonly<Record<string, AiTool>>>;
      experimental_events: AiEvents;
      close: () => Promise<void>;
    }>
  >;
}
