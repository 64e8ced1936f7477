/**
 * Destinations in the database: each tenant's apart, deleted ones never found, changed only as they were read; and the
 * effect of columns that an operator has edited.
 */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import {
  type Destination,
  gateSettingsOf,
  limitsOf,
  ownBurstOf,
  pauseOf,
  retryPolicyOf,
  statusOf,
  storedHeaders,
} from "../../src/store/destination.ts";
import {
  activeRoutes,
  changeDestination,
  destinationByUid,
  destinationsById,
  findDestination,
  insertDestination,
  insertDestinations,
  isTaken,
  listDestinations,
  type NewDestination,
  replaceSecrets,
  sealedSecrets,
  setDestinationStatus,
} from "../../src/store/destinations.ts";
import { emptyDatabase, plainDestination } from "../support/api.ts";
import { rowsOfAll } from "../support/databases.ts";

beforeEach(emptyDatabase);

const rowOf = (id: string, more: Partial<NewDestination> = {}): NewDestination => ({
  ...{ id, tenant: "acme", url: "https://a.example/", secret: "sealed", createdAt: 1, updatedAt: 1 },
  ...more,
});

const find = (id: string) => findDestination(env.DB, id, undefined);

const raw = async (id: string) =>
  (await rowsOfAll<Record<string, unknown>>("SELECT * FROM destinations WHERE id = ?1", id))[0];

const everything = () => rowsOfAll("SELECT * FROM destinations ORDER BY id");

describe("a new destination", () => {
  test("is stored with its given values, and without those that are absent", async () => {
    const given = rowOf("dst_a", {
      eventTypes: ["a"],
      metadata: null,
      filter: null,
      rateBurst: null,
      uid: "u",
    });
    expect(await insertDestination(env.DB, given, 1)).toMatchObject(given);
    expect(await find("dst_a")).toMatchObject({ ...given, channels: null, status: "active" });
    const stored = { event_types: '["a"]', metadata: null, filter: null, uid: "u", deleted_at: null };
    expect(await raw("dst_a")).toMatchObject(stored);
  });

  test("is refused if its tenant has the most permitted, not counting deleted ones and others'", async () => {
    await plainDestination("dst_a");
    await plainDestination("dst_gone", { deleted_at: 2 });
    await plainDestination("dst_theirs", { tenant: "rival" });
    expect(await insertDestination(env.DB, rowOf("dst_b"), 1)).toBeUndefined();
    expect(await insertDestination(env.DB, rowOf("dst_b"), 2)).toMatchObject({ id: "dst_b" });
    expect(await insertDestination(env.DB, rowOf("dst_c"), 2)).toBeUndefined();
    expect(await isTaken(env.DB, "dst_c")).toBe(false);
  });

  test("is refused if its id or its uid is taken", async () => {
    await plainDestination("dst_a", { uid: "u" });
    await plainDestination("dst_gone", { deleted_at: 2, uid: "free" });
    await plainDestination("dst_theirs", { tenant: "rival", uid: "v" });
    expect(await insertDestination(env.DB, rowOf("dst_a"), 9)).toBeUndefined();
    expect(await insertDestination(env.DB, rowOf("dst_gone"), 9)).toBeUndefined();
    expect(await insertDestination(env.DB, rowOf("dst_b", { uid: "u" }), 9)).toBeUndefined();
    expect(await insertDestination(env.DB, rowOf("dst_b", { uid: "v" }), 9)).toBeDefined();
    expect(await insertDestination(env.DB, rowOf("dst_c", { uid: "free" }), 9)).toBeDefined();
    const taken = ["dst_a", "dst_gone", "dst_theirs", "dst_d"].map((id) => isTaken(env.DB, id));
    expect(await Promise.all(taken)).toEqual([true, true, true, false]);
  });
});

