/**
 * Rotation of the master key: each secret and token that is sealed with an older key is opened and sealed again with the first
 * of `MASTER_KEYS`, in short steps. It is safe to repeat and to interrupt. After a complete round no secret needs an
 * older key, which can be removed then.
 */
import { createRoute, z } from "@hono/zod-openapi";
import { previousSecrets } from "../core/credentials.ts";
import { replaceSecrets, type SealedSecrets, sealedSecrets } from "../db/destinations.ts";
import { openToken, sealToken } from "../delivery/kinds/kind.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { requires } from "./auth.ts";
import type { Api } from "./context.ts";
import { cursorParam, encodeCursor, jsonAnswer, strict } from "./parameters.ts";
import { problem, problemResponses } from "./problems.ts";

export function registerMasterKeyRotation(api: Api): void {
  api.openapi(rotateMasterKey, async (c) => {
    if (c.get("principal").tenant !== undefined) return problem(403, "The key is bound to a tenant");
    const { cursor = "" } = c.req.valid("query");
    return c.json(await rotateStep(c.get("services"), cursor), 200);
  });
}

const rotationSchema = z
  .object({
    rotated: z.int().openapi({ description: "How many destinations had their secrets sealed again." }),
    unreadable: z
      .array(z.string())
      .openapi({ description: "Destinations whose secrets cannot be opened with any of the keys." }),
    next_cursor: z
      .string()
      .nullable()
      .openapi({ description: "The cursor of the next step; null at the end." }),
  })
  .openapi("MasterKeyRotation");

const rotateMasterKey = createRoute({
  method: "post",
  path: "/v1/rotate-master-key",
  summary: "Rotate the master key",
  tags: ["Operations"],
  description:
    "Seals the secrets of up to 100 destinations with the newest master key. Repeat it with each `next_cursor` until " +
    "that is null. Not for keys that are bound to a tenant.",
  middleware: [requires("admin")],
  request: { query: strict({ cursor: cursorParam(z.string().regex(/^dst_[0-9a-z]{20}$/)) }) },
  responses: {
    200: jsonAnswer(rotationSchema, "The result of the step."),
    ...problemResponses(401, 403, 422),
  },
});

/** Destinations in one step: two round trips to D1, and at most as many rows written. */
const STEP = 100;

async function rotateStep(services: Services, after: string): Promise<z.infer<typeof rotationSchema>> {
  const page = await sealedSecrets(services.db, after, STEP);
  const stale = page.filter((row) => !isCurrent(services, row));
  const results = await Promise.all(stale.map((row) => sealAgain(services, row)));
  const replacements = results.filter((result) => result.kind === "sealed");
  await replaceSecrets(services.db, replacements);
  return {
    rotated: replacements.length,
    unreadable: results.filter(({ kind }) => kind === "unreadable").map(({ before }) => before.id),
    next_cursor: page.length < STEP ? null : encodeCursor(page.at(-1)?.id),
  };
}

function isCurrent(
  { vault }: Services,
  { secret, previousSecrets: stored, targetToken }: SealedSecrets,
): boolean {
  const sealed = [secret, ...previousSecrets(stored).map((each) => each.secret)];
  return [...sealed, ...(targetToken === null ? [] : [targetToken])].every(vault.isCurrent);
}

async function sealAgain({ vault, log, now }: Services, before: SealedSecrets) {
  const { id, targetToken } = before;
  const again = async (sealed: string) => vault.seal(id, await vault.unseal(id, sealed));
  // Expired secrets are dropped: they are never opened again.
  const previous = previousSecrets(before.previousSecrets, now());
  try {
    const after = {
      id,
      secret: await again(before.secret),
      previousSecrets: await Promise.all(
        previous.map(async (each) => ({ ...each, secret: await again(each.secret) })),
      ),
      targetToken: targetToken && (await sealToken(vault, id, await openToken(vault, id, targetToken))),
    };
    return { kind: "sealed" as const, before, after };
  } catch (error) {
    log({ what: "secret_unreadable", destination: id, error: faultOf(error) });
    return { kind: "unreadable" as const, before };
  }
}
