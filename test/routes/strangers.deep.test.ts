/**
 * Every route that any app has registered, called with every kind of right and with names that are not the caller's:
 * those of another tenant, of other kinds, and texts that would be paths. Nothing of the other tenant is seen or
 * changed, nothing of the caller's own is reached by a wrong name, and nothing fails. New routes, pages and forms are
 * taken up as they are registered.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { scopes } from "../../src/core/scopes.ts";
import { changingTools } from "../../src/http/mcp/changing.ts";
import { eventMethods } from "../../src/http/mcp/events.ts";
import { readingTools } from "../../src/http/mcp/reading.ts";
import { isNightly } from "../support/effort.ts";
import {
  type AppName,
  appNames,
  bodyOf,
  CANARY,
  type Caller,
  callerNames,
  callersOf,
  formOf,
  headersOf,
  isRivals,
  messageOf,
  nameAt,
  newWorld,
  parametersOf,
  pathWith,
  type Route,
  routesOf,
  seenOf,
  send,
  stepBefore,
  stored,
  subscriptionTo,
  type World,
} from "../support/strangers.ts";
import { inputFor, thingFor, toolFields } from "../support/tool-inputs.ts";

let world: World;

/** Where a caller who knows an id of its own tenant would lead a path. */
const elsewhere = ({ own }: World) => [`keys/${own.ids.keys}`, `destinations/${own.ids.destinations}/pause`];

/** A name, encoded for a path, by the step before it; undefined where there is none of that kind. */
type Spelling = Readonly<{ name: string; of: (world: World, before: string) => string | undefined }>;

const foreign: Spelling = { name: "another tenant's", of: ({ rival }, before) => nameAt(before, rival) };

/** The values that could lead to an object. */
const leading: readonly Spelling[] = [
  foreign,
  { name: "of another kind", of: ({ own }, before) => own.ids[before === "keys" ? "events" : "keys"] },
  ...[0, 1].flatMap((i): Spelling[] => [
    { name: "..%2F", of: (all) => encodeURIComponent(`../${elsewhere(all)[i]}?`) },
    { name: "%2e%2e/", of: (all) => `%2e%2e%2f${elsewhere(all)[i]?.replaceAll("/", "%2f")}%23` },
  ]),
];

const odd: readonly Spelling[] = [
  { name: "encoded twice", of: (all) => `..%252F${elsewhere(all)[0]?.replaceAll("/", "%252F")}` },
  { name: "backslashes", of: (all) => `..%5C${elsewhere(all)[0]?.replaceAll("/", "%5C")}` },
  { name: "another tenant's with a NUL", of: ({ rival }, before) => `${nameAt(before, rival)}%00` },
  { name: "another tenant's in capitals", of: ({ rival }, before) => nameAt(before, rival)?.toUpperCase() },
  { name: "very long", of: () => "a".repeat(5_000) },
  { name: "empty", of: () => "" },
  { name: "__proto__", of: () => "__proto__" },
  { name: "a wildcard", of: () => "%25_*" },
  { name: "Unicode", of: () => encodeURIComponent("dst_🦆\u202e\u0000ｅ") },
  { name: "no UTF-8", of: () => "%FF%zz" },
];

/** The given number of entries of a list, different ones at each turn. */
function inTurn<T>(list: readonly T[], turn: number, count: number): readonly T[] {
  const begin = (turn * count) % list.length;
  return [...list, ...list].slice(begin, begin + count);
}

/**
 * The spellings for a caller in one place of a route. Who may do most in a tenant gets every spelling, in each app once. Others, whom
 * a spelling could lead to less, get another tenant's name and one more in turn: each of them meets every route and every caller, but only
 * at night every route by every caller.
 */
function spellingsFor({ principal, denied, isOperator }: Caller, turn: number): readonly Spelling[] {
  const mayMost = (principal?.scopes.length === scopes.length && !isOperator) || denied?.length === 0;
  if (mayMost) return [...leading, ...odd];
  const others = leading.filter((spelling) => spelling !== foreign);
  const mine = isNightly ? others : inTurn(others, turn, 1);
  return isOperator ? mine : [foreign, ...mine];
}

/** The forbidden contents of the answer to one request, or of the database after some. */
type Faults = string[];

type Sent = Readonly<{ name: string; path: string; body?: string | URLSearchParams | undefined }>;

type How = Pick<Route, "app" | "method"> &
  Readonly<{
    headers: Record<string, string>;
    isOperator?: boolean | undefined;
    /** Whether what is the caller's own may change, where not all is refused. */
    mayChangeOwn: boolean;
    /** Whether former requests have put the rival's names into what is the caller's own. */
    hasNames?: boolean;
  }>;

