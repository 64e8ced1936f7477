/**
 * The process that stack-process.ts starts: two versions side by side, for another process that talks to this one by messages
 * and may kill it at any moment.
 */
import { type SideBySide, type SideBySideOptions, startSideBySide } from "./versions.ts";

/** The requests of the other process. */
export type HostRequest =
  | Readonly<{ id: number; start: Omit<SideBySideOptions, "onLog"> }>
  | Readonly<{ id: number; execute: string; database: number | undefined }>
  | Readonly<{ id: number; query: string; database: number | undefined }>
  | Readonly<{ id: number; heap: true }>;

export type HostMessage =
  | Readonly<{ id: number; result: unknown }>
  | Readonly<{ id: number; error: string }>
  | Readonly<{ line: string }>;

const tell = (message: HostMessage) => void process.send?.(message);
let running: SideBySide | undefined;

async function answer(request: HostRequest): Promise<unknown> {
  if ("start" in request) {
    running = await startSideBySide({ ...request.start, onLog: (line) => tell({ line }) });
    return running.url;
  }
  if ("execute" in request) return running?.execute(request.execute, request.database);
  if ("heap" in request) return running?.heap();
  return running?.query(request.query, request.database);
}

process.on("message", (request: HostRequest) => {
  answer(request).then(
    (result) => tell({ id: request.id, result }),
    (error: unknown) => tell({ id: request.id, error: String(error) }),
  );
});