describe("several new destinations", () => {
  beforeEach(() => plainDestination("dst_old", { uid: "u" }));

  test("are stored together, beside existing ones", async () => {
    const created = await insertDestinations(env.DB, [rowOf("dst_b"), rowOf("dst_a", { uid: "v" })], 3);
    expect(created).toMatchObject([
      { id: "dst_b", uid: null },
      { id: "dst_a", uid: "v" },
    ]);
    expect(created).toHaveLength(2);
    expect(await everything()).toHaveLength(3);
    expect(await insertDestinations(env.DB, [], 3)).toEqual([]);
  });

  test.each<[string, NewDestination, number]>([
    ["one is beyond the limit", rowOf("dst_b"), 2],
    ["an id is taken", rowOf("dst_old"), 9],
    ["a uid is taken", rowOf("dst_b", { uid: "u" }), 9],
    ["two have the same id", rowOf("dst_a"), 9],
  ])("are not stored if %s", async (_, second, most) => {
    expect(await insertDestinations(env.DB, [rowOf("dst_a"), second], most)).toBeUndefined();
    expect(await everything()).toMatchObject([{ id: "dst_old" }]);
  });

  test("are not stored if the database fails, which does not count as a refusal", async () => {
    const broken = rowOf("dst_b", { url: null as unknown as string });
    await expect(insertDestinations(env.DB, [rowOf("dst_a"), broken], 9)).rejects.toThrow("NOT NULL");
    expect(await everything()).toHaveLength(1);
  });
});

