/** How the pages look for a visitor: language, theme, branding, and where they lead back to. */
import { createContext, useContext } from "hono/jsx";
import type { Config } from "../../config.ts";
import type { PortalLanguage, PortalTheme, PortalVisit } from "../../core/portal-access.ts";
import { tenantPortalOf } from "../../core/portal-access.ts";
import { brandingIn, brandingOf } from "../../core/portal-branding.ts";
import type { TenantSettings } from "../../features/tenants/settings.ts";
import type { Formats } from "../ui/format.ts";
import type { Texts } from "./texts/en.ts";
import { formatsIn, languageAccepted, texts } from "./texts/languages.ts";

export type Look = Readonly<{
  language: PortalLanguage;
  t: Texts;
  f: Formats;
  theme: PortalTheme;
  brand: ReturnType<typeof brandingOf>;
  returnUrl: string | null;
  /** The origins of pages that may show the portal in a frame. */
  origins: readonly string[];
}>;

const look = createContext<Look | undefined>(undefined);

export const LookProvider = look.Provider;

/** The look of the page around a component. */
export function useLook(): Look {
  const around = useContext(look);
  if (around === undefined) throw new Error("There is no page around this component");
  return around;
}

type Asked = Readonly<{
  config: Pick<Config, "portalBranding" | "portalOrigins">;
  acceptLanguage: string | undefined;
}>;

/** The visitor's choice, else the link's, else the tenant's settings, else the browser's or the deployment's. */
export function lookOf(
  { config, acceptLanguage }: Asked,
  visit?: Pick<PortalVisit, "language" | "theme" | "return_url">,
  settings?: TenantSettings,
): Look {
  const { portalBranding: deployment = {}, portalOrigins: origins = [] } = config;
  const portal = tenantPortalOf(settings?.portal);
  const language = visit?.language ?? portal.language ?? languageAccepted(acceptLanguage);
  return {
    language,
    t: texts[language],
    f: formatsIn(language),
    theme: visit?.theme ?? portal.theme ?? "auto",
    brand: brandingOf(brandingIn(settings?.branding) ?? {}, deployment),
    returnUrl: visit?.return_url ?? null,
    origins,
  };
}
