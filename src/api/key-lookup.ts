/**
 * Finds the principal of an API key, and remembers the key's row for a moment: a busy key costs a query now
 * and then, and not one for each request. Keys that do not exist are never remembered, so that inventing
 * them fills no memory and a new key works at once.
 */
import { isInForce, isRemembered, isWorthWriting, USE_WRITTEN_MS } from "../policy/key-standing.ts";
import type { Services } from "../services.ts";
import { lookUpKey, type StoredKey, writeKeyUse } from "../store/keys.ts";
import { type Authenticate, type Principal, scopes } from "./auth.ts";
import { claimedKey, isSame, isTokenOf } from "./key-token.ts";

/** Keys remembered at once; beyond that the one remembered first is forgotten. */
const MAX_REMEMBERED = 1000;

type Known = { readonly key: StoredKey; readonly askedAt: number; lastUsedAt: number | null };
type Memory = Map<string, Known>;

/** Takes the `ADMIN_KEY`, which may do everything, and every stored key. Each call makes a memory of its own. */
export function byKey(): Authenticate {
  const memory: Memory = new Map();
  return async (services, token) => {
    if (await isSame(token, services.config.adminKey)) return { scopes };
    const id = claimedKey(token);
    const known = id === undefined ? undefined : await recall(memory, services, id);
    if (known === undefined || !(await isTokenOf(token, known.key.hash))) return undefined;
    const now = services.now();
    if (!isInForce(known.key, now)) return undefined;
    noteUse(services, known, now);
    return principalOf(known.key);
  };
}

async function recall(memory: Memory, { db, now }: Services, id: string): Promise<Known | undefined> {
  const remembered = memory.get(id);
  const askedAt = now();
  if (remembered && isRemembered(remembered.askedAt, askedAt)) return remembered;
  memory.delete(id);
  const key = await lookUpKey(db, id);
  if (key === undefined) return undefined;
  const known = { key, askedAt, lastUsedAt: key.lastUsedAt };
  memory.set(id, known);
  const [oldest] = memory.size > MAX_REMEMBERED ? memory.keys() : [];
  if (oldest !== undefined) memory.delete(oldest);
  return known;
}

function noteUse(services: Services, known: Known, now: number): void {
  if (!isWorthWriting(known.lastUsedAt, now)) return;
  known.lastUsedAt = now;
  services.background(writeKeyUse(services.db, known.key.id, now, now - USE_WRITTEN_MS));
}

/** What the row allows; scopes that a person has edited into nonsense allow nothing. */
function principalOf({ id, tenant, scopes: stored, expiresAt }: StoredKey): Principal {
  const given = scopes.filter((scope) => Array.isArray(stored) && stored.includes(scope));
  return {
    key: id,
    scopes: given,
    ...(tenant !== null && { tenant }),
    ...(expiresAt !== null && { expiresAt }),
  };
}
