/**
 * A portal visitor's rights, and their limits. An operator sets rules for a tenant, and the creator of a link may set
 * more for it: each only takes away. Every action of the portal is checked here (`allows`, `limitsWithin`), and nothing
 * that a visitor sends affects the rules.
 */
import { defaultLimits, type Limits, limitShape } from "./limits.ts";
import { isHttpsUrl } from "./portal-branding.ts";
import type { Scope } from "./scopes.ts";
import { type NumberShape, optionalShape, readAs, type Shape, type ShapeType } from "./shape.ts";

export const capabilities = [
  /** Create, change, pause, resume and delete endpoints. */
  "may_edit_endpoints",
  /** Write the transformations of endpoints. */
  "may_transform",
  /** Write them in code, which runs. It is the one right that a tenant's settings have to give. */
  "may_write_code",
  "may_rotate",
  "may_resend",
  "may_test",
  /** Create and revoke keys that fetch from polled endpoints. */
  "may_poll",
  /** See the bodies of events. */
  "may_see_payloads",
] as const;
export type Capability = (typeof capabilities)[number];

/** The limits of an endpoint that a visitor may change, up to those of the rules. */
export const limitedFields = ["max_concurrency", "rate_per_second"] as const;
export type LimitedField = (typeof limitedFields)[number];

export const portalLanguages = ["en", "de"] as const;
export type PortalLanguage = (typeof portalLanguages)[number];

export const portalThemes = ["auto", "light", "dark"] as const;
export type PortalTheme = (typeof portalThemes)[number];

function flag(description: string) {
  return { kind: "boolean", nullable: true, optional: true, meta: { description } } as const satisfies Shape;
}

function highest<const S extends NumberShape>(shape: S, description: string) {
  return { ...shape, nullable: true, optional: true, meta: { description } } as const;
}

/** A right that is left out, or null, takes nothing away. */
export const rulesShape = {
  kind: "object",
  fields: {
    may_edit_endpoints: flag("Create, change, pause, resume and delete endpoints; true by default."),
    may_transform: flag(
      "Write endpoints' transformations, where the visitor may edit endpoints too; true by default.",
    ),
    may_write_code: flag(
      "Write transformations in code, where the visitor may write transformations. False by default: only the tenant's " +
        "settings can give it.",
    ),
    may_rotate: flag("Rotate signing secrets; true by default."),
    may_resend: flag("Send deliveries again; true by default."),
    may_test: flag("Send test events; true by default."),
    may_poll: flag(
      "Create and revoke keys that fetch from polled endpoints, where the visitor may see payloads too; true by default.",
    ),
    may_see_payloads: flag("See the bodies of events; true by default."),
    max_endpoints: highest(
      { kind: "number", whole: true, min: 0, max: 10_000 },
      "Visitors cannot create an endpoint once the tenant has this many; null: no limit.",
    ),
    max_concurrency: highest(
      limitShape.fields.max_concurrency,
      "The highest `max_concurrency` that a visitor may set; null: as high as the API allows.",
    ),
    rate_per_second: highest(
      limitShape.fields.rate_per_second,
      "The highest `rate_per_second` that a visitor may set; null: as high as the API allows.",
    ),
  },
} as const satisfies Shape;

export type PortalRules = Readonly<ShapeType<typeof rulesShape>>;

/** The portal's appearance, unless the visitor has chosen otherwise. */
export const appearanceFields = {
  language: optionalShape(
    { kind: "choice", values: portalLanguages, nullable: true },
    "The language of the pages; null: the one that the visitor's browser requests.",
  ),
  theme: optionalShape(
    { kind: "choice", values: portalThemes, nullable: true },
    "`light`, `dark`, or `auto`: the preference of the visitor's device, the default.",
  ),
} as const satisfies Readonly<Record<string, Shape>>;

/** The schema of `portal` in a tenant's settings. */
export const tenantPortalShape = {
  kind: "object",
  fields: { ...rulesShape.fields, ...appearanceFields },
} as const satisfies Shape;

export type TenantPortal = Readonly<ShapeType<typeof tenantPortalShape>>;

/** A link's description of the visit that it opens, which its session keeps. Everything is there: an edit by hand fails. */
const visitShape = {
  kind: "object",
  fields: {
    rules: rulesShape,
    language: { kind: "choice", values: portalLanguages, nullable: true },
    theme: { kind: "choice", values: portalThemes, nullable: true },
    /** The address of the sender's page. */
    return_url: { kind: "text", is: isHttpsUrl, nullable: true },
  },
} as const satisfies Shape;

export type PortalVisit = Readonly<ShapeType<typeof visitShape>>;

/** The visit in a link or a session; undefined when it cannot be read. */
export function visitIn(stored: unknown): PortalVisit | undefined {
  return readAs(visitShape, stored);
}

