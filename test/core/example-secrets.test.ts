import { expect, test } from "vitest";
import { mayUseExampleSecrets } from "../../src/core/example-secrets.ts";

const hostOf = (host: string) => new URL(`https://${host}/`).hostname;

test.each([
  "localhost",
  "LOCALHOST",
  "localhost.",
  "breakwater.localhost",
  "127.0.0.1",
  "127.1",
  "0.0.0.0",
  "[::1]",
  "[0:0:0:0:0:0:0:1]",
  "10.0.0.7",
  "172.16.0.1",
  "172.31.255.1",
  "192.168.1.20",
  "[fd12:3456::1]",
  "breakwater.test",
  "laptop.local",
  "host.docker.internal",
])("the example secrets may be used at %s", (host) => {
  expect(mayUseExampleSecrets(hostOf(host))).toBe(true);
});

test.each([
  "breakwater.acme.workers.dev",
  "hooks.example.com",
  "localhost.example.com",
  "notlocalhost",
  "mylocal",
  "127.0.0.1.nip.io",
  "10.example.com",
  "1.1.1.1",
  "11.0.0.1",
  "172.32.0.1",
  "172.15.0.1",
  "192.169.0.1",
  "[2606:4700::1111]",
  "[fe80::1]",
])("the example secrets may not be used at %s", (host) => {
  expect(mayUseExampleSecrets(hostOf(host))).toBe(false);
});
