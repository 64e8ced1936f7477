/** Calls to the inbox of a polled destination, which its gate holds. Undefined if the gate cannot be reached. */
import { type AnswerOf, type ArgsOf, callObject, type GateServices, type MethodOf } from "./client.ts";
import type { DestinationGate } from "./durable-object.ts";

/** A request's connection to an inbox, which reports news. */
type InboxEar = Readonly<{
  /** Resolves when something has come since the last time, or after this many ms. */
  wait: (ms: number) => Promise<void>;
  close: () => void;
}>;

/** Listens at the inbox: listen, then read, then wait, so that nothing is missed. Undefined when it cannot be reached. */
export async function listenAtInbox(
  services: GateServices,
  destination: string,
): Promise<InboxEar | undefined> {
  const request = new Request("https://gate/inbox", { headers: { upgrade: "websocket" } });
  const socket = (await atInbox(services, destination, "fetch", request))?.webSocket;
  if (!socket) return undefined;
  let arrived = Promise.withResolvers<void>();
  // An object that was replaced closes its sockets: then there may be news, too.
  for (const event of ["message", "close", "error"] as const)
    socket.addEventListener(event, () => arrived.resolve());
  socket.accept();
  return {
    async wait(ms) {
      const over = new AbortController();
      const slept = services.sleep(ms, over.signal).catch(() => {});
      await Promise.race([arrived.promise, slept]);
      over.abort(new Error("The wait is over"));
      arrived = Promise.withResolvers();
    },
    close: () => socket.close(),
  };
}

/** Calls a method of the inbox. A page whose answer is lost is handed out again when its visibility expires. */
export function atInbox<M extends MethodOf<DestinationGate>>(
  services: GateServices,
  destination: string,
  method: M,
  ...args: ArgsOf<DestinationGate, M>
): Promise<AnswerOf<DestinationGate, M> | undefined> {
  const failed = { what: "inbox_unreachable", destination };
  return callObject(services, { objects: services.gates, name: destination, failed }, method, () => args);
}
