/**
 * Detects leaked secrets. It learns each secret that a test makes or uses, and then finds any piece of it in answers,
 * log lines and console output. A secret may appear once, in the answer that creates it; no-leaks.ts checks for leaks
 * after every test of the Worker.
 */
import { env } from "cloudflare:workers";
import { SecretPieces, secretsIn } from "./secret-pieces.ts";
import { bodyText } from "./utf8.ts";
import { MASTER_KEYS } from "./vault.ts";

/** The answers that may show a secret, and where in them. */
const SHOWN = [
  { route: /^POST \/v1\/destinations(\/[^/]+\/rotate-secret)?$/, place: /"secret":"([^"]+)"/ },
  { route: /^GET \/api\/v1\/app\/[^/]+\/endpoint\/[^/]+\/secret$/, place: /"key":"([^"]+)"/ },
  { route: /^POST \/api\/v1\/app\/[^/]+\/endpoint\/[^/]+\/secret\/rotate$/, place: /"key":"([^"]+)"/ },
  { route: /^GET \/v1\/tenants\/[^/]+\/export\?secrets=true$/, place: /"secret":"([^"]+)"/g },
  { route: /^POST \/v1\/tenants\/[^/]+\/import$/, place: /"secret":"([^"]+)"/g },
  { route: /^POST \/dashboard\/settings\/export$/, place: /"secret": "([^"]+)"/g },
  { route: /^POST \/dashboard\/settings\/import$/, place: /<code id="secret-[^"]+">([^<]+)</g },
  { route: /^POST \/v1\/keys$/, place: /"key":"([^"]+)"/ },
  {
    route: /^POST \/(dashboard\/destinations|portal\/endpoints)\/(new|[^/]+\/rotate)$/,
    place: /<code id="secret">([^<]+)</,
  },
  { route: /^POST \/portal\/endpoints\/[^/]+\/poll$/, place: /<code id="key">([^<]+)</ },
  { route: /^POST \/dashboard\/keys$/, place: /<code id="key">([^<]+)</ },
];

/** The secret in the API's document, which would count as a leak there, because tests share a Worker. */
const DOCUMENTED = "C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

const pieces = new SecretPieces();
const captured: Readonly<{ where: string; text: string }>[] = [];

learnWhole(env.ADMIN_KEY);
learnWhole(MASTER_KEYS.slice(MASTER_KEYS.indexOf(":") + 1));

/** Learns the secrets in a text. */
export function learn(text: string): void {
  for (const secret of secretsIn(text)) learnWhole(secret);
}

function learnWhole(secret: string): void {
  if (secret.includes(DOCUMENTED))
    throw new Error("A test uses the secret of the API's document: use another one");
  pieces.add(secret);
}

/** Records a text for the check: a log line comes before the answer with the secret. */
export function captureText(where: string, text: string): void {
  captured.push({ where, text });
}

let isConsoleCaptured = false;

/** Captures what is printed from now on; only once, although every test file that shares a Worker calls it. */
export function captureConsole(): void {
  if (isConsoleCaptured) return;
  isConsoleCaptured = true;
  for (const way of ["log", "info", "warn", "error", "debug"] as const) {
    const write = console[way];
    console[way] = (...args: unknown[]) => {
      captureText("The console", args.map(String).join(" "));
      write(...args);
    };
  }
}

/** The texts captured since the last call that contain a piece of a secret. */
export function takeLeaks(): string[] {
  return captured.splice(0).flatMap(({ where, text }) => {
    const piece = pieces.in(text);
    return piece === undefined ? [] : [`${where} contains ${piece}…, a piece of a secret`];
  });
}

type App = { fetch: (request: Request, ...rest: never[]) => Response | Promise<Response> };

/** Captures the answers of an app. */
export function withLeakCheck<T extends App>(app: T): T {
  const fetch = app.fetch;
  app.fetch = async (request, ...rest) => {
    learn(request.headers.get("authorization") ?? "");
    const response = await fetch(request, ...rest);
    const { pathname, searchParams } = new URL(request.url);
    const asked = searchParams.get("secrets") === "true" ? "?secrets=true" : "";
    const route = `${request.method} ${pathname}${asked}`;
    const text = await bodyText(response.clone());
    const headers = [...response.headers].map(([name, value]) => `${name}: ${value}`).join("\n");
    captureText(route, `${headers}\n${response.ok ? withoutShown(route, text) : text}`);
    return response;
  };
  return app;
}

function withoutShown(called: string, text: string): string {
  const shown = SHOWN.find(({ route }) => route.test(called));
  if (!shown) return text;
  return text.replace(shown.place, (_, secret: string) => {
    learn(secret);
    return "";
  });
}
