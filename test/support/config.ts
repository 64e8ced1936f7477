/** The configuration of the tests. */
import type { Config } from "../../src/config.ts";
import { keysOf, MASTER_KEYS } from "./vault.ts";

export const KEY = "test-admin-key-0123456789";

/** Makes a new configuration each time, because tests change it. */
export function testConfig(other: Partial<Config> = {}): Config {
  return {
    adminKey: KEY,
    masterKeys: keysOf(MASTER_KEYS),
    graceMs: 300_000,
    retentionMs: 30 * 86_400_000,
    auditMs: 365 * 86_400_000,
    pollLagMs: 1_500 * 60_000,
    allowPrivateDestinations: false,
    intakeShards: 1,
    intakeLingerMs: 0,
    ...other,
  };
}
