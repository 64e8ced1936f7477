import { randomBytes } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { type Command, CommandLineError } from "../command.ts";
import { print } from "../output.ts";

export const initCommand: Command = {
  name: "init",
  args: "<folder>",
  summary: "Make a folder from which you deploy Breakwater to Cloudflare",
  details:
    "The folder has the Worker, its migrations, wrangler.toml, new secrets, and a first destination to apply. In a folder that it\n" +
    "made before, it replaces the Worker and the migrations with those of this version, and leaves everything else.",
  options: {
    name: {
      value: "name",
      help: "The name of the Worker, its database and its queues; `breakwater` by default",
    },
  },
  async run(call) {
    const folder = resolve(call.arg);
    const name = call.text("name") ?? "breakwater";
    if (!/^[a-z][a-z0-9-]{0,39}$/.test(name))
      throw new CommandLineError(
        `--name is ${name}; expected up to 40 lower-case letters, digits and hyphens`,
      );
    const deployment = fileURLToPath(new URL("deployment", import.meta.url).href);
    if (!existsSync(deployment))
      throw new CommandLineError(
        "init is in the published package only: npx breakwater-client init <folder>",
      );
    const isUpgrade = existsSync(join(folder, "breakwater/worker.js"));
    if (!isUpgrade && existsSync(folder) && readdirSync(folder).length > 0)
      throw new CommandLineError(`${call.arg} is not empty, and has no Breakwater`);
    for (const file of ["worker.js", "deploy.js", "licenses.txt"])
      cpSync(join(deployment, file), join(folder, "breakwater", file));
    cpSync(join(deployment, "migrations"), join(folder, "migrations"), { recursive: true });
    if (!isUpgrade) writeNewFolder(folder, deployment, name);
    print(isUpgrade ? UPGRADED : `Next:\n\n${NEXT.replace("FOLDER", call.arg)}`);
  },
};

const UPGRADED = `breakwater/ and migrations/ are of this version. Next:

  npm run deploy -- --dry-run    # names what wrangler.toml lacks
  npm run deploy`;

const NEXT = `  cd FOLDER && npm install
  npx wrangler login
  npm run deploy -- --secrets-file .secrets       # prints the address
  sed -n 's/^ADMIN_KEY=//p' .secrets | npx breakwater login https://<address>
  npx breakwater apply -f breakwater.yaml         # shows the first destination; edit its URL
  npx breakwater apply -f breakwater.yaml --yes --save-secrets .secrets.created
  npx breakwater events post order.created --tenant acme --data '{"id": 42}'

Queues and Durable Objects need the Workers Paid plan. Store MASTER_KEYS of .secrets outside of Cloudflare too: without it no
stored secret can be decrypted.`;

const FIRST_DESTINATION = `# The configuration that \`breakwater apply\` sets up. Every field of the API may be set here.
event_types:
  order.created: { description: An order was placed }
tenants:
  acme:
    destinations:
      orders:
        url: https://example.com/webhooks
        event_types: [order.*]
`;

function writeNewFolder(folder: string, deployment: string, name: string): void {
  mkdirSync(folder, { recursive: true });
  const write = (file: string, text: string, mode = 0o644) =>
    writeFileSync(join(folder, file), text, { mode });
  const random = () => randomBytes(32).toString("base64");
  write(".secrets", `ADMIN_KEY=${random()}\nMASTER_KEYS=k1:${random()}\n`, 0o600);
  write(".gitignore", "node_modules/\n.wrangler/\n.dev.vars\n.secrets*\n");
  write("breakwater.yaml", FIRST_DESTINATION);
  write("wrangler.toml", configurationOf(readFileSync(join(deployment, "wrangler.toml"), "utf8"), name));
  write(
    "README.md",
    `# Breakwater\n\n\`\`\`sh\n${NEXT.replace("FOLDER", ".").replace(/\n\n/, "\n```\n\n")}\n`,
  );
  cpSync(join(deployment, "package.json"), join(folder, "package.json"));
}

/** The configuration of the repository, with the Worker's file and other names. */
function configurationOf(text: string, name: string): string {
  return text
    .replace(/^main = .*$/m, 'main = "breakwater/worker.js"')
    .replace(/^(\s*(?:name|database_name|queue|dead_letter_queue) = )"breakwater/gm, `$1"${name}`);
}
