/** The sender's name, logo and colour: what is taken, and that text in the colour can be read. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  accentColours,
  brandingOf,
  brandShape,
  contrastOf,
  isHttpsUrl,
} from "../../src/core/portal-branding.ts";
import { zodOf } from "../../src/core/zod-of.ts";

const portalBranding = zodOf(brandShape);

const base64 = (bytes: readonly number[]) => Buffer.from(bytes).toString("base64");
const riff = [0x52, 0x49, 0x46, 0x46, 1, 2, 3, 4, 0x57, 0x45, 0x42, 0x50];
const images = {
  png: `data:image/png;base64,${base64([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 1])}`,
  jpeg: `data:image/jpeg;base64,${base64([0xff, 0xd8, 0xff, 0xe0, 0, 16])}`,
  gif: `data:image/gif;base64,${base64([...Buffer.from("GIF89a")])}`,
  webp: `data:image/webp;base64,${base64(riff)}`,
};

test("impossible branding of a sender is refused with the possible values", () => {
  const name = "expected 1 to 80 characters without control characters";
  const logo =
    "expected an https URL of at most 2000 characters, or a PNG, JPEG, GIF or WebP image as data: URL in base64 of at most 32768 characters";
  const accent = "expected a colour as #rrggbb, such as #0b6a72";
  for (const [given, expected] of [
    [{ name: 7 }, name],
    [{ name: " " }, name],
    [{ name: "x".repeat(81) }, name],
    [{ logo: 7 }, logo],
    [{ logo: "logo.png" }, logo],
    [{ accent: 7 }, accent],
    [{ accent: "red" }, accent],
    [{ font: "Arial" }, "unknown font: expected an object of name, logo, accent"],
  ] as const)
    expect(portalBranding.safeParse(given).error?.issues.map(({ message }) => message)).toEqual([expected]);
  expect(portalBranding.safeParse({ name: "x".repeat(80), logo: null }).success).toBe(true);
});

describe("a logo", () => {
  const takes = (logo: string) => portalBranding.safeParse({ logo }).success;

  test.each(Object.values(images))("may be the image %s", (image) => {
    expect(takes(image)).toBe(true);
  });

  test.each([
    "https://cdn.shop.example/logo.svg",
    "https://cdn.shop.example:8443/a%20b.png?v=1#x",
  ])("may be at %s", (url) => {
    expect(takes(url)).toBe(true);
  });

  test.each([
    ["not encrypted", "http://cdn.shop.example/logo.png"],
    ["a script", "javascript:alert(1)"],
    [
      "an SVG image, which may have scripts",
      `data:image/svg+xml;base64,${base64([...Buffer.from("<svg/>")])}`,
    ],
    ["a page", `data:text/html;base64,${base64([...Buffer.from("<b>")])}`],
    ["no image of its type", `data:image/png;base64,${base64([...Buffer.from("<svg onload=alert(1)>")])}`],
    ["another type than it says", images.png.replace("png", "gif")],
    ["not base64", "data:image/png;base64,iVBORw0KGgo%3D"],
    ["cut off", "data:image/png;base64,iVBORw0KGgo"],
    ["of a type that every object has", "data:image/constructor;base64,AAAA"],
    ["too large", `data:image/png;base64,iVBORw0KGgoA${"A".repeat(40_000)}`],
    ["a URL with a password in it", "https://user:secret@cdn.shop.example/a.png"],
    ["a URL that ends the attribute", 'https://cdn.shop.example/"onerror="alert(1)'],
    ["a URL that adds to the policy", "https://cdn.shop.example;script-src/*"],
    ["nothing", ""],
  ])("is refused when it is %s", (_, logo) => {
    expect(takes(logo)).toBe(false);
  });
});

test.each([
  ["https://a.example", true],
  ["https://a.example/x?y#z", true],
  ["HTTPS://a.example/", false],
  ["https://a.example/ b", false],
  ["https://", false],
  ["https://-a.example/", false],
  ["https://a.example\\@b.example/", false],
  ["//a.example/", false],
  [`https://a.example/${"x".repeat(1982)}`, true],
  [`https://a.example/${"x".repeat(1983)}`, false],
])("%s is an https URL: %s", (text, expected) => {
  expect(isHttpsUrl(text)).toBe(expected);
});

test.each([
  ["Acme GmbH", true],
  ["<b>Acme</b>", true],
  ["", false],
  ["   ", false],
  ["a\nb", false],
  ["x".repeat(81), false],
])("the name %j is taken: %s", (name, expected) => {
  expect(portalBranding.safeParse({ name }).success).toBe(expected);
});

test("the tenant's branding comes first, field by field", () => {
  const tenant = { name: "Acme", accent: null };
  const deployment = { name: "Deployment", accent: "#0b6a72", logo: images.png };
  expect(brandingOf(tenant, deployment)).toEqual({ name: "Acme", accent: "#0b6a72", logo: images.png });
  expect(brandingOf({}, {})).toEqual({ name: undefined, logo: undefined, accent: undefined });
});

describe("an accent", () => {
  const colour = fc.integer({ min: 0, max: 0xffffff }).map((n) => `#${n.toString(16).padStart(6, "0")}`);

  test("can be read in both themes, on the page, on its wash and under the text of buttons", () => {
    fc.assert(
      fc.property(colour, (accent) => {
        const { light, dark } = accentColours(accent);
        for (const [{ accent: shade, onAccent, wash }, papers] of [
          [light, ["#fbfbf9", "#ffffff"]],
          [dark, ["#0f1315", "#161b1e"]],
        ] as const) {
          for (const behind of [...papers, wash, onAccent])
            expect(contrastOf(shade, behind)).toBeGreaterThanOrEqual(4.5);
        }
      }),
    );
  });

  test("stays as it is if it can be read", () => {
    expect(accentColours("#0b6a72").light.accent).toBe("#0b6a72");
    expect(accentColours("#63c9c5").dark.accent).toBe("#63c9c5");
    expect(accentColours("#ffd500").light.accent).not.toBe("#ffd500");
  });

  test("is changed no more than it has to be", () => {
    for (const accent of ["#000000", "#ffd500", "#ffffff", "#800000", "#3344ff"]) {
      const { light, dark } = accentColours(accent);
      for (const [{ accent: shade, onAccent, wash }, paper] of [
        [light, "#fbfbf9"],
        [dark, "#161b1e"],
      ] as const) {
        if (shade === accent) continue;
        const least = Math.min(...[paper, wash, onAccent].map((behind) => contrastOf(shade, behind)));
        expect(least, `${accent} as ${shade}`).toBeLessThan(5);
      }
    }
  });

  test("has the contrast that WCAG computes", () => {
    expect(contrastOf("#000000", "#ffffff")).toBeCloseTo(21);
    expect(contrastOf("#777777", "#ffffff")).toBeCloseTo(4.48, 2);
  });

  test.each(["red", "#fff", "#0b6a7", "#0b6a72;", "#0b6a7g", "var(--x)"])("is not %s", (accent) => {
    expect(portalBranding.safeParse({ accent }).success).toBe(false);
  });
});
