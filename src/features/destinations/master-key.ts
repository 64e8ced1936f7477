/**
 * Rotation of the master key: each secret that is sealed with an older key is opened and sealed again with the first
 * of `MASTER_KEYS`, in short steps; headers that the version before 0.3 stored plain are sealed. It is safe to repeat and
 * to interrupt. After a complete round no secret needs an older key, which can be removed then.
 */
import { createRoute, z } from "@hono/zod-openapi";
import { previousSecrets } from "../../core/credentials.ts";
import { resealedAuth, resealedHeaders } from "../../delivery/authorization.ts";
import { resealedToken } from "../../delivery/kinds/kind.ts";
import { requires } from "../../http/auth.ts";
import type { Api } from "../../http/context.ts";
import { cursorParam, encodeCursor, jsonAnswer, strict } from "../../http/parameters.ts";
import { problem, problemResponses } from "../../http/problems.ts";
import { idPatterns } from "../../ids.ts";
import { faultOf } from "../../log.ts";
import type { Services } from "../../services.ts";
import {
  type Replacement,
  replaceSecrets,
  type SealedSecrets,
  sealedSecrets,
} from "../../store/destinations.ts";
import { changed } from "../audit/routes.ts";

export function registerMasterKeyRotation(api: Api): void {
  api.openapi(rotateMasterKey, async (c) => {
    if (c.get("principal").tenant !== undefined) return problem(403, "The key is bound to a tenant");
    const { cursor = "" } = c.req.valid("query");
    if (cursor === "") changed(c, "master_key.rotated", { id: "MASTER_KEYS", tenant: null });
    return c.json(await rotateStep(c.get("services"), cursor), 200);
  });
}

const rotationSchema = z
  .object({
    rotated: z.int().openapi({
      description: "How many destinations had a secret, headers, `auth` or a token sealed again.",
    }),
    unreadable: z.array(z.string()).openapi({
      description:
        "Destinations of which a secret, a header, `auth` or a token cannot be opened with any of the keys.",
    }),
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
    "Seals the secrets, headers, `auth` and tokens of up to 100 destinations with the newest master key. Repeat it with " +
    "each `next_cursor` until that is null. Not for keys that are bound to a tenant.",
  middleware: [requires("admin")],
  request: { query: strict({ cursor: cursorParam(z.string().regex(idPatterns.destination)) }) },
  responses: {
    200: jsonAnswer(rotationSchema, "The result of the step."),
    ...problemResponses(401, 403, 422),
  },
});

/** Destinations in one step: two round trips to D1, and at most as many rows written. */
const STEP = 100;

async function rotateStep(services: Services, after: string): Promise<z.infer<typeof rotationSchema>> {
  const page = await sealedSecrets(services.db, after, STEP);
  const results = await Promise.all(page.map((row) => sealAgain(services, row)));
  const replacements = results.filter(
    ({ secrets, sealedHeaders, auth, targetToken }) => secrets || sealedHeaders || auth || targetToken,
  );
  await replaceSecrets(services.db, replacements);
  return {
    rotated: replacements.length,
    unreadable: results.filter(({ isReadable }) => !isReadable).map(({ before }) => before.id),
    next_cursor: page.length < STEP ? null : encodeCursor(page.at(-1)?.id),
  };
}

/** What needs another key than the first is sealed again; what is stored plain is sealed. */
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
  const secrets = await secretsAgain(services, before).catch(unreadable);
  const sealedHeaders = await resealedHeaders(services.vault, before).catch(unreadable);
  const auth = await resealedAuth(services.vault, before).catch(unreadable);
  const targetToken = await resealedToken(services.vault, before).catch(unreadable);
  return { before, secrets, sealedHeaders, auth, targetToken, isReadable };
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
