import { describe, expect, it } from "vitest";
import { targetFault } from "../../src/delivery/url-guard.ts";
import { accepted, refused } from "../support/targets.ts";

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
    ["https://redis/", "points to the inner name redis"],
    ["https://example.com:6379/", "uses port 6379"],
    ["https://user@example.com/", "contains credentials"],
    ["https://example.com/#a", "has a fragment"],
    ["ftp://example.com/", "is not an http(s) URL"],
    ["https://256.0.0.1/", "cannot be parsed"],
  ])("says of %s that it %s", (url, fault) => {
    expect(targetFault(url, false)).toContain(fault);
  });

  it("accepts 2048 characters and not one more, also when parsing makes the URL longer", () => {
    const ofLength = (n: number) => `https://example.com/${"a".repeat(n - 20)}`;
    expect(targetFault(ofLength(2048), true)).toBeUndefined();
    expect(targetFault(ofLength(2049), true)).toContain("2049 characters");
    expect(targetFault(`https://example.com/${"a/../".repeat(500)}`, true)).toContain("2520 characters");
    expect(targetFault(`https://example.com/${"ü".repeat(400)}`, true)).toContain("characters long");
  });

  describe("where private addresses are allowed", () => {
    it.each([
      ["http://127.0.0.1:8787/hook"],
      ["http://localhost:6379/"],
      ["http://receiver/"],
      ["https://10.0.0.1/"],
      ["http://[::1]:22/"],
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
        /^The URL points to \S+, a link-local address or a metadata service; expected /,
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