/** Sends requests at once, and says what is wrong with the answers, and with what is stored afterwards. */
async function faultsAfter(requests: readonly Sent[], how: How): Promise<Faults> {
  const { app, method, headers, isOperator, mayChangeOwn, hasNames } = how;
  const answers = await Promise.all(
    requests.map(async ({ name, path, body }) => {
      const answer = await send(app, method, path, headers, body);
      const marks = isOperator ? [] : seenOf(world, answer, `${path} ${body ?? ""}`);
      const seen = hasNames ? marks.filter((mark) => mark === CANARY) : marks;
      const failed = answer.status >= 500 && answer.status !== 501;
      return {
        ...answer,
        faults: [...seen, ...(failed ? [`${answer.status}`] : [])].map((one) => `${name}: ${one}`),
      };
    }),
  );
  const faults = answers.flatMap((answer) => answer.faults);
  const now = await stored();
  const isSame = now === before;
  const differing = isSame
    ? []
    : [...[...now].filter((row) => !before.has(row)), ...[...before].filter((row) => !now.has(row))];
  before = now;
  const mayChange = mayChangeOwn && answers.some(({ status }) => status < 400);
  const changed = differing.find((row) => isRivals(world, row)) ?? (mayChange ? undefined : differing[0]);
  return changed === undefined ? faults : [...faults, `changes ${changed}`];
}

let before: ReadonlySet<string>;

/** Steps before names that callers choose themselves: a new one may be created. */
const CHOSEN = ["tenants", "event-types", "groups", "app", "endpoint", "event-type"];

/** Pages that act on what a later name says: the first one is that of the page to come back to. */
const COMING_BACK = /\/(endpoints|destinations)\/:id\/replays\/:replay\/\w+$/;

/** Whether the caller's own may change although the name in this place is not its own. */
function isFree(route: Route, place: number): boolean {
  return CHOSEN.includes(stepBefore(route, place)) || (place === 0 && COMING_BACK.test(route.path));
}

const each = appNames.flatMap((app) => callerNames(app).map((name): [AppName, string] => [app, name]));

async function callerNamed(app: AppName, name: string) {
  const { tenant } = world.own;
  const caller = callersOf(app, tenant).find((one) => one.name === name) ?? { name };
  return { caller, headers: await headersOf(app, caller, tenant) };
}

describe("foreign names in paths reach nothing", () => {
  beforeAll(async () => {
    world = await newWorld();
  });

  test.each(each)("in %s, by %s", async (app, name) => {
    const { caller, headers } = await callerNamed(app, name);
    before = await stored();
    const faults: string[] = [];
    // Each caller begins with another spelling.
    let turn = callerNames(app).indexOf(name);
    for (const route of routesOf(app)) {
      for (let place = 0; place < parametersOf(route); place++) {
        const requests = spellingsFor(caller, turn++).flatMap((spelling) => {
          let isThere = true;
          const path = pathWith(route, world.own, place, (step) => {
            const given = spelling.of(world, step);
            isThere = given !== undefined;
            return given ?? "";
          });
          return isThere ? [{ name: spelling.name, path, body: bodyOf(route, world.own) }] : [];
        });
        const how = {
          ...route,
          headers,
          isOperator: caller.isOperator,
          mayChangeOwn: isFree(route, place),
        };
        const found = await faultsAfter(requests, how);
        faults.push(...found.map((one) => `${route.method} ${route.path} (${place}) ${one}`));
      }
    }
    expect(faults).toEqual([]);
  });
});

/** Requests that end a caller's session come last. */
const ends = ({ path }: Route) => (/\/(sign-out|leave)$/.test(path) ? 1 : 0);

describe("paths without names show and change nothing of another tenant", () => {
  beforeAll(async () => {
    world = await newWorld();
  });

  test.each(each.filter(([, name]) => name !== "the operator"))("in %s, by %s", async (app, name) => {
    const { headers } = await callerNamed(app, name);
    before = await stored();
    const faults: string[] = [];
    for (const route of routesOf(app).toSorted((a, b) => ends(a) - ends(b))) {
      if (parametersOf(route) > 0) continue;
      const request = { name: "", path: route.path, body: bodyOf(route, world.own) };
      const found = await faultsAfter([request], { ...route, headers, mayChangeOwn: true });
      faults.push(...found.map((one) => `${route.method} ${route.path}${one}`));
    }
    expect(faults).toEqual([]);
  });
});