describe("a destination", () => {
  beforeEach(async () => {
    await plainDestination("dst_b", { uid: "b" });
    await plainDestination("dst_a", { uid: "a", event_types: ["x.*"], channels: ["c"] });
    await plainDestination("dst_gone", { uid: "gone", deleted_at: 2, event_types: ["gone"] });
    await plainDestination("dst_c", { status: "paused", event_types: ["paused"] });
    await plainDestination("dst_theirs", { tenant: "rival", uid: "a", event_types: ["theirs"] });
  });

  test("is found by its tenant and the operator, unless it is deleted", async () => {
    const seen = (tenant?: string) =>
      Promise.all(
        ["dst_a", "dst_theirs", "dst_gone", "dst_none"].map(
          async (id) => (await findDestination(env.DB, id, tenant))?.id,
        ),
      );
    expect(await seen("acme")).toEqual(["dst_a", undefined, undefined, undefined]);
    expect(await seen("rival")).toEqual([undefined, "dst_theirs", undefined, undefined]);
    expect(await seen()).toEqual(["dst_a", "dst_theirs", undefined, undefined]);
  });

  test("is found by the uid that its tenant has given it", async () => {
    const found = (tenant: string, uid: string) =>
      destinationByUid(env.DB, tenant, uid).then((row) => row?.id);
    expect([await found("acme", "a"), await found("acme", "b")]).toEqual(["dst_a", "dst_b"]);
    expect([await found("rival", "a"), await found("rival", "b")]).toEqual(["dst_theirs", undefined]);
    expect(await found("acme", "gone")).toBeUndefined();
  });

  test("is listed in order of its id, either way, for its tenant or for all", async () => {
    const page = async (given: Partial<Parameters<typeof listDestinations>[1]>) =>
      (await listDestinations(env.DB, { tenant: undefined, after: undefined, limit: 3, ...given }))
        .map(({ id }) => id.slice(4))
        .join(" ");
    expect([await page({}), await page({ after: "dst_b" })]).toEqual(["a b c", "c theirs"]);
    expect([await page({ tenant: "acme", limit: 9 }), await page({ tenant: "rival" })]).toEqual([
      "a b c",
      "theirs",
    ]);
    expect(await page({ descending: true })).toBe("theirs c b");
    expect(await page({ descending: true, after: "dst_c", tenant: "acme" })).toBe("b a");
  });

  test("takes part in routing while it is neither paused nor deleted", async () => {
    expect(await activeRoutes(env.DB, "acme")).toEqual(
      expect.arrayContaining([
        { eventTypes: null, channels: null },
        { eventTypes: ["x.*"], channels: ["c"] },
      ]),
    );
    expect(await activeRoutes(env.DB, "acme")).toHaveLength(2);
  });

  test("is among those requested by their ids, in that order, deleted or not", async () => {
    const found = await destinationsById(env.DB, ["dst_c", "dst_none", "dst_gone", "dst_a", "dst_c"]);
    expect([...found.keys()]).toEqual(["dst_c", "dst_gone", "dst_a"]);
    expect([...found.values()].map(({ id }) => id)).toEqual([...found.keys()]);
    expect(await destinationsById(env.DB, [])).toEqual(new Map());
  });

  test.each<[string, string | undefined]>([
    ["dst_theirs", "acme"],
    ["dst_gone", "acme"],
    ["dst_gone", undefined],
    ["dst_none", undefined],
  ])("with the id %s is neither changed nor paused for the tenant %s", async (id, tenant) => {
    const before = await everything();
    expect(await changeDestination(env.DB, id, { url: "https://new.example" }, tenant)).toBeUndefined();
    const paused = { status: "paused", statusReason: "manual" } as const;
    expect(await setDestinationStatus(env.DB, id, paused, tenant, 9)).toBeUndefined();
    expect(await everything()).toEqual(before);
  });

  test("is changed without others, by its tenant or the operator", async () => {
    const before = await everything();
    const change = { description: "new", updatedAt: 7 };
    expect(await changeDestination(env.DB, "dst_a", change, "acme")).toMatchObject(change);
    expect(await changeDestination(env.DB, "dst_b", change, undefined)).toMatchObject(change);
    const changed = { description: "new", updated_at: 7 };
    expect(await everything()).toEqual(
      before.map((row, i) => (i < 2 ? { ...(row as object), ...changed } : row)),
    );
  });

  test("is paused and resumed once, and keeps the time and the reason of the first", async () => {
    const turn = (status: "active" | "paused", now: number) =>
      setDestinationStatus(
        env.DB,
        "dst_a",
        { status, statusReason: status === "paused" ? "gone" : null },
        "acme",
        now,
      );
    expect(await turn("active", 5)).toBeUndefined();
    const paused = { status: "paused", statusReason: "gone", statusChangedAt: 6, updatedAt: 6 };
    expect(await turn("paused", 6)).toMatchObject(paused);
    expect(await turn("paused", 7)).toBeUndefined();
    expect(await find("dst_a")).toMatchObject(paused);
    expect(await find("dst_b")).toMatchObject({ status: "active" });
    expect(await turn("active", 8)).toMatchObject({ status: "active", statusReason: null });
  });

  test("takes a uid that is its own or free, and none of another of its tenant", async () => {
    const take = (uid: string) => changeDestination(env.DB, "dst_b", { uid }, "acme");
    expect(await take("b")).toMatchObject({ uid: "b" });
    expect(await take("a")).toBeUndefined();
    expect(await take("gone")).toMatchObject({ uid: "gone" });
    expect(await find("dst_b")).toMatchObject({ uid: "gone" });
    expect(await changeDestination(env.DB, "dst_theirs", { uid: "gone" }, "rival")).toBeDefined();
    expect(await changeDestination(env.DB, "dst_b", { uid: null }, "acme")).toMatchObject({ uid: null });
  });
});

describe("a change that depends on earlier values", () => {
  const change = (seen: Parameters<typeof changeDestination>[4]) =>
    changeDestination(env.DB, "dst_a", { description: "new" }, "acme", seen);
  beforeEach(() => plainDestination("dst_a", { secret: "s1", signature_forms: null }));

  test("is made while these still hold", async () => {
    expect(await change({ secret: "s1", signatureForms: null, updatedAt: 1 })).toBeDefined();
    await env.DB.prepare("UPDATE destinations SET signature_forms = '[\"standard\"]'").run();
    expect(await change({ signatureForms: ["standard"] as never })).toBeDefined();
  });

  test.each([
    { secret: "s2" },
    { secret: "s1", updatedAt: 2 },
    { secret: "s1", signatureForms: ["standard"] as never },
    { updatedAt: 1, url: "https://b.example" },
  ])("is not made if they no longer hold: %j", async (seen) => {
    expect(await change(seen)).toBeUndefined();
    expect(await find("dst_a")).toMatchObject({ description: null });
  });

  test("is not made if an absent value has been set since", async () => {
    await env.DB.prepare("UPDATE destinations SET signature_forms = '[\"standard\"]'").run();
    expect(await change({ signatureForms: null })).toBeUndefined();
  });
});

