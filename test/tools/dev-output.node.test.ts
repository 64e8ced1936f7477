/** `npm run dev` prints what wrangler says after the address, and only what helps. */
import { PassThrough } from "node:stream";
import { expect, test, vi } from "vitest";
import { heldOutput, lineFilter } from "../../tools/dev-output.ts";

const TABLE = "Your Worker has access to the following bindings:\nBinding   Resource\nenv.DB    D1\n\n";
const RELOAD = `⎔ Reloading local server...\n⎔ Connection status updated\n${TABLE}⎔ Local server updated and ready\n`;
const CRON = `\u001b[33m▲ [WARNING]\u001b[0m Scheduled Workers are not automatically triggered during local development.

  For more details, see \u001b[4mhttps://developers.cloudflare.com/x#test-cron-triggers-locally\u001b[0m


`;

test.each([
  ["", ""],
  ["a\n\nb\n", "a\n\nb\n"],
  [`a\n${TABLE}b\n`, "a\nb\n"],
  [`a\n${TABLE}b\n\nc\n${TABLE}\nd\n`, "a\nb\n\nc\nd\n"],
  [`${TABLE}${TABLE}`, ""],
  [
    `${RELOAD}GET /\n${RELOAD}`,
    "⎔ Local server updated and ready\nGET /\n⎔ Local server updated and ready\n",
  ],
  [`${CRON}\u001b[31mX [ERROR]\u001b[0m b\n`, "\u001b[31mX [ERROR]\u001b[0m b\n"],
  ["\u001b[32m[wrangler:info]\u001b[39m Ready on http://localhost:8787\nReady on time\n", "Ready on time\n"],
])("of %j is printed %j", (given, expected) => {
  expect(given.match(/.*\n/g)?.filter(lineFilter()).join("") ?? "").toBe(expected);
});

test("output is held until it is released, and then passed on line by line", async () => {
  const stream = new PassThrough();
  let printed = "";
  const release = heldOutput(stream, {
    write(text: string) {
      printed += text;
      return true;
    },
  });
  stream.write(`${TABLE}rea`);
  stream.write(`dy\n${TABLE}`);
  await new Promise(setImmediate);
  expect(printed).toBe("");
  release();
  release();
  expect(printed).toBe("ready\n");
  stream.end(`${RELOAD}request`);
  await vi.waitFor(() => expect(printed).toBe("ready\n⎔ Local server updated and ready\nrequest\n"));
});
