/**
 * Rotation of the master key: each secret that is sealed with an older key is opened and sealed again with the first
 * of `MASTER_KEYS`, in short steps; headers that the version before 0.3 stored plain are sealed. It is safe to repeat and
 * to interrupt. After a complete round no secret needs an older key, which can be removed then.
 */
import { z } from "@hono/zod-openapi";
import { previousSecrets } from "../../core/credentials.ts";
import { ok } from "../../core/result.ts";
import { rotatedAuth, rotatedHeaders } from "../../delivery/authorization.ts";
import { rotatedToken } from "../../delivery/kinds/token.ts";
import { faultOf } from "../../log.ts";
import type { Services } from "../../services.ts";
import {
  type Replacement,
  replaceSecrets,
  type SealedSecrets,
  sealedSecrets,
} from "../../store/destinations.ts";
import { rotatedNoticeTarget } from "../notices/channel.ts";
import { documented, encodeCursor } from "../parameters.ts";
import { service } from "../service.ts";

export const masterKeyRotation = documented("MasterKeyRotation", {
  rotated: z
    .int()
    .describe(
      "How many destinations had a secret, headers, `auth`, a token or a notice channel encrypted again.",
    ),
  unreadable: z
    .array(z.string())
    .describe(
      "Destinations with a secret, a header, `auth`, a token or a notice channel that none of the keys can decrypt.",
    ),
  next_cursor: z.string().nullable().describe("The cursor of the next step; null at the end."),
});

const permission = { scope: "admin", operators: "the master key belongs to the whole deployment" } as const;

/** Destinations in one step: two round trips to D1, and at most as many rows written. */
const STEP = 100;

/**
 * Seals the secrets of the next destinations with the newest master key.
 * @param after the id of the last destination of the step before; empty at first
 */
export const rotateMasterKey = service(permission, async ({ services, changed }, after: string) => {
  const page = await sealedSecrets(services.db, after, STEP);
  const results = await Promise.all(page.map((row) => sealAgain(services, row)));
  const replacements = results.filter(({ before: _, isReadable: __, ...sealed }) =>
    Object.values(sealed).some(Boolean),
  );
  await replaceSecrets(services.db, replacements);
  if (after === "") changed("master_key.rotated", { id: "MASTER_KEYS", tenant: null });
  return ok({
    rotated: replacements.length,
    unreadable: results.filter(({ isReadable }) => !isReadable).map(({ before }) => before.id),
    next_cursor: page.length < STEP ? null : encodeCursor(page.at(-1)?.id),
  });
});

/** Values sealed with another key than the first are sealed again; plain values are sealed. */
async function sealAgain(
  services: Services,
  before: SealedSecrets,
): Promise<Replacement & Readonly<{ isReadable: boolean }>> {
  let isReadable = true;
  const unreadable = (error: unknown) => {
    isReadable = false;
    services.log({ what: "secret_unreadable", destination: before.id, error: faultOf(error) });
    return undefined;
  };
  const sealed = {
    secrets: await secretsAgain(services, before).catch(unreadable),
    sealedHeaders: await rotatedHeaders(services.vault, before).catch(unreadable),
    auth: await rotatedAuth(services.vault, before).catch(unreadable),
    targetToken: await rotatedToken(services.vault, before).catch(unreadable),
    noticeTarget: await rotatedNoticeTarget(services.vault, before).catch(unreadable),
  };
  return { before, ...sealed, isReadable };
}

/** Undefined when all of them are sealed with the first key. Expired secrets are dropped: they are never opened again. */
async function secretsAgain(
  { vault, now }: Services,
  { id, secret, previousSecrets: stored }: SealedSecrets,
) {
  if ([secret, ...previousSecrets(stored).map((each) => each.secret)].every(vault.isCurrent))
    return undefined;
  const previous = previousSecrets(stored, now()).map(async (each) => ({
    ...each,
    secret: await vault.sealAgain(id, each.secret),
  }));
  return { secret: await vault.sealAgain(id, secret), previousSecrets: await Promise.all(previous) };
}
