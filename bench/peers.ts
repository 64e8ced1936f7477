/**
 * `npm run bench:peers`: compares Breakwater with the servers of other senders, with the same client, events and
 * receivers. The servers run already; Breakwater is started on the local runtime, and a deployment can be compared too.
 */
import { type Flags, runScript, UsageError } from "../tools/flags.ts";
import { compare, type Entrant } from "./peers/compare.ts";
import { deployedBreakwater, outpost, type Server, svix } from "./peers/servers.ts";
import { save } from "./results.ts";
import { breakwater } from "./throughput/breakwater.ts";
import { type Outside, openEndpoints } from "./throughput/endpoints.ts";
import type { Shape } from "./throughput/load.ts";
import { pidsOf } from "./throughput/processes.ts";
import { report } from "./throughput/report.ts";

const HELP = `npm run bench:peers -- [flags]    Compares Breakwater with other senders' servers under the same load.

  --svix URL, --svix-token TOKEN           a Svix server, and a token of an organization
  --outpost URL, --outpost-key KEY         an Outpost that delivers any topic, and its API key
  --breakwater URL, --key KEY              a deployment of Breakwater, beside the local one
  --no-local                               leave out Breakwater on the local runtime
  --svix-processes NAME,…                  ids or names of the server's processes and its databases', to measure
  --outpost-processes NAME,…               their CPU and memory
  --svix-note TEXT, --outpost-note TEXT, --note TEXT     version and settings, shown beside the figures
  --receiver URL, --receiver-port PORT     this machine's address for remote senders, and the port it leads to
  --events N, --endpoints N                5000 events, to 20 endpoints
  --connections N, --rounds N              over 32 connections, in 6 rounds
  --save                                   save the figures for the documentation
  -h, --help                               show this help

Objects that are created at a server are removed at the end. A server's protection against private networks may refuse
addresses on this machine: Svix needs SVIX_WHITELIST_SUBNETS='["127.0.0.1/32"]' for the receivers here.`;

type Values = Flags["values"];
type Plan = Readonly<{ entrants: Entrant[]; endpoints: number; rounds: number; outside?: Outside }>;

function planOf(values: Values): Plan {
  const events = count(values, "events", 5_000);
  const connections = count(values, "connections", 32);
  const single: Shape = { name: "One by one", events, perPost: 1, connections };
  // Whole batches only, and at most one connection for each.
  const batched = Math.max(1, Math.floor(events / 100));
  const most = Math.min(connections, batched);
  const batches: Shape = { name: "In batches", events: batched * 100, perPost: 100, connections: most };
  const both = [single, batches];
  const deployed = server(values, "breakwater", "key", undefined, "note");
  const svixServer = server(values, "svix", "svix-token", "svix-processes", "svix-note");
  const outpostServer = server(values, "outpost", "outpost-key", "outpost-processes", "outpost-note");
  const entrants = [
    ...(values.local === false ? [] : [{ contender: breakwater, shapes: both }]),
    ...(deployed ? [{ contender: deployedBreakwater(deployed), shapes: both }] : []),
    ...(svixServer ? [{ contender: svix(svixServer), shapes: [single] }] : []),
    ...(outpostServer ? [{ contender: outpost(outpostServer), shapes: [single] }] : []),
  ];
  if (entrants.length === 0) throw new UsageError("There is nothing to measure");
  const { receiver } = values;
  if ((receiver === undefined) !== (values["receiver-port"] === undefined))
    throw new UsageError("--receiver and --receiver-port need each other");
  if (deployed && receiver === undefined)
    throw new UsageError("A deployment cannot reach this machine without --receiver");
  const port = count(values, "receiver-port", 0);
  return {
    entrants,
    endpoints: count(values, "endpoints", 20),
    rounds: count(values, "rounds", 6),
    ...(typeof receiver === "string" && { outside: { url: receiver.replace(/\/$/, ""), port } }),
  };
}

function server(
  values: Values,
  url: string,
  token: string,
  processes: string | undefined,
  note: string,
): Server | undefined {
  const [at, secret] = [values[url], values[token]];
  if (at === undefined && secret === undefined) return undefined;
  if (typeof at !== "string" || !URL.canParse(at) || typeof secret !== "string")
    throw new UsageError(`--${url} needs a URL, and --${token}`);
  const programs = String((processes && values[processes]) ?? "").split(",");
  const pids = programs.filter((program) => program !== "").flatMap(pidsFound);
  return { url: at, token: secret, pids, note: String(values[note] ?? "") };
}

function pidsFound(program: string): number[] {
  const pids = pidsOf(program);
  if (pids.length === 0) throw new UsageError(`No process is called ${program}`);
  return pids;
}

function count(values: Values, name: string, fallback: number): number {
  const given = values[name];
  if (given === undefined) return fallback;
  if (typeof given !== "string" || !/^[1-9]\d{0,6}$/.test(given))
    throw new UsageError(`--${name} needs a number from 1 on`);
  return Number(given);
}

async function script({ values }: Flags): Promise<number> {
  const { entrants, endpoints, rounds, outside } = planOf(values);
  const tables = await compare(entrants, await openEndpoints(endpoints, outside), rounds, console.log);
  console.log(`\n${report(tables)}`);
  const shown = ["svix", "outpost", "breakwater"].filter((name) => values[name] !== undefined);
  if (values.save)
    save(
      "peers",
      { endpoints, tables },
      shown.flatMap((name) => [`--${name}`, "…"]),
    );
  return 0;
}

process.exit(await runScript(HELP, script));
