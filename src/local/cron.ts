/**
 * The cron that `wrangler dev` does not have: it only offers an address at which a person may fire it.
 * Without this the sweep would be dead locally, and whatever was lost would stay lost.
 */
const MINUTE_MS = 60_000;
const PATIENCE_MS = 30_000;

/** Fires the scheduled handler once; rejects when it failed or nobody answers. */
export async function fireCron(url: string): Promise<void> {
  const response = await fetch(`${url}/cdn-cgi/local/scheduled`, {
    signal: AbortSignal.timeout(PATIENCE_MS),
  });
  const said = await response.text();
  if (!response.ok)
    throw new Error(`The scheduled handler answered ${response.status}: ${said.slice(0, 200)}`);
}

type Options = Readonly<{ everyMs?: number; onFailure?: (error: unknown) => void }>;

/** Fires now and then every minute, until the returned function is called. */
export function keepFiring(
  url: string,
  { everyMs = MINUTE_MS, onFailure = () => {} }: Options = {},
): () => void {
  const fire = () => void fireCron(url).catch(onFailure);
  const timer = setInterval(fire, everyMs);
  fire();
  return () => clearInterval(timer);
}