type PageForm = Readonly<{ method: string; action: string; fields: Readonly<Record<string, string>> }>;

/** The forms of a page that have fields, as a browser would send them. */
function formsIn({ text }: Readonly<{ text: string }>): PageForm[] {
  return [...text.matchAll(/<form\b([^>]*)>(.*?)<\/form>/gs)].flatMap(([, attributes = "", content = ""]) => {
    const action = /action="([^"]*)"/.exec(attributes)?.[1]?.replaceAll("&amp;", "&") ?? "";
    const method = /method="post"/i.test(attributes) ? "POST" : "GET";
    const inputs = [...content.matchAll(/<(?:input|select|textarea|button)\b[^>]*\bname="([^"]+)"[^>]*>/g)];
    const fields = inputs.map(([tag, name = ""]) => [name, /\bvalue="([^"]*)"/.exec(tag)?.[1] ?? ""]);
    return action === "" || fields.length === 0
      ? []
      : [{ method, action, fields: Object.fromEntries(fields) }];
  });
}

/** The links of a page with a query, as forms with its parameters. */
function linksIn({ text }: Readonly<{ text: string }>): PageForm[] {
  return [...text.matchAll(/\bhref="(\/[^"#?]*)\?([^"#]+)/g)].map(([, action = "", query = ""]) => {
    const fields = Object.fromEntries(new URLSearchParams(query.replaceAll("&amp;", "&")));
    return { method: "GET", action, fields };
  });
}

/** The forms of all pages of the app that have fields, each once, and what the pages' links have in their addresses. */
async function formsOf(app: AppName, headers: Record<string, string>): Promise<readonly PageForm[]> {
  const forms = new Map<string, PageForm>();
  for (const route of routesOf(app)) {
    if (route.method !== "GET" || ends(route)) continue;
    const page = await send(app, "GET", pathWith(route, world.own), headers);
    for (const form of [...formsIn(page), ...linksIn(page)]) {
      if (/\/(sign-in|enter|delete|revoke)\b/.test(form.action)) continue;
      forms.set(`${form.method} ${form.action} ${Object.keys(form.fields)}`, form);
    }
  }
  expect(forms.size).toBeGreaterThanOrEqual(app === "portal" ? 5 : 10);
  return [...forms.values()];
}

/** The form with each of its fields in turn as it is typed. @param next what the next field is given, with what that is */
function typedInto({ method, action, fields }: PageForm, next: () => readonly (readonly [string, string])[]) {
  const valid = Object.fromEntries(
    Object.entries(fields).map(([field, value]) => [field, value || (formOf(world.own)[field] ?? "")]),
  );
  const [path = "", query = ""] = action.split("?");
  return Object.keys(fields).flatMap((field) =>
    next().map(([kind, value]): Sent => {
      const form = new URLSearchParams({ ...valid, [field]: value });
      const name = `${field} ${kind}`;
      if (method === "GET") return { name, path: `${path}?${form}` };
      return { name, path: `${path}${query && `?${query}`}`, body: form };
    }),
  );
}

/** The input of a field in its turn. */
const typed = ({ own, rival }: World): Readonly<Record<string, string>> => ({
  "another tenant": rival.tenant,
  "another tenant's destination": rival.ids.destinations ?? "",
  "another tenant's delivery": rival.ids.deliveries ?? "",
  "a path": `../keys/${own.ids.keys}`,
  "a prototype": "__proto__",
  "a NUL": `${rival.tenant}\u0000🦆\u202e`,
  "very long": "a".repeat(5_000),
});

/** How many of these a field is given in CI. All by one caller of an app; by another, whose forms are the same, some in turn. */
const TYPED_BY_OTHERS = 2;

describe("foreign values in fields of forms reach nothing", () => {
  beforeAll(async () => {
    world = await newWorld();
  });

  test.each<[AppName, string]>([
    ["dashboard", "a tenant's administrator"],
    ["dashboard", "a person who owns two tenants"],
    ["portal", "a visitor who may do everything"],
  ])("in %s, by %s", async (app, name) => {
    const isFirst = name !== "a person who owns two tenants";
    let turn = 0;
    const { headers } = await callerNamed(app, name);
    const forms = await formsOf(app, headers);
    before = await stored();
    const faults: string[] = [];
    for (const form of forms) {
      const kinds = Object.entries(typed(world));
      const requests = typedInto(form, () =>
        isFirst || isNightly ? kinds : inTurn(kinds, turn++, TYPED_BY_OTHERS),
      );
      const { method, action } = form;
      const found = await faultsAfter(requests, {
        app,
        method,
        headers,
        mayChangeOwn: true,
        hasNames: true,
      });
      faults.push(...found.map((one) => `${method} ${action} ${one}`));
    }
    expect(faults).toEqual([]);
  });
});

