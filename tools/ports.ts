/** Checks ports of this machine: where one is in use, wrangler takes another, or prints a stack trace. */
import { lookup } from "node:dns/promises";
import { createServer } from "node:net";
import { UsageError } from "./flags.ts";

/**
 * The port that a flag names; 0 stands for any free one.
 * @throws UsageError if it is not a port
 */
export function portIn(flag: string | boolean | undefined, usual: number): number {
  const port = flag === undefined ? usual : Number(flag);
  if (Number.isInteger(port) && port >= 0 && port <= 65_535 && String(flag ?? port).trim() !== "")
    return port;
  throw new UsageError(`--port is ${flag}; expected a port, 0 to 65535`);
}

/** The code of the error that prevents listening there, or undefined. A name is tried at all of its addresses. */
export async function listenFault(host: string, port: number): Promise<string | undefined> {
  const addresses = await lookup(host, { all: true }).catch(
    (error: NodeJS.ErrnoException) => error.code ?? "",
  );
  if (typeof addresses === "string") return addresses;
  for (const { address } of addresses) {
    const fault = await faultAt(address, port);
    // Without IPv6, a name of the loopback address has an IPv6 address all the same.
    if (fault !== undefined && (fault !== "EADDRNOTAVAIL" || addresses.length === 1)) return fault;
  }
  return undefined;
}

function faultAt(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", ({ code }: NodeJS.ErrnoException) => resolve(code ?? "an error"));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)));
  });
}
