/** The command lines of the scripts for developers. */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { flagsIn, readFlags } from "../../tools/flags.ts";
import { listenFault } from "../../tools/ports.ts";
import { projectRoot } from "../../tools/wrangler.ts";

const own = { strict: { type: "boolean" }, latency: { type: "string" } } as const;
const passedOn = { port: { type: "string" } } as const;
const read = (...args: string[]) => readFlags(args, own, passedOn);

test("a script's own flags are read, and those of the program beneath are passed on unchanged", () => {
  const { values, others } = read("--strict", "--port", "1", "--latency=7", "--port=2");
  expect(values).toEqual({ strict: true, latency: "7", port: "2" });
  expect(others).toEqual(["--port", "1", "--port", "2"]);
});

test("a flag that is on by default can be turned off", () => {
  expect(read("--no-strict").values).toEqual({ strict: false });
});

test.each([
  [["--stict"], "Unknown flag: --stict"],
  [["--no-latency"], "Unknown flag: --no-latency"],
  [["-x"], "Unknown flag: -x"],
  [["--port"], "--port needs a value"],
  [["--strict=yes"], "--strict takes no value"],
  [["8787"], "Unexpected argument: 8787"],
])("the mistake in %j is reported: %s", (args, message) => {
  expect(() => read(...args)).toThrow(message);
});

test("a help text defines the flags, and a capital word after a flag its value", () => {
  const help = `npm run thing -- --url URL [flags]    Does a thing.
  --only NAME,…     these alone
  --list            print them, as --all would
  --no-strict       not under quotas
  -c, --config FILE, -e, --env NAME   where it is
  -h, --help        this`;
  const [text, on] = [{ type: "string" }, { type: "boolean" }];
  const short = {
    config: { ...text, short: "c" },
    env: { ...text, short: "e" },
    help: { ...on, short: "h" },
  };
  expect(flagsIn(help)).toEqual({ only: text, list: on, strict: on, ...short });
});

describe.each([
  ["dev", "dev.ts", "--persist-to"],
  ["demo", "demo.ts", "--keep"],
  ["receiver", "receiver-cli.ts", "--retry-after"],
])("npm run %s", (script, file, flag) => {
  const run = (...args: string[]) =>
    promisify(execFile)(process.execPath, [`tools/${file}`, ...args], { cwd: projectRoot });

  test.each(["--help", "-h"])("explains its flags for %s, and starts nothing", async (help) => {
    const { stdout } = await run(help);
    expect(stdout).toContain(`npm run ${script} -- [flags]`);
    expect(stdout).toContain(flag);
  });

  test("names an unknown flag and the known ones, and starts nothing", async () => {
    const failure = await run("--bogus").catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: 2, stderr: expect.stringContaining("Unknown flag: --bogus") });
    expect(failure).toMatchObject({ stderr: expect.stringContaining(flag) });
  });
});

describe("the port of npm run dev", () => {
  const dev = (...args: string[]) =>
    promisify(execFile)(process.execPath, ["tools/dev.ts", ...args], { cwd: projectRoot }).catch(
      (error: unknown) => error,
    );

  test.each(["abc", "65536", "-1", "1.5", ""])("is no %j", async (port) => {
    expect(await dev(`--port=${port}`)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(`--port is ${port}; expected a port, 0 to 65535`),
    });
  });

  test("is refused if it is in use, with a remedy, and nothing is started", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const failure = await dev("--port", String(port), "--ip", "127.0.0.1");
    expect(failure).toMatchObject({ code: 1, stdout: "" });
    expect(failure).toMatchObject({
      stderr: expect.stringMatching(new RegExp(`^Breakwater cannot listen on port ${port} .*--persist-to`)),
    });
    expect(await listenFault("localhost", port)).toBe("EADDRINUSE");
    server.close();
    await once(server, "close");
    expect(await listenFault("localhost", port)).toBeUndefined();
  });
});
