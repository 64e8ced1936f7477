/** Calls to the inbox of a polled destination, which its gate keeps. Undefined where the gate cannot be reached. */
import type { Services } from "../services.ts";
import { callObject } from "./client.ts";
import type { DestinationGate } from "./durable-object.ts";
import type { CommittedPage, PageCommit } from "./inbox.ts";

type InboxServices = Pick<Services, "gates" | "gateLocation" | "log" | "sleep" | "now" | "random">;

/** Throws when the gate cannot be reached: the event is not in the inbox then, or may be. */
export async function placeInInbox(
  services: InboxServices,
  destination: string,
  event: number,
  keptSince: number,
): Promise<void> {
  const placed = await atInbox(services, destination, async (gate) => {
    await gate.placeInInbox(event, keptSince);
    return true;
  });
  if (!placed) throw new Error("The inbox cannot be reached");
}

export function commitPage(
  services: InboxServices,
  destination: string,
  commit: PageCommit,
): Promise<CommittedPage | undefined> {
  return atInbox(services, destination, async (gate) => gate.commitPage(commit));
}

/** A request's ear at an inbox. */
type InboxEar = Readonly<{
  /** Resolves when something has come since the last time, or after so many ms. */
  wait: (ms: number) => Promise<void>;
  close: () => void;
}>;

/** Listens at the inbox: listen, then read, then wait, so that nothing is missed. Undefined when it cannot be reached. */
export async function listenAtInbox(
  services: InboxServices,
  destination: string,
): Promise<InboxEar | undefined> {
  const answer = await atInbox(services, destination, (gate) =>
    gate.fetch("https://gate/inbox", { headers: { upgrade: "websocket" } }),
  );
  const socket = answer?.webSocket;
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
export function atInbox<T>(
  services: InboxServices,
  destination: string,
  method: (gate: DurableObjectStub<DestinationGate>) => Promise<T>,
): Promise<T | undefined> {
  const failed = { what: "inbox_unreachable", destination };
  return callObject(services, { objects: services.gates, name: destination, failed }, method);
}
