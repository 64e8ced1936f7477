/** The hosts under which a deployment is reached, so that no destination can be on them (`OWN_HOSTS`). */
import type { Environment } from "./config-faults.ts";

/** The hosts that the variable names, each once. */
export function ownHostsOf(variable: unknown): readonly string[] {
  return distinct(String(variable ?? "").split(","));
}

/**
 * The hosts that the file names as `OWN_HOSTS`, then those of its routes and custom domains, then the one on workers.dev,
 * with the Worker's previews, whose hosts end with it behind a hyphen.
 * @param targets what a deployment has reported to have been deployed to: only Cloudflare knows the account's subdomain
 */
export function allOwnHosts({ vars, routes = [] }: Environment["config"], targets: readonly string[]) {
  const patterns = routes.map((route) => hostIn(typeof route === "string" ? route : route.pattern));
  const onWorkersDev = targets.map(hostIn).filter((host) => host.endsWith(".workers.dev"));
  return distinct([
    ...ownHostsOf(vars?.OWN_HOSTS),
    ...patterns,
    ...onWorkersDev.flatMap((host) => [host, `*-${host}`]),
  ]);
}

function distinct(hosts: readonly string[]): readonly string[] {
  return [...new Set(hosts.map((host) => host.trim().toLowerCase()))].filter((host) => host !== "");
}

/** The host of an address, or of a route's pattern. `*example.com` stands for its subdomains too. */
function hostIn(text: string): string {
  const host = /^(?:https?:\/\/)?([^/ ]*)/i.exec(text)?.[1] ?? "";
  return host.replace(/^\*(?![.-])/, "*.");
}