/** A visitor's rights. A limit that is null does not exist. */
export type PortalAccess = Readonly<
  Record<Capability, boolean> & Record<LimitedField | "max_endpoints", number | null>
>;

/** Rules under which a visitor only reads. */
export const readOnlyRules: PortalRules = {
  may_edit_endpoints: false,
  may_transform: false,
  may_write_code: false,
  may_rotate: false,
  may_resend: false,
  may_test: false,
  may_poll: false,
};

/** The access that remains under all of the rules: each narrows the others, in any order. */
export function accessUnder(...rules: readonly PortalRules[]): PortalAccess {
  const lowest = (field: LimitedField | "max_endpoints") =>
    rules.reduce<number | null>((least, { [field]: most }) => lower(least, most ?? null), null);
  return {
    ...(Object.fromEntries(
      capabilities.map((name) => [name, rules.every((rule) => rule[name] !== false)]),
    ) as Record<Capability, boolean>),
    max_endpoints: lowest("max_endpoints"),
    max_concurrency: lowest("max_concurrency"),
    rate_per_second: lowest("rate_per_second"),
  };
}

function lower(a: number | null, b: number | null): number | null {
  if (a === null || b === null) return a ?? b;
  return Math.min(a, b);
}

/** The scopes that such a visitor's requests need: nothing but to read, where it may change nothing. */
export function scopesUnder(access: PortalAccess): readonly Scope[] {
  const alone = capabilities.filter((name) => name !== "may_see_payloads" && name !== "may_write_code");
  const changes = alone.some((name) => access[name]);
  return changes ? ["read", "admin"] : ["read"];
}

/** Everything that the portal does for its visitors. */
export const portalActions = {
  read: null,
  create_endpoint: "may_edit_endpoints",
  change_endpoint: "may_edit_endpoints",
  write_transform: "may_transform",
  write_code: ["may_transform", "may_write_code"],
  /** Previewing a filter on past events reveals their content. */
  preview_endpoint: "may_see_payloads",
  pause_endpoint: "may_edit_endpoints",
  resume_endpoint: "may_edit_endpoints",
  delete_endpoint: "may_edit_endpoints",
  rotate_secret: "may_rotate",
  send_test: "may_test",
  resend: "may_resend",
  /** The key reads the bodies of events. */
  manage_poll_keys: ["may_poll", "may_see_payloads"],
  see_payload: "may_see_payloads",
} as const satisfies Readonly<Record<string, Capability | readonly Capability[] | null>>;

export type PortalAction = keyof typeof portalActions;

/** Whether the visitor may do this at all. */
export function allows(access: PortalAccess, action: PortalAction): boolean {
  const needed: Capability | readonly Capability[] | null = portalActions[action];
  return needed === null || [needed].flat().every((name) => access[name]);
}

/** Whether a tenant with this many endpoints may get one more from the visitor. */
export function allowsAnother({ max_endpoints: most }: PortalAccess, endpoints: number): boolean {
  return most === null || endpoints < most;
}

/** A field that requests more than the visitor may have. */
export type AboveLimit = Readonly<{ field: LimitedField; most: number }>;

type Asked = Readonly<Partial<Record<LimitedField, number | string | null>>>;

/**
 * The limits to set from a visitor's request, and the fields that request too much. An empty field (null) requests the
 * default, or as much of it as the visitor may have. One that keeps its value is not set: a limit that an operator has
 * raised stays. A value that is not a number is passed on, for the API to refuse.
 * @param current of the endpoint; undefined for a new one
 */
export function limitsWithin(
  access: PortalAccess,
  asked: Asked,
  current?: Pick<Limits, LimitedField>,
): Readonly<{ set: Asked; above: readonly AboveLimit[] }> {
  const fields = limitedFields.flatMap((field) => {
    const most = access[field] ?? Number.POSITIVE_INFINITY;
    const value = asked[field] ?? Math.min(defaultLimits[field], most);
    if (value === current?.[field]) return [];
    const isAbove = typeof value === "number" && value > most;
    return [{ field, value, most, isAbove }];
  });
  return {
    set: Object.fromEntries(fields.map(({ field, value }) => [field, value])),
    above: fields.filter(({ isAbove }) => isAbove).map(({ field, most }) => ({ field, most })),
  };
}

/** Unparseable rules fall back to read-only. */
const unreadableRules: PortalRules = { ...readOnlyRules, may_see_payloads: false };

/** The settings of a tenant as they are stored; null: nothing is set. */
export function tenantPortalOf(stored: unknown): TenantPortal {
  if (stored === null || stored === undefined) return {};
  return readAs(tenantPortalShape, stored) ?? unreadableRules;
}
