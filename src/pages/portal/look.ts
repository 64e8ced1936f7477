/** A visitor's view of the portal: language, theme, branding, and the address to return to. */
import type { Config } from "../../config.ts";
import type { PortalLanguage, PortalTheme, PortalVisit } from "../../core/portal-access.ts";
import { tenantPortalOf } from "../../core/portal-access.ts";
import { brandingIn, brandingOf } from "../../core/portal-branding.ts";
import type { TenantSettings } from "../../features/tenants/settings.ts";
import type { Formats } from "../ui/format.ts";
import { type PageView, usePage } from "../ui/page.tsx";
import type { Texts } from "./texts/en.ts";
import { formatsIn, languageAccepted, texts } from "./texts/languages.ts";

export type PortalStyle = Readonly<{
  language: PortalLanguage;
  t: Texts;
  f: Formats;
  theme: PortalTheme;
  brand: ReturnType<typeof brandingOf>;
  returnUrl: string | null;
  /** The origins of pages that may show the portal in a frame. */
  origins: readonly string[];
}>;

/** What components of the portal use of the page around them. */
export type PortalView = PageView & PortalStyle;

export function usePortal(): PortalView {
  return usePage() as PortalView;
}

type Asked = Readonly<{
  config: Pick<Config, "portalBranding" | "portalOrigins">;
  acceptLanguage: string | undefined;
}>;

/** The visitor's choice, else the link's, else the tenant's settings, else the browser's or the deployment's. */
export function portalStyleOf(
  { config, acceptLanguage }: Asked,
  visit?: Pick<PortalVisit, "language" | "theme" | "return_url">,
  settings?: TenantSettings,
): PortalStyle {
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
