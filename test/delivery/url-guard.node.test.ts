import fc from "fast-check";
import ipaddr from "ipaddr.js";
import { describe, expect, it, vi } from "vitest";
import { isAddress, targetFault } from "../../src/delivery/url-guard.ts";
import { accepted, blockedPorts, publicAddresses, refused } from "../support/targets.ts";

const corpus = Object.entries(refused).flatMap(([what, urls]) => urls.map((url) => [what, url] as const));

describe("targetFault", () => {
  it("is tested against a large corpus", () => {
    expect(corpus.length).toBeGreaterThanOrEqual(300);
    expect(accepted.length).toBeGreaterThanOrEqual(50);
    expect(new Set(corpus.map(([, url]) => url)).size).toBe(corpus.length);
  });

  it.each(corpus)("refuses %s: %j", (_what, url) => {
    expect(targetFault(url, false)).toMatch(/^The URL .+; expected .+\.$/);
  });

  it.each(accepted.map((url) => [url]))("accepts %j", (url) => {
    expect(targetFault(url, false)).toBeUndefined();
  });

  it.each([
    ["http://example.com/", "is not encrypted"],
    ["https://10.0.0.1/", "points to 10.0.0.1"],
    ["https://167772161/", "points to 10.0.0.1"],
    ["https://redis/", "points to the private name redis"],
    ["https://example.com:6379/", "uses port 6379"],
    ["https://user@example.com/", "contains credentials"],
    ["https://example.com/#a", "has a fragment"],
    ["ftp://example.com/", "is not an http(s) URL"],
    ["https://256.0.0.1/", "cannot be parsed"],
    ["https://8.8.8.8/", "points to the IP address 8.8.8.8"],
    ["https://[2606:4700:4700::1111]/", "points to the IP address 2606:4700:4700::1111"],
    [
      "https://example.com:22/",
      "uses port 22, which the Fetch standard blocks; expected a port of an HTTP server",
    ],
    ["https://example.com:5060/", "uses port 5060, which the Fetch standard blocks"],
    ["https://example.com:81/", "uses port 81; expected 443, 80, or a port from 1024 on"],
  ])("says of %s that it %s", (url, fault) => {
    expect(targetFault(url, false)).toContain(fault);
  });

  it("accepts 2048 characters and not one more, also when parsing makes the URL longer", () => {
    const ofLength = (n: number) => `https://example.com/${"a".repeat(n - 20)}`;
    expect(targetFault(ofLength(2048), true)).toBeUndefined();
    expect(targetFault(ofLength(2049), true)).toBe("The URL is 2049 characters long; expected at most 2048.");
    expect(targetFault(`https://example.com/${"a/../".repeat(500)}`, true)).toContain("2520 characters");
    expect(targetFault(`https://example.com/${"ü".repeat(400)}`, true)).toContain("characters long");
  });

  it("distinguishes public addresses, which no Worker can call, from those that are not public", () => {
    for (const url of publicAddresses)
      expect(targetFault(url, false), url).toMatch(/points to the IP address \S+; expected a host name/);
    const mixed = ["public addresses, which a Worker cannot call", "inner ports"];
    const others = Object.entries(refused).flatMap(([what, urls]) => (mixed.includes(what) ? [] : urls));
    for (const url of others) expect(targetFault(url, false), url).not.toContain("the IP address");
  });

  describe("for the hosts of the deployment itself", () => {
    it.each([
      ["https://breakwater.example.com/v1/events", ["breakwater.example.com"]],
      ["https://BREAKWATER.example.com./", ["breakwater.example.com"]],
      ["https://breakwater.example.com:8443/", ["other.example.com", "breakwater.example.com"]],
      ["https://breakwater.example.com/", ["breakwater.example.com."]],
      ["https://breakwater.example.com/", ["breakwater.example.com:443"]],
    ])("refuses %s where %j are its own", (url, own) => {
      expect(targetFault(url, false, own)).toBe(
        "The URL points to breakwater.example.com, this deployment itself; " +
          "expected another host: deliveries would loop.",
      );
    });

    it.each([
      ["http://localhost:8787/", ["localhost:8787"]],
      ["http://localhost/", ["localhost:80"]],
      ["http://[::1]:8787/", ["[::1]:8787"]],
      ["http://localhost:9000/", ["localhost"]],
    ])("refuses %s of a local stack at %j", (url, own) => {
      expect(targetFault(url, true, own)).toContain("this deployment itself");
    });

    it.each([
      ["https://example.com/", false, ["breakwater.example.com"]],
      ["https://my-breakwater.example.com/", false, ["breakwater.example.com"]],
      ["https://a.breakwater.example.com/", false, ["breakwater.example.com"]],
      ["https://breakwater.example.com:8443/", false, ["breakwater.example.com:443"]],
      ["http://localhost:8788/", true, ["localhost:8787"]],
      ["http://localhost:8788/", true, ["localhost:80"]],
    ])("accepts %s, private ones allowed: %s, where %j are its own", (url, allowPrivate, own) => {
      expect(targetFault(url, allowPrivate, own)).toBeUndefined();
    });
  });

  describe("if private addresses are allowed", () => {
    it.each([
      1,
      22,
      25,
      443 + 22,
      995,
      2049,
      6000,
      6667,
      ...blockedPorts,
    ])("still refuses port %i, which the Fetch standard blocks", (port) => {
      for (const host of ["localhost", "127.0.0.1", "example.com"])
        expect(targetFault(`http://${host}:${port}/`, true)).toBe(
          `The URL uses port ${port}, which the Fetch standard blocks; ` +
            "expected a port of an HTTP server, such as 443.",
        );
    });

    it.each([
      ["http://127.0.0.1:8787/hook"],
      ["http://localhost:6379/"],
      ["http://receiver/"],
      ["https://10.0.0.1/"],
      ["http://[::1]:81/"],
      ["http://8.8.8.8/"],
      ["http://example.com/"],
      ["https://db.internal/"],
      ["http://169.253.255.255/"],
      ["http://169.255.0.1/"],
      ["http://100.100.100.201/"],
      ["http://192.0.0.193/"],
      ["http://[fd00:ec2::253]/"],
      ["http://[fec0::1]/"],
      ["http://[::ffff:10.0.0.1]/"],
      ["http://[64:ff9b::10.0.0.1]/"],
      ["http://metadata.example.com/"],
      ["http://my-metadata:8080/"],
    ])("accepts %s", (url) => {
      expect(targetFault(url, true)).toBeUndefined();
    });

    it.each(
      refused["link-local and metadata services"]?.map((url) => [url.replace(/^https:/i, "http:")]) ?? [],
    )("still refuses to lead to a machine's metadata service: %s", (url) => {
      expect(targetFault(url, true)).toMatch(
        /^The URL points to \S+, a link-local address or a metadata service; expected another host, even where private/,
      );
    });

    it.each([
      ["http://user:pass@localhost/"],
      ["http://@localhost/"],
      ["ftp://localhost/"],
      ["file:///etc/passwd"],
      ["http://localhost/#x"],
      ["http://localhost/ x"],
      ["http://"],
      ["http://256.0.0.1/"],
    ])("still refuses %s", (url) => {
      expect(targetFault(url, true)).toBeDefined();
    });
  });
});

