/** The languages of the portal, and which of them a browser asks for. */
import { type PortalLanguage, portalLanguages } from "../../../core/portal-access.ts";
import type { Formats } from "../../ui/format.ts";
import { formatsOf } from "../format.ts";
import { de } from "./de.ts";
import { en, type Texts } from "./en.ts";

export const texts: Readonly<Record<PortalLanguage, Texts>> = { en, de };

const formats = new Map<PortalLanguage, Formats>();

/** Made once for each language: formatters are slow to make. */
export function formatsIn(language: PortalLanguage): Formats {
  const known = formats.get(language) ?? formatsOf(language, texts[language]);
  formats.set(language, known);
  return known;
}

/** The language of that name; undefined when there is none. */
export function languageNamed(name: unknown): PortalLanguage | undefined {
  return portalLanguages.find((language) => language === name);
}

/** The language that an Accept-Language prefers (RFC 9110 §12.5.4), English where it names none of ours. */
export function languageAccepted(header: string | undefined): PortalLanguage {
  const wanted = (header ?? "").slice(0, 500).split(",").map(weighted);
  const known = wanted.flatMap(({ tag, weight }) => {
    const language = languageNamed(tag.split("-")[0]?.toLowerCase());
    return language !== undefined && weight > 0 ? [{ language, weight }] : [];
  });
  return known.toSorted((a, b) => b.weight - a.weight)[0]?.language ?? "en";
}

function weighted(range: string): Readonly<{ tag: string; weight: number }> {
  const [tag = "", ...parameters] = range.trim().split(";");
  const q = parameters.map((text) => /^\s*q=([01](\.\d{0,3})?)\s*$/i.exec(text)?.[1]).find(Boolean);
  return { tag, weight: q === undefined ? 1 : Number(q) };
}
