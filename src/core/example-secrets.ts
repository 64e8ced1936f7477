/**
 * The secrets of `.dev.vars.example`, which everybody can read, and the hosts at which they may be used. Requests reach
 * a deployment under its public name, which Cloudflare checks, so no client can pass for one of these hosts there.
 */

export const EXAMPLE_ADMIN_KEY = "dev-admin-key-change-me-in-production";
/** The 32 bytes of the example's master key, as text. */
export const EXAMPLE_MASTER_KEY = "development-key-not-for-producti";

/** Names that lead to the same machine or network only (RFC 6761, RFC 6762, RFC 9476 and ICANN's `.internal`). */
const LOCAL_NAME = /^(?:.+\.)?(?:localhost|test|local|internal)$/;
/** Loopback, the unspecified address, and private networks (RFC 1918), as the URL parser writes them. */
const LOCAL_IPV4 =
  /^(?:127|10)(?:\.\d+){3}$|^192\.168(?:\.\d+){2}$|^172\.(?:1[6-9]|2\d|3[01])(?:\.\d+){2}$|^0\.0\.0\.0$/;
/** Loopback and unique local addresses (RFC 4193). */
const LOCAL_IPV6 = /^\[(?:::1|f[cd][0-9a-f]{2}:[0-9a-f:]*)\]$/;

/** Whether a host is the developer's own machine or a private test host; `hostname` is that of a parsed URL. */
export function mayUseExampleSecrets(hostname: string): boolean {
  const name = hostname.toLowerCase().replace(/\.$/, "");
  return LOCAL_NAME.test(name) || LOCAL_IPV4.test(name) || LOCAL_IPV6.test(name);
}