describe("a column that has been edited", () => {
  const row = async (columns: Readonly<Record<string, unknown>>) => {
    await plainDestination("dst_a", columns);
    return (await find("dst_a")) as Destination;
  };

  test.each([
    [{}, { values: {}, isPlain: false }],
    [{ sealed_headers: { x: "s" } }, { values: { x: "s" }, isPlain: false }],
    [{ headers: { x: "p" } }, { values: { x: "p" }, isPlain: true }],
    [
      { headers: { x: "p" }, sealed_headers: { y: "s" } },
      { values: { x: "p" }, isPlain: true },
    ],
    [
      { headers: { x: 1 }, sealed_headers: { y: "s" } },
      { values: { y: "s" }, isPlain: false },
    ],
    [{ headers: "no JSON" }, { values: {}, isPlain: false }],
    [{ sealed_headers: "no JSON" }, { values: { "": "" }, isPlain: false }],
    [{ sealed_headers: { y: 1 } }, { values: { "": "" }, isPlain: false }],
  ])("leaves headers in effect, or none that open: %j", async (columns, headers) => {
    expect(storedHeaders(await row(columns))).toEqual(headers);
  });

  test.each([
    [{ status: "paused", status_reason: "gone", status_changed_at: 7 }, "paused", { at: 7, reason: "gone" }],
    [{ status: "paused" }, "paused", { at: 1, reason: "manual" }],
    [{ status: "active", status_reason: "gone", status_changed_at: 7 }, "active", undefined],
    [{ status: "stopped" }, "active", undefined],
  ])("%j makes the status %s", async (columns, status, pause) => {
    const stored = await row(columns);
    expect([statusOf(stored), pauseOf(stored)]).toEqual([status, pause]);
    expect(gateSettingsOf(stored).paused).toBe(status === "paused");
  });

  test.each([
    [{}, null, 100],
    [{ rate_per_second: 7 }, null, 7],
    [{ rate_burst: 9 }, 9, 9],
    [{ rate_burst: -9 }, null, 100],
    [{ rate_per_second: 7, rate_burst: "many" }, null, 7],
  ])("%j makes the set burst %s, and the effective one %s", async (columns, own, inEffect) => {
    const stored = await row(columns);
    expect([ownBurstOf(stored), limitsOf(stored).rate_burst]).toEqual([own, inEffect]);
  });

  test("counts as its default if it is out of its range, without affecting others", async () => {
    const stored = await row({
      timeout_ms: 5,
      max_concurrency: 7,
      breaker_window_s: -1,
      breaker_cooldown_s: 9,
    });
    expect(limitsOf(stored)).toMatchObject({ timeout_ms: 15_000, max_concurrency: 7 });
    expect(gateSettingsOf(stored).breaker).toMatchObject({ windowMs: 60_000, cooldownMs: 9_000 });
  });

  test("counts as the default retry policy if it is invalid, and is parsed once", async () => {
    const defaults = retryPolicyOf({ retry: null });
    expect(retryPolicyOf(await row({ retry: '{"schedule":"soon"}' }))).toEqual(defaults);
    const stored = { retry: { schedule: [7], jitter: "none" } } as Pick<Destination, "retry">;
    expect(retryPolicyOf(stored)).not.toEqual(defaults);
    expect(retryPolicyOf(stored)).toBe(retryPolicyOf(stored));
  });
});

