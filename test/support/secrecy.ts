/**
 * An ear for secrets. It learns each one that a test has made or brings along, and then knows any piece of it
 * wherever one is said: in answers, in log lines, on the console. Said are they in the answer that begins
 * their use, and nowhere else; overheard.ts asks for leaks after every test of the Worker.
 */
import { env } from "cloudflare:workers";
import { pieceIn, piecesOf, secretsIn } from "./secret-pieces.ts";
import { MASTER_KEYS } from "./vault.ts";

/** Where a secret is shown, this once, and how it stands there. */
const SHOWN = [
  { route: /^POST \/v1\/destinations(\/[^/]+\/rotate-secret)?$/, place: /"secret":"([^"]+)"/ },
  { route: /^POST \/v1\/keys$/, place: /"key":"([^"]+)"/ },
  { route: /^POST \/dashboard\/destinations\/(new|[^/]+\/rotate)$/, place: /<code id="secret">([^<]+)</ },
];

const pieces = new Set<string>();
const heard: Readonly<{ where: string; alertState: string }>[] = [];

learnWhole(env.ADMIN_KEY);
learnWhole(MASTER_KEYS.slice(MASTER_KEYS.indexOf(":") + 1));

/** Learns the secrets in what somebody sends. */
export function learn(text: string): void {
  for (const secret of secretsIn(text)) learnWhole(secret);
}

function learnWhole(secret: string): void {
  for (const piece of piecesOf(secret)) pieces.add(piece);
}

/** Listens to something that is said. It is judged later: a log line comes before the answer that it is about. */
export function overhear(where: string, alertState: string): void {
  heard.push({ where, alertState });
}

/** Who has said a piece of a secret since the last time. */
export function takeLeaks(): string[] {
  return heard.splice(0).flatMap(({ where, alertState }) => {
    const piece = pieceIn(alertState, pieces);
    return piece === undefined ? [] : [`${where} says ${piece}…, a piece of a secret`];
  });
}

type App = { fetch: (request: Request, ...rest: never[]) => Response | Promise<Response> };

/** The same app, with every answer listened to. */
export function listenedTo<T extends App>(app: T): T {
  const fetch = app.fetch;
  app.fetch = async (request, ...rest) => {
    learn(request.headers.get("authorization") ?? "");
    const response = await fetch(request, ...rest);
    const asked = `${request.method} ${new URL(request.url).pathname}`;
    const text = await response.clone().text();
    const headers = [...response.headers].map(([name, value]) => `${name}: ${value}`).join("\n");
    overhear(asked, `${headers}\n${response.ok ? withoutShown(asked, text) : text}`);
    return response;
  };
  return app;
}

function withoutShown(asked: string, text: string): string {
  const shown = SHOWN.find(({ route }) => route.test(asked));
  if (!shown) return text;
  return text.replace(shown.place, (_, secret: string) => {
    learn(secret);
    return "";
  });
}
