/**
 * Replacing the master key: every secret that an older key has sealed is opened and sealed anew with the
 * first of `MASTER_KEYS`, in steps that each end soon. Safe to repeat, and to break off: after a whole round
 * nothing names the older key, and it can be taken away.
 */
import { createRoute, z } from "@hono/zod-openapi";
import { previousSecrets } from "../core/credentials.ts";
import { replaceSecrets, type SealedSecrets, sealedSecrets } from "../db/destinations.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { requires } from "./auth.ts";
import type { Api } from "./context.ts";
import { cursorParam, encodeCursor, jsonAnswer, strict } from "./parameters.ts";
import { problem, problemResponses } from "./problems.ts";

/** Destinations in one step: two round trips to D1, and at most so many rows written. */
const STEP = 100;

const resealedSchema = z
  .object({
    resealed: z.int().openapi({ description: "Destinations whose secrets were sealed anew." }),
    unreadable: z.array(z.string()).openapi({ description: "Destinations whose secrets no key opens." }),
    next_cursor: z.string().nullable().openapi({ description: "Where to go on; null at the end." }),
  })
  .openapi("Resealed");

const reseal = createRoute({
  method: "post",
  path: "/v1/master-keys/reseal",
  summary: "Seal secrets with the newest master key",
  tags: ["Operation"],
  description: "One step. Call it with each next_cursor until that is null. Not for keys of one tenant.",
  middleware: [requires("admin")],
  request: { query: strict({ cursor: cursorParam(z.string().regex(/^dst_[0-9a-z]{20}$/)) }) },
  responses: { 200: jsonAnswer(resealedSchema, "What was done."), ...problemResponses(401, 403, 422) },
});

export function registerMasterKeyRotation(api: Api): void {
  api.openapi(reseal, async (c) => {
    if (c.get("principal").tenant !== undefined) return problem(403, "The key belongs to one tenant");
    const { cursor = "" } = c.req.valid("query");
    return c.json(await resealStep(c.get("services"), cursor), 200);
  });
}

async function resealStep(services: Services, after: string): Promise<z.infer<typeof resealedSchema>> {
  const page = await sealedSecrets(services.db, after, STEP);
  const stale = page.filter((row) => !isCurrent(services, row));
  const results = await Promise.all(stale.map((row) => sealedAnew(services, row)));
  const replacements = results.filter((result) => result.kind === "sealed");
  await replaceSecrets(services.db, replacements);
  return {
    resealed: replacements.length,
    unreadable: results.filter(({ kind }) => kind === "unreadable").map(({ before }) => before.id),
    next_cursor: page.length < STEP ? null : encodeCursor(page.at(-1)?.id),
  };
}

function isCurrent({ vault }: Services, { secret, previousSecrets: stored }: SealedSecrets): boolean {
  return [secret, ...previousSecrets(stored).map((each) => each.secret)].every(vault.isCurrent);
}

async function sealedAnew({ vault, log, now }: Services, before: SealedSecrets) {
  const { id } = before;
  const again = async (sealed: string) => vault.seal(id, await vault.unseal(id, sealed));
  // An expired secret is dropped instead: nothing will ever open it again.
  const previous = previousSecrets(before.previousSecrets, now());
  try {
    const after = {
      id,
      secret: await again(before.secret),
      previousSecrets: await Promise.all(
        previous.map(async (each) => ({ ...each, secret: await again(each.secret) })),
      ),
    };
    return { kind: "sealed" as const, before, after };
  } catch (error) {
    log({ what: "secret_unreadable", destination: id, error: faultOf(error) });
    return { kind: "unreadable" as const, before };
  }
}