describe("sealed secrets", () => {
  const sealed = {
    secret: "s",
    headers: { p: "plain" },
    sealed_headers: { x: "h" },
    auth: { kind: "basic" },
    target_token: "t",
  };
  const anew = {
    secrets: { secret: "s2", previousSecrets: [] },
    sealedHeaders: { x: "h2" },
    auth: { kind: "basic2" },
    targetToken: "t2",
  };
  const found = async (id: string) => {
    const one = (await sealedSecrets(env.DB, "", 9)).find((row) => row.id === id);
    if (!one) throw new Error("The destination is there");
    return one;
  };

  beforeEach(async () => {
    await plainDestination("dst_a", sealed);
    await plainDestination("dst_b", { ...sealed, deleted_at: 2 });
    await plainDestination("dst_c", { secret: "c" });
  });

  test("are those of all destinations, deleted ones too, in order of their ids", async () => {
    const page = async (after: string) => (await sealedSecrets(env.DB, after, 2)).map(({ id }) => id);
    expect([await page(""), await page("dst_b")]).toEqual([["dst_a", "dst_b"], ["dst_c"]]);
    const { headers, sealed_headers, auth, ...plain } = sealed;
    expect(await found("dst_a")).toMatchObject({
      ...{
        secret: plain.secret,
        targetToken: plain.target_token,
        headers,
        sealedHeaders: sealed_headers,
        auth,
      },
      texts: {
        headers: JSON.stringify(headers),
        sealedHeaders: JSON.stringify(sealed_headers),
        auth: JSON.stringify(auth),
      },
    });
  });

  test("are replaced if they are unchanged, only of that destination", async () => {
    const others = [await raw("dst_b"), await raw("dst_c")];
    await replaceSecrets(env.DB, [{ before: await found("dst_a"), ...anew }]);
    expect(await raw("dst_a")).toMatchObject({
      ...{ secret: "s2", previous_secrets: "[]", headers: null, target_token: "t2" },
      sealed_headers: JSON.stringify(anew.sealedHeaders),
      auth: JSON.stringify(anew.auth),
    });
    expect([await raw("dst_b"), await raw("dst_c")]).toEqual(others);
  });

  test("are replaced for several destinations, each with its existing ones", async () => {
    await replaceSecrets(env.DB, [
      { before: await found("dst_b"), secrets: anew.secrets },
      { before: await found("dst_c"), sealedHeaders: anew.sealedHeaders },
      { before: await found("dst_a") },
    ]);
    expect(await raw("dst_a")).toMatchObject({ secret: "s", target_token: "t", headers: '{"p":"plain"}' });
    expect(await raw("dst_b")).toMatchObject({ secret: "s2", target_token: "t", headers: '{"p":"plain"}' });
    expect(await raw("dst_c")).toMatchObject({ secret: "c", sealed_headers: '{"x":"h2"}' });
    await replaceSecrets(env.DB, []);
    await replaceSecrets(env.DB, [{ before: await found("dst_a") }]);
  });

  test.each([
    [{ secret: "new" }, ["target_token", "auth", "sealed_headers"]],
    [{ headers: '{"p":"new"}' }, ["secret", "target_token", "auth"]],
    [{ sealed_headers: '{"x":"new"}' }, ["secret", "target_token", "auth"]],
    [{ auth: '{"kind":"new"}' }, ["secret", "target_token", "sealed_headers"]],
    [{ target_token: "new" }, ["secret", "auth", "sealed_headers"]],
  ])("stay if they were changed meanwhile, while the others are replaced: %j", async (change, replaced) => {
    const before = await found("dst_a");
    const old = await raw("dst_a");
    const [[column = "", value] = []] = Object.entries(change);
    await env.DB.prepare(`UPDATE destinations SET ${column} = ?1 WHERE id = 'dst_a'`).bind(value).run();
    await replaceSecrets(env.DB, [{ before, ...anew }]);
    const after = await raw("dst_a");
    const isReplaced = (name: string) => after?.[name] !== old?.[name];
    expect(after?.[column]).toBe(value);
    expect(
      ["secret", "target_token", "auth", "sealed_headers"]
        .filter((name) => name !== column && isReplaced(name))
        .toSorted(),
    ).toEqual(replaced.toSorted());
  });
});
