import { spawn } from "node:child_process";
import {
  breakwaterClient,
  dataOf,
  type NewApiKey,
  type NewPortalLink,
  ProblemError,
} from "../../src/breakwater.ts";
import { type Command, CommandLineError } from "../command.ts";
import { byId, present } from "../input.ts";
import { filter, listCommand, print, printObject, printTable, remark } from "../output.ts";
import {
  checkedKey,
  originOf,
  profileName,
  profilesFile,
  readProfiles,
  secretFrom,
  writeProfiles,
} from "../profiles.ts";

const SCOPES = ["events:write", "read", "poll", "admin"];

export const accessCommands: readonly Command[] = [
  {
    name: "login",
    args: "[url]",
    summary: "Save a deployment's address and a key as a profile",
    details:
      "The key is read from $BREAKWATER_KEY, from standard input, or from a prompt. It is stored in a file that only you may\n" +
      "read. The address is that of the profile, or $BREAKWATER_URL, if it is left out.",
    async run(call) {
      const name = profileName(call.text("profile"));
      const profiles = readProfiles();
      const given = call.arg || process.env.BREAKWATER_URL || profiles[name]?.url;
      if (!given) throw new CommandLineError("login needs the address of the deployment");
      const url = originOf(given);
      const key = checkedKey(await secretFrom("BREAKWATER_KEY", `API key of ${url}`));
      const { error, response } = await breakwaterClient({ url, key }).GET("/v1/events", {
        params: { query: { limit: "1" } },
      });
      // A key that may only post events is valid too.
      if (error && response.status !== 403) throw new ProblemError(error, response);
      writeProfiles({ ...profiles, [name]: { url, key } });
      remark(`Profile ${name} is saved in ${profilesFile()}`);
    },
  },
  {
    name: "logout",
    summary: "Forget a profile",
    async run(call) {
      const name = profileName(call.text("profile"));
      const profiles = readProfiles();
      const { [name]: _, ...others } = profiles;
      if (!Object.hasOwn(profiles, name)) throw new CommandLineError(`There is no profile ${name}`);
      writeProfiles(others);
      remark(`Profile ${name} is removed. Its key is still valid: \`breakwater keys revoke\` ends it`);
    },
  },
  {
    name: "profiles",
    summary: "List the profiles",
    async run(call) {
      const profiles = Object.entries(readProfiles()).map(([name, { url }]) => ({ name, url }));
      printTable(call, profiles, { name: ({ name }) => name, url: ({ url }) => url });
    },
  },
  listCommand(
    "/v1/keys",
    {
      name: "keys list",
      summary: "List API keys",
      options: { tenant: filter("tenant", "keys of this tenant", "name") },
    },
    {
      id: ({ id }) => id,
      name: ({ name }) => name,
      tenant: ({ tenant }) => tenant,
      scopes: ({ scopes }) => scopes.join(" "),
      "last used": ({ last_used_at }) => last_used_at,
      expires: ({ expires_at }) => expires_at,
    },
  ),
  {
    name: "keys create",
    args: "[name]",
    summary: "Create an API key, and show it once",
    options: {
      scope: { value: "scope", field: "scopes", isList: true, choices: SCOPES, help: "What it may do" },
      tenant: { value: "name", field: "tenant", help: "The only tenant that it can access" },
      expires: { value: "time", field: "expires_at", help: "When it expires (ISO 8601)" },
    },
    async run(call) {
      call.needed("scope");
      const body = { ...call.fields<NewApiKey>(), ...present({ name: call.args[0] }) } as NewApiKey;
      return printObject(call, dataOf(await call.api.POST("/v1/keys", { body })));
    },
  },
  {
    name: "keys revoke",
    args: "<id>",
    summary: "Revoke an API key",
    async run(call) {
      dataOf(await call.api.DELETE("/v1/keys/{id}", byId(call.arg)));
      remark(`Key ${call.arg} is revoked`);
    },
  },
  {
    name: "portal-link",
    args: "<tenant>",
    summary: "Create a link that opens a tenant's portal once",
    options: {
      "expires-in": {
        ...{ value: "seconds", field: "expires_in_s", isNumber: true },
        help: "How long it can be opened; an hour by default",
      },
      "read-only": { field: "read_only", help: "The visitor can change nothing" },
      language: {
        ...{ value: "language", field: "language", choices: ["en", "de"] },
        help: "The language of the pages",
      },
    },
    async run(call) {
      const body = { tenant: call.arg, ...call.fields<NewPortalLink>() };
      const link = dataOf(await call.api.POST("/v1/portal-links", { body }));
      if (call.has("json")) printObject(call, link);
      else print(link.url);
    },
  },
  {
    name: "open",
    args: "[id]",
    summary: "Print the dashboard's address of an event, a delivery or a destination, and open it",
    details: "It is opened only from a terminal, and not with --print.",
    options: { print: { help: "Print the address only" } },
    async run(call) {
      const address = `${call.url}${dashboardPath(call.arg)}`;
      print(call.has("json") ? JSON.stringify({ url: address }) : address);
      if (process.stdout.isTTY && !call.has("print") && !call.has("json")) openInBrowser(address);
    },
  },
];

/** @throws CommandLineError for an id that has no page */
function dashboardPath(id: string): string {
  if (id === "") return "/dashboard";
  const [, kind, rest = ""] = /^(evt|dst|dlv)_([0-9a-z_]+)$/.exec(id) ?? [];
  if (kind === "evt") return `/dashboard/events/${id}`;
  if (kind === "dst") return `/dashboard/destinations/${id}`;
  // A delivery is shown on the page of its event, whose id is the first part of its own.
  if (kind === "dlv") return `/dashboard/events/evt_${rest.split("_")[0]}#${id}`;
  throw new CommandLineError(`${id} is not the id of an event, a delivery or a destination`);
}

function openInBrowser(address: string): void {
  const [command, ...args] =
    process.platform === "darwin"
      ? ["open"]
      : process.platform === "win32"
        ? ["rundll32", "url.dll,FileProtocolHandler"]
        : ["xdg-open"];
  const opener = spawn(command ?? "", [...args, address], { stdio: "ignore", detached: true });
  // Without such a program, printing the address must suffice.
  opener.on("error", () => {});
  opener.unref();
}
