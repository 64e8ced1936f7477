/** The directions of imports, held by machine. What only types need is no dependency at run time. */
import { globSync, readFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { describe, expect, test } from "vitest";

const ROOT = new URL("..", import.meta.url).pathname;
const SRC = join(ROOT, "src");

/** The run-time imports that the files of a folder may have: other folders ("" is src itself), and packages. */
const ENGINE = ["ingest", "delivery", "gate", "store", "secrets", "core", ""];
const rules: Readonly<Record<string, Readonly<{ folders: readonly string[]; packages: readonly RegExp[] }>>> =
  {
    core: { folders: ["core"], packages: [/^zod$/, /^liquidjs$/] },
    simulator: { folders: ["simulator", "core"], packages: [] },
    secrets: { folders: ["secrets", "core"], packages: [/^hono\/jwt$/, /^zod$/] },
    store: { folders: ["store", "core"], packages: [/^drizzle-orm(\/|$)/, /^drizzle-kit$/] },
    gate: { folders: ["gate", "core", ""], packages: [/^cloudflare:workers$/] },
    ingest: { folders: ["ingest", "store", "core", ""], packages: [/^cloudflare:workers$/] },
    delivery: { folders: [...ENGINE], packages: [/^ipaddr\.js$/] },
    jobs: { folders: ["jobs", ...ENGINE], packages: [] },
    features: {
      folders: ["features", "http", "jobs", ...ENGINE],
      packages: [/^hono(\/|$)/, /^@hono\//, /^zod$/, /^drizzle-orm(\/|$)/, /^yaml$/],
    },
    http: {
      folders: ["http", "features", "jobs", "pages", ...ENGINE],
      packages: [/^hono(\/|$)/, /^@hono\//, /^zod$/],
    },
    pages: {
      folders: ["pages", "features", "http", "simulator", ...ENGINE],
      packages: [/^hono(\/|$)/, /^@hono\//, /^zod$/],
    },
    bindings: {
      folders: ["bindings", "features", "http", "ingest", "core", ""],
      packages: [/^cloudflare:workers$/, /^zod$/],
    },
    tools: {
      folders: ["tools", "gate", "secrets", "core", ""],
      packages: [/^node:/, /^standardwebhooks$/, /^wrangler$/, /^zod$/],
    },
  };

/** Single files of another folder that may also be imported: they import nothing of that folder themselves. */
const alsoNeeded: Readonly<Record<string, readonly string[]>> = {
  store: ["time.ts", "log.ts"],
};

/** The types of the API, which are generated from its document. */
const API_TYPES = "../client/src/api.ts";

/** Further imports that may be only for types. */
const types: Readonly<Record<string, readonly string[]>> = { tools: [API_TYPES] };

type Import = Readonly<{
  from: string;
  to: string;
  typeOnly: boolean;
  isPackage: boolean;
  /** Imported when it is needed, by `import()`. */
  isLater: boolean;
}>;

/** The files of src by their paths below it, and those of tools. */
const files = globSync(["src/**/*.{ts,tsx}", "tools/**/*.ts"], { cwd: ROOT })
  .map((file) => nameOf(join(ROOT, file)))
  .filter((file) => file !== "env.d.ts");
const imports = files.flatMap(importsOf);
const folders = [...new Set(files.map(folderOf))].filter((folder) => folder !== "");

test("every folder has a rule", () => {
  expect(folders.filter((folder) => !(folder in rules))).toEqual([]);
});

describe.each(folders.filter((folder) => folder in rules))("%s", (folder) => {
  const ours = imports.filter(({ from }) => folderOf(from) === folder);
  const rule = rules[folder] ?? { folders: [], packages: [] };

  test("imports at run time only what it may", () => {
    const also = alsoNeeded[folder] ?? [];
    const wrong = ours.filter(
      ({ to, typeOnly, isPackage }) =>
        !typeOnly && !isPackage && !rule.folders.includes(folderOf(to)) && !also.includes(to),
    );
    expect(wrong.map(spell)).toEqual([]);
  });

  test("imports types only from where it may, or as an exception", () => {
    const allowed = [...(types[folder] ?? []), ...(alsoNeeded[folder] ?? [])];
    const wrong = ours.filter(({ to, typeOnly, isPackage }) => {
      const isException = allowed.some((start) => to.startsWith(start));
      return typeOnly && !isPackage && !rule.folders.includes(folderOf(to)) && !isException;
    });
    expect(wrong.map(spell)).toEqual([]);
  });

  test("imports only its own packages", () => {
    const wrong = ours.filter(
      ({ to, isPackage, typeOnly }) => isPackage && !typeOnly && !rule.packages.some((p) => p.test(to)),
    );
    expect(wrong.map(spell)).toEqual([]);
  });
});

test("nothing imports the worker, even for types, except what runs it in development", () => {
  expect(
    imports
      .filter(({ to }) => to === "worker.ts")
      .map(spell)
      .sort(),
  ).toEqual(["tools/dev/worker.ts → worker.ts", "tools/strict/worker.ts → worker.ts"]);
});

test("the Worker imports nothing that is for development", () => {
  const wrong = imports.filter(({ from, to }) => folderOf(to) === "tools" && folderOf(from) !== "tools");
  expect(wrong.map(spell)).toEqual([]);
});

/** The store's internals: how events and deliveries are laid out in rows and databases. */
const INSIDE_STORE = ["tables", "packs", "bundles", "sql", "merge"].map((name) => `store/${name}.ts`);

test("only the store knows plans, bits and rows, and which database has them", () => {
  const wrong = imports.filter(({ from, to }) => INSIDE_STORE.includes(to) && folderOf(from) !== "store");
  expect(wrong.map(spell)).toEqual([]);
  expect(INSIDE_STORE.filter((file) => !files.includes(file))).toEqual([]);
});

test("only the routes of a feature know HTTP", () => {
  const wrong = imports.filter(
    ({ from, to }) => from.startsWith("features/") && to.startsWith("http/") && !from.endsWith("routes.ts"),
  );
  expect(wrong.map(spell)).toEqual([]);
});

describe("an isolate loads", () => {
  const needs = Map.groupBy(
    imports.filter(({ isPackage, typeOnly, isLater }) => !isPackage && !typeOnly && !isLater),
    ({ from }) => from,
  );

  /** The files that are evaluated with these. */
  function loadedWith(...roots: readonly string[]): string[] {
    const loaded = [...roots];
    for (const file of loaded)
      for (const { to } of needs.get(file) ?? []) if (!loaded.includes(to)) loaded.push(to);
    return loaded;
  }

  const ofRequests = (files: readonly string[]) =>
    files.filter((file) => /^(http|pages)\/|\/(routes|schema)\.ts$/.test(file) && file !== "store/schema.ts");

  test("no route, page or schema of the API for a gate, an intake or a batch of a queue", () => {
    const loaded = loadedWith("worker.ts");
    const packages = imports.filter(
      ({ from, isPackage, typeOnly, isLater }) => isPackage && !typeOnly && !isLater && loaded.includes(from),
    );
    expect(ofRequests(loaded)).toEqual([]);
    // zod alone takes longer to evaluate than the engine: stored values are read by shapes (core/shape.ts).
    expect([...new Set(packages.map(({ to }) => to))].sort()).toEqual([
      "cloudflare:workers",
      "drizzle-orm",
      "drizzle-orm/d1",
      "drizzle-orm/sqlite-core",
      "ipaddr.js",
    ]);
  });

  test("nothing that only some destinations need for a batch of deliveries", () => {
    const others = [
      "access-token",
      "archiver",
      "group-member",
      "payload",
      "transform",
      "kinds/poll",
      "kinds/queue",
    ];
    const later = others.map((name) => `delivery/${name}.ts`);
    expect(loadedWith("delivery/consumer.ts").filter((file) => later.includes(file))).toEqual([]);
    expect(later.filter((file) => !files.includes(file))).toEqual([]);
  });

  test("no tool of agents before it is first requested", () => {
    const loaded = loadedWith("worker.ts", "upkeep.ts", "http/front.ts", "http/app.ts", "http/svix/app.ts");
    expect(loaded.filter((file) => file.startsWith("http/mcp/"))).toEqual([]);
    expect(files).toContain("http/mcp/app.ts");
  });

  test("only the routes and schemas of events for a post of events", () => {
    const loaded = loadedWith("worker.ts", "http/front.ts", "http/api.ts", "features/events/routes.ts");
    expect(ofRequests(loaded).filter((file) => !/^http\/[a-z-]+\.ts$/.test(file))).toEqual([
      "features/events/routes.ts",
      "features/events/schema.ts",
      "features/deliveries/schema.ts",
    ]);
    expect(loaded).not.toContain("http/app.ts");
  });
});

test("files import each other without circles, even for types", () => {
  const needs = Map.groupBy(
    imports.filter(({ isPackage }) => !isPackage),
    ({ from }) => from,
  );
  expect(files.filter((file) => reaches(file, file, needs))).toEqual([]);
});

test("every relative import names an existing file", () => {
  const missing = imports.filter(({ to, isPackage }) => !isPackage && ![...files, API_TYPES].includes(to));
  expect(missing.map(spell)).toEqual([]);
});

test("no file has a meaningless name", () => {
  const vague = /^(utils?|helpers?|common|shared|misc|types?|models?|index|lib|core|base|manager)\.tsx?$/;
  expect(files.filter((file) => vague.test(basename(file)))).toEqual([]);
});

/** @param path absolute */
function nameOf(path: string): string {
  return relative(path.startsWith(join(ROOT, "tools/")) ? ROOT : SRC, path);
}

function folderOf(file: string): string {
  return file.includes("/") ? (file.split("/")[0] ?? "") : "";
}

/** The imports and re-exports of a file, those inside of a type (`import("…")`) included. */
function importsOf(file: string): Import[] {
  const path = join(file.startsWith("tools/") ? ROOT : SRC, file);
  const text = readFileSync(path, "utf8");
  const statements = text.matchAll(/^(?:import|export)\s+(type\s+)?([^;'"]*?from\s*)?["']([^"']+)["']/gm);
  const named = [...statements].map(([, type, clause = "", to = ""]) => {
    const names =
      /\{([^}]*)\}/
        .exec(clause)?.[1]
        ?.split(",")
        .filter((name) => name.trim() !== "") ?? [];
    const onlyTypes =
      /^\s*\{/.test(clause) && names.length > 0 && names.every((name) => /^\s*type\s/.test(name));
    return { to, typeOnly: type !== undefined || onlyTypes, isLater: false };
  });
  const inline = [...text.matchAll(/\bimport\(["']([^"']+)["']\)/g)].map(([, to = ""]) => ({
    to,
    typeOnly: false,
    isLater: true,
  }));
  return [...named, ...inline].map(({ to, typeOnly, isLater }) => {
    const isPackage = !to.startsWith(".");
    const target = isPackage ? to : nameOf(join(dirname(path), to));
    return { from: file, to: target, typeOnly, isPackage, isLater };
  });
}

function reaches(from: string, goal: string, needs: ReadonlyMap<string, readonly Import[]>): boolean {
  const seen = new Set<string>();
  const open = [from];
  for (let file = open.pop(); file !== undefined; file = open.pop()) {
    for (const { to } of needs.get(file) ?? []) {
      if (to === goal) return true;
      if (!seen.has(to)) open.push(to);
      seen.add(to);
    }
  }
  return false;
}

function spell({ from, to }: Import): string {
  return `${from} → ${to}`;
}