/** The input where something else is expected. */
const mistyped = {
  "no number": "NaN",
  "a negative number": "-1",
  "a number beyond all": "1e309",
  "a time beyond all": "275761-01-01T00:00",
  "a prototype": "constructor",
  "a NUL": "a\u0000b",
  "deep JSON": `${"[".repeat(50_000)}${"]".repeat(50_000)}`,
};

/** How many of these a field is given in CI. */
const MISTYPED = 2;

describe("no form fails on what is typed", () => {
  beforeAll(async () => {
    world = await newWorld();
  });

  test.each<[AppName, string]>([
    ["dashboard", "the operator"],
    ["portal", "a visitor who may do everything"],
  ])("in %s, by %s", async (app, name) => {
    const { headers } = await callerNamed(app, name);
    const kinds = Object.entries(mistyped);
    let turn = 0;
    const next = () => (isNightly ? kinds : inTurn(kinds, turn++, MISTYPED));
    const faults: string[] = [];
    for (const form of await formsOf(app, headers))
      for (const { name, path, body } of typedInto(form, next)) {
        const { status } = await send(app, form.method, path, headers, body);
        if (status >= 500) faults.push(`${form.method} ${form.action} ${name}: ${status}`);
      }
    expect(faults).toEqual([]);
  });
});

const tools = [...readingTools, ...changingTools];

/** The value of a tool's field in its turn; ids are found by words and subjects too. */
function foreignValues(field: string): unknown[] {
  const { rival } = world;
  const isAny = field === "q" || field === "subject";
  const own = isAny ? [rival.tenant, ...Object.values(rival.ids)] : [thingFor(field, rival)];
  return own
    .filter((value) => value !== undefined)
    .flatMap((value) => [value, Array.isArray(value) ? [`${value[0]}\u0000`] : `${value}`.toUpperCase()]);
}

describe("foreign arguments of an agent's tools reach nothing", () => {
  beforeAll(async () => {
    world = await newWorld();
  });

  test.each(callerNames("mcp").filter((name) => name !== "the operator"))("by %s", async (name) => {
    const { headers } = await callerNamed("mcp", name);
    before = await stored();
    const faults: string[] = [];
    let foreign = 0;
    for (const { name: tool, input } of tools) {
      const own = inputFor(tool, world.own);
      expect([tool, input.safeParse(own).success]).toEqual([tool, true]);
      const bodyWith = (given: object) => messageOf("tools/call", { name: tool, arguments: given });
      const strange = toolFields(tool).all.flatMap((field) =>
        foreignValues(field).map((value) => ({
          name: field,
          path: "/mcp",
          body: bodyWith({ ...own, [field]: value }),
        })),
      );
      foreign += strange.length;
      const how = { app: "mcp", method: "POST", headers } as const;
      const found = [
        ...(await faultsAfter(strange, { ...how, mayChangeOwn: false })),
        ...(await faultsAfter([{ name: "own", path: "/mcp", body: bodyWith(own) }], {
          ...how,
          mayChangeOwn: true,
        })),
      ];
      faults.push(...found.map((one) => `${tool} ${one}`));
    }
    expect(foreign).toBeGreaterThan(50);
    expect(faults).toEqual([]);
  });
});

describe("foreign parameters of MCP's methods reach nothing", () => {
  beforeAll(async () => {
    world = await newWorld();
  });

  test.each(callerNames("mcp").filter((name) => name !== "the operator"))("by %s", async (name) => {
    const { headers } = await callerNamed("mcp", name);
    before = await stored();
    const faults: string[] = [];
    const rivals = Object.values(world.rival.ids);
    for (const method of [...eventMethods, "tools/list", "initialize", "ping"]) {
      const own = subscriptionTo("own");
      const strange = [
        subscriptionTo(CANARY),
        ...rivals.flatMap((id) => [
          { ...own, name: id },
          { ...own, cursor: id },
          { ...own, arguments: { id } },
        ]),
      ];
      const requests = strange.map((params) => ({
        name: "",
        path: "/mcp",
        body: messageOf(method, params),
      }));
      const found = await faultsAfter(requests, {
        app: "mcp",
        method: "POST",
        headers,
        mayChangeOwn: true,
      });
      faults.push(...found.map((one) => `${method} ${one}`));
    }
    expect(faults).toEqual([]);
  });
});
