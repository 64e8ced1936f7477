/**
 * The portal in the sender's name: its name, its logo, and its colour, which is made readable on both themes. Pure, so
 * that accepted and shown values can be tested as tables.
 */
import { optionalShape, readAs, type Shape, type ShapeType } from "./shape.ts";

/** Characters of the address; an image of 24 KB in base64 is 32 KB. It is part of every page. */
const MOST_LOGO = 32_768;

export const brandShape = {
  kind: "object",
  fields: {
    name: optionalShape(
      {
        kind: "text",
        max: 80,
        is: (given) => given.trim() !== "" && !/\p{Cc}/u.test(given),
        expected: "1 to 80 characters without control characters",
        nullable: true,
      },
      "The sender's name, in the header of each page.",
    ),
    logo: optionalShape(
      {
        kind: "text",
        is: (given) => isHttpsUrl(given) || isImage(given),
        expected: `an https URL of at most 2000 characters, or a PNG, JPEG, GIF or WebP image as data: URL in base64 of at most ${MOST_LOGO} characters`,
        nullable: true,
      },
      "An https URL, or a PNG, JPEG, GIF or WebP image as `data:` URL in base64. It is shown 32 pixels high at most.",
    ),
    accent: optionalShape(
      {
        kind: "text",
        pattern: /^#[0-9a-fA-F]{6}$/,
        expected: "a colour as #rrggbb, such as #0b6a72",
        nullable: true,
      },
      "The colour of links and buttons. It is darkened or lightened where text in it would be hard to read.",
    ),
  },
} as const satisfies Shape;

export type PortalBranding = Readonly<ShapeType<typeof brandShape>>;

/** A tenant's branding as it is stored; null if nothing is set, or if it cannot be read. */
export function brandingIn(stored: unknown): PortalBranding | null {
  return readAs(brandShape, stored) ?? null;
}

/** The first of several that has a value, field by field. */
export function brandingOf(...given: readonly PortalBranding[]) {
  const first = (field: keyof PortalBranding) =>
    given.map((one) => one[field]).find((value) => value !== null && value !== undefined);
  return { name: first("name"), logo: first("logo"), accent: first("accent") };
}

const MOST_URL = 2000;

/** Whether the text is an https URL without credentials in it. */
export function isHttpsUrl(text: string): boolean {
  if (text.length > MOST_URL || !/^https:\/\/[^\s"'<>\\@]+$/.test(text)) return false;
  return /^https:\/\/[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?([/?#]|$)/i.test(text);
}

/** How each type begins, in base64. SVG is none of them: it may contain scripts. */
const beginnings: ReadonlyMap<string, RegExp> = new Map([
  ["png", /^iVBORw0KGgo/],
  ["jpeg", /^\/9j\//],
  ["gif", /^R0lGOD[dl]h/],
  ["webp", /^UklGR.{6}XRUJQ/],
]);

function isImage(text: string): boolean {
  if (text.length > MOST_LOGO) return false;
  const [, type = "", data = ""] = /^data:image\/(\w+);base64,([A-Za-z0-9+/]+={0,2})$/.exec(text) ?? [];
  return data.length % 4 === 0 && beginnings.get(type)?.test(data) === true;
}

type Rgb = readonly [number, number, number];

const WHITE: Rgb = [255, 255, 255];
const BLACK: Rgb = [0, 0, 0];
/** The background of text in each theme, the least favourable: `--paper` and `--raised` of the style sheet. */
const papers = { light: [251, 251, 249], dark: [22, 27, 30] } as const satisfies Record<string, Rgb>;
/** WCAG 2.2, 1.4.3; a little more, because colours are rounded. */
const LEAST_CONTRAST = 4.6;
const STEPS = 50;

/** The colours of one theme. */
type AccentColours = Readonly<Record<"accent" | "onAccent" | "wash" | "faint", string>>;

/**
 * The colours derived from an accent: the accent itself if text in it is readable on the theme's paper and on its own
 * wash, else the nearest darker or lighter one that is.
 * @param accent `#rrggbb`
 */
export function accentColours(accent: string): Readonly<Record<"light" | "dark", AccentColours>> {
  const rgb = rgbOf(accent);
  return {
    light: coloursOn(papers.light, rgb, { towards: BLACK, on: WHITE, wash: 0.1, faint: 0.25 }),
    dark: coloursOn(papers.dark, rgb, { towards: WHITE, on: [8, 14, 15], wash: 0.14, faint: 0.28 }),
  };
}

type Theme = Readonly<{ towards: Rgb; on: Rgb; wash: number; faint: number }>;

function coloursOn(paper: Rgb, accent: Rgb, { towards, on, wash, faint }: Theme): AccentColours {
  const shades = Array.from({ length: STEPS + 1 }, (_, i) => mixed(accent, towards, i / STEPS));
  const isReadable = (shade: Rgb) =>
    [paper, mixed(paper, shade, wash), on].every((other) => contrast(shade, other) >= LEAST_CONTRAST);
  const shade = shades.find(isReadable) ?? towards;
  return {
    accent: hexOf(shade),
    onAccent: hexOf(on),
    wash: hexOf(mixed(paper, shade, wash)),
    faint: hexOf(mixed(paper, shade, faint)),
  };
}

/** The contrast of two colours, 1 to 21 (WCAG 2.2). */
export function contrastOf(a: string, b: string): number {
  return contrast(rgbOf(a), rgbOf(b));
}

function contrast(a: Rgb, b: Rgb): number {
  const [dark = 0, light = 0] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (light + 0.05) / (dark + 0.05);
}

function luminance(rgb: Rgb): number {
  const [r, g, b] = rgb.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as unknown as Rgb;
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function mixed(from: Rgb, to: Rgb, share: number): Rgb {
  return from.map((value, i) => Math.round(value + ((to[i] ?? 0) - value) * share)) as unknown as Rgb;
}

function rgbOf(hex: string): Rgb {
  return [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16)) as unknown as Rgb;
}

function hexOf(rgb: Rgb): string {
  return `#${rgb.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}