describe("isAddress", () => {
  const part = fc.oneof(
    fc.nat(0x1_ff).map(String),
    fc.nat(0xffff_ffff).map((n) => `0${n.toString(8)}`),
    fc.nat(0xffff_ffff).map((n) => `0x${n.toString(16)}`),
    fc.nat(0xffff_ffff).map((n) => `0X${n.toString(16).toUpperCase()}`),
  );
  const written = fc.oneof(
    fc.array(part, { minLength: 1, maxLength: 5 }).map((parts) => parts.join(".")),
    fc.ipV4Extended(),
    fc.ipV6(),
    fc.tuple(fc.ipV6(), fc.string()).map(([address, zone]) => `${address}%${zone}`),
    fc.string({ unit: fc.constantFrom(..."0123456789abcdefxXghz.:%-_ \n/[]") }),
    fc.domain(),
    fc.string(),
  );

  it("agrees with the library about addresses in every spelling and about names", () => {
    fc.assert(
      fc.property(written, (host) => isAddress(host) === ipaddr.isValid(host)),
      { numRuns: 5_000 },
    );
  });

  it.each([
    "hooks.example.com",
    "dead.beef.example",
    "f00d.g",
    "feed.fax-1",
    "x.y",
  ])("does not call the library for %s, for which it would throw and catch an error", (name) => {
    const isValid = vi.spyOn(ipaddr, "isValid");
    expect(isAddress(name)).toBe(false);
    expect(isValid).not.toHaveBeenCalled();
    isValid.mockRestore();
  });
});
