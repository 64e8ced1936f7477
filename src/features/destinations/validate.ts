/**
 * Checks of a destination that a schema alone cannot make: whether its target may be called from this deployment, whether
 * its breaker makes sense together with what is stored, whether the receiver consents, whether a secret is a key pair, and
 * whether secret, signature forms and headers fit each other.
 */

import type { z } from "@hono/zod-openapi";
import { checked } from "../../core/field-errors.ts";
import { type Breaker, defaultBreaker, limitShape } from "../../core/limits.ts";
import { templateOf } from "../../core/message-templates.ts";
import { OPERATOR } from "../../core/principal.ts";
import { errorAt, errorIf, type FieldError, invalidFields, ok, type Result } from "../../core/result.ts";
import { readAs } from "../../core/shape.ts";
import {
  formsOf,
  namedHeaders,
  type SignatureForm,
  takesBytes,
  takesKeyPair,
  takesPlainText,
} from "../../core/signature-forms.ts";
import { codeFault } from "../../core/transform/code.ts";
import { faultTextAlone } from "../../core/transform/result.ts";
import { headerOf, type ShownAuth } from "../../delivery/authorization.ts";
import { type DestinationKind, kindNameOf } from "../../delivery/kinds/sending.ts";
import { shakeHands } from "../../delivery/test-event.ts";
import { runTransformCode } from "../../delivery/transform.ts";
import { resolve, targetProblem } from "../../delivery/url-guard.ts";
import { newSecret, type Scheme, schemeOf, secretBytes, signingKey } from "../../secrets/signing.ts";
import { sealedScheme } from "../../secrets/vault.ts";
import type { Services } from "../../services.ts";
import { breakerOf, type Destination, storedHeaders } from "../../store/destination.ts";
import { newestVersions } from "../../store/event-types.ts";
import { conflictErrors, shownAfter } from "./auth.ts";
import { sourceIn } from "./fields.ts";
import {
  type DestinationInput,
  destinationChange,
  type NewDestinationInput,
  newDestination,
  SECRET_EXPECTED,
} from "./schema.ts";
import { type AtFault, changesTarget, targetErrors } from "./target.ts";

/** The header in which PagerDuty takes an integration key. */
const ROUTING_KEY = "x-routing-key";

/**
 * The errors of a new destination that the schema does not find, in whatever was given: URLs that must not be called, and
 * fields that do not make a target.
 * @param requestUrl the URL of the caller's request, whose host must not be called
 */
export function creationErrors(services: Pick<Services, "config">, given: unknown, requestUrl: string) {
  return [...urlErrors(services, given, requestUrl), ...targetErrors(given)];
}

/** A new destination as the schema reads it, or all of its errors that need no stored data. */
export function readCreation(services: Pick<Services, "config">, given: unknown, requestUrl: string) {
  return readWith(newDestination, given, creationErrors(services, given, requestUrl));
}

/** The same for a change. */
export function readChange(services: Pick<Services, "config">, given: unknown, requestUrl: string) {
  return readWith(destinationChange, given, urlErrors(services, given, requestUrl));
}

function readWith<T>(schema: z.ZodType<T>, given: unknown, others: FieldError[]): Result<T, "invalid"> {
  const read = checked(schema, given);
  const errors = [...("data" in read ? [] : read), ...others];
  return "data" in read && errors.length === 0 ? ok(read.data) : invalidFields(errors);
}

/** The errors of URLs that must not be called from this deployment. */
export function urlErrors(
  { config }: Pick<Services, "config">,
  given: unknown,
  requestUrl: string,
): FieldError[] {
  const { url, auth } = (given ?? {}) as { url?: unknown; auth?: { token_url?: unknown } | null };
  const { allowPrivateDestinations, ownHosts = [] } = config;
  const hosts = [...requestedHosts(requestUrl, allowPrivateDestinations), ...ownHosts];
  return [["url", url] as const, ["auth.token_url", auth?.token_url] as const].flatMap(([field, one]) => {
    const found = typeof one === "string" ? targetProblem(one, allowPrivateDestinations, hosts) : undefined;
    return found ? [{ field, ...found }] : [];
  });
}

/**
 * The host that this request came to, and on workers.dev those of the Worker's previews. A local stack shares its name with
 * other servers, so there the port counts.
 */
function requestedHosts(requestUrl: string, isLocal: boolean): string[] {
  const { hostname, protocol, port } = new URL(requestUrl);
  if (isLocal) return [`${hostname}:${port || (protocol === "https:" ? 443 : 80)}`];
  return hostname.endsWith(".workers.dev") ? [hostname, `*-${hostname}`] : [hostname];
}

/**
 * The errors of URLs whose host names lead to a private address, where the deployment has a resolver. A name that the
 * resolver cannot look up now is accepted: it is looked up again before every batch.
 */
export async function addressErrors(
  services: Services,
  { url, auth }: Pick<DestinationInput, "url" | "auth">,
): Promise<FieldError[]> {
  const tokenUrl = auth?.kind === "oauth2" ? auth.token_url : undefined;
  return [
    ...(await addressErrorsOf(services, "url", url)),
    ...(await addressErrorsOf(services, "auth.token_url", tokenUrl)),
  ];
}

async function addressErrorsOf(services: Services, field: string, url: string | undefined) {
  const resolution = url === undefined ? undefined : await resolve(services, url);
  if (resolution?.kind !== "private") return [];
  return errorAt(field, `leads to ${resolution.address}`, "a name that leads to public addresses only");
}

/** The errors of settings that do not fit each other; what a change leaves out is as in `stored`. */
export function settingErrors(input: DestinationInput, tenant: string, stored?: Destination): FieldError[] {
  const forms = stored && { ...stored, scheme: sealedScheme(stored.secret) ?? "hmac-sha256" };
  return [
    ...breakerErrors(input.breaker, stored && breakerOf(stored)),
    ...formErrors(input, forms),
    ...conflictErrors(input, stored),
    ...templateErrors(input, tenant, stored),
    ...orderErrors(input, stored),
    ...kindErrors(input, stored ? kindNameOf(stored.url) : (input.kind ?? "https")),
  ];
}

/** The error of a longest cool-down that is shorter than the first; what the input leaves out is as in `stored`. */
function breakerErrors(input: DestinationInput["breaker"], stored: Breaker = defaultBreaker) {
  if (input === undefined || input === null) return [];
  const first = effective(input.cooldown_s, stored.cooldown_s, defaultBreaker.cooldown_s);
  const longest = effective(input.max_cooldown_s, stored.max_cooldown_s, defaultBreaker.max_cooldown_s);
  const expected = `at least the cooldown_s of ${first}`;
  return errorIf(longest < first, "breaker.max_cooldown_s", `is ${longest}`, expected);
}

function effective(given: number | null | undefined, stored: number, fallback: number): number {
  return given === undefined ? stored : (given ?? fallback);
}

/** The columns that a valid change depends on: the write requires them unchanged, since two changes may conflict. */
export function dependsOn(
  input: DestinationInput,
  { url, breakerCooldownS, breakerMaxCooldownS, secret, updatedAt }: Destination,
): Partial<Pick<Destination, "url" | "breakerCooldownS" | "breakerMaxCooldownS" | "secret" | "updatedAt">> {
  const { breaker, headers, auth, template, signature_forms: forms } = input;
  return {
    ...(breaker && { breakerCooldownS, breakerMaxCooldownS }),
    ...(forms && { secret }),
    // Any change counts of a field that sets headers: an edit by hand may have spelled their JSON in another way.
    ...((headers !== undefined || auth || forms || template) && { updatedAt }),
    // A new URL replaces the whole target; fields of another kind complete the stored ones.
    ...(changesTarget(input) && input.url === undefined && { url }),
  };
}

/**
 * The errors of a template that does not fit the rest: it makes messages of operational events, which only the operator's
 * destinations get, and PagerDuty takes none without a routing key.
 */
function templateErrors(
  input: DestinationInput,
  tenant: string,
  stored?: Pick<Destination, "template" | "headers" | "sealedHeaders">,
): FieldError[] {
  const template = input.template === undefined ? templateOf(stored?.template) : input.template;
  if (!template) return [];
  if (tenant !== OPERATOR) {
    const expected = `none: only destinations of the tenant ${OPERATOR} have one`;
    return errorAt("template", `is ${template}`, expected);
  }
  const headers = input.headers === undefined ? stored && storedHeaders(stored).values : input.headers;
  const hasKey = Object.keys(headers ?? {}).some((name) => name.toLowerCase() === ROUTING_KEY);
  const expected = `a header ${ROUTING_KEY} with the integration key beside it`;
  return errorIf(template === "pagerduty" && !hasKey, "headers", `have no ${ROUTING_KEY}`, expected);
}

/**
 * The errors of a template that is not Liquid, and of unacceptable code. The modules for that are loaded only if one is
 * given.
 */
export async function transformErrors(
  services: Services,
  { transform }: Pick<DestinationInput, "transform">,
  tenant: string,
): Promise<FieldError[]> {
  const source = sourceIn(transform ?? null);
  if ("code" in source) return codeErrors(services, source.code, tenant);
  if (source.template === null) return [];
  const { compile } = await import("../../core/transform/liquid.ts");
  const found = compile(source.template);
  if ("fill" in found) return [];
  return errorAt(`transform.template.${found.field}`, faultTextAlone(found), "Liquid");
}

const CODE = "transform.code";

/** Code is loaded where it is to run, to see whether it is a module with a function. */
async function codeErrors(services: Services, code: string, tenant: string): Promise<FieldError[]> {
  const { functions, functionsFault = "this deployment runs none" } = services;
  const expected = "a module without imports, with export default (event) => …";
  if (functions === undefined)
    return errorAt(CODE, "is not run by this deployment", `a template: ${functionsFault}`);
  const fault = codeFault(code);
  if (fault !== undefined) return errorAt(CODE, fault, expected);
  const [loaded] = await runTransformCode(services, { tenant, code, events: [] });
  if (loaded === undefined || loaded.kind === "made") return [];
  return errorAt(CODE, faultTextAlone(loaded.fault), expected);
}

/** The errors of pins to versions that are not in the catalogue. */
export async function versionErrors(
  { db }: Pick<Services, "db">,
  { event_versions: pins }: Pick<DestinationInput, "event_versions">,
): Promise<FieldError[]> {
  const given = Object.entries(pins ?? {});
  if (given.length === 0) return [];
  const newest = await newestVersions(db, Object.keys(pins ?? {}));
  return given.flatMap(([type, version]) => {
    const last = newest.get(type);
    const expected = last === undefined ? "a type of the catalogue" : `a version from 1 to ${last}`;
    return errorIf(version > (last ?? 0), `event_versions.${type}`, `is ${version}`, expected);
  });
}

/** The errors of a transformation that the kind of destination cannot follow: a queue has no method, an inbox sends nothing. */
function kindErrors({ transform }: Pick<DestinationInput, "transform">, kind: DestinationKind) {
  if (transform && kind === "poll") {
    const fault = "is for the kinds that are sent to";
    return errorAt("transform", fault, "null: consumers get events as they are");
  }
  const source = sourceIn(transform ?? null);
  const template = "template" in source ? source.template : null;
  if (template === null || kind !== "queue") return [];
  return (["method", "path", "query"] as const).flatMap((name) => {
    const expected = "none: a queue has no method, path and query";
    return errorIf(template[name] !== undefined, `transform.template.${name}`, "is given", expected);
  });
}

/** The errors of an order, which an inbox cannot follow. */
function orderErrors(input: DestinationInput, stored?: Pick<Destination, "url">): FieldError[] {
  const isPolled = (stored ? kindNameOf(stored.url) : input.kind) === "poll";
  const fault = `is ${input.ordering}, for the kind poll`;
  const expected = "null: consumers get events in the order of acceptance";
  return errorIf(isPolled && Boolean(input.ordering), "ordering", fault, expected);
}

type StoredForms = Pick<Destination, "headers" | "sealedHeaders" | "auth" | "signatureForms"> &
  Readonly<{ scheme: Scheme }>;

/**
 * The errors of signature forms that do not fit the secret, or set a header that is among the destination's own or that its
 * `auth` sets; what the input leaves out is as in `stored`.
 */
function formErrors(input: DestinationInput, stored?: StoredForms): FieldError[] {
  const { signature_forms: given, headers, auth } = input;
  if (given === undefined && headers === undefined && auth === undefined) return [];
  const forms = formsOf(given === undefined ? stored?.signatureForms : given);
  const own = Object.keys((headers === undefined ? stored && storedHeaders(stored).values : headers) ?? {});
  const shown = shownAfter(input, stored);
  return [
    ...(headers ? headerCollisions(forms, own) : formCollisions(forms, own)),
    ...(shown && auth ? authCollisions(forms, shown) : formCollisions(forms, shown ? [headerOf(shown)] : [])),
    ...(given && stored?.scheme === "ed25519" ? keyPairErrors(forms) : []),
  ];
}

const IN_ONE_PLACE = "a header that is set in one place";

function authCollisions(forms: readonly SignatureForm[], auth: ShownAuth): FieldError[] {
  const form = forms.find((one) => namedHeaders(one).some(({ name }) => name === headerOf(auth)));
  const fault = `sets ${headerOf(auth)}, as the signature form ${form?.form} does`;
  return errorIf(form !== undefined, "auth", fault, IN_ONE_PLACE);
}

/** A custom header that a form also sets would never be sent: the error is at the header, or otherwise at the form. */
function headerCollisions(forms: readonly SignatureForm[], own: readonly string[]): FieldError[] {
  const set = new Map(forms.flatMap((form) => namedHeaders(form).map(({ name }) => [name, form.form])));
  return own.flatMap((header) => {
    const form = set.get(header.toLowerCase());
    const fault = `is set by the signature form ${form}`;
    return errorIf(form !== undefined, `headers.${header}`, fault, "another name");
  });
}

function formCollisions(forms: readonly SignatureForm[], own: readonly string[]): FieldError[] {
  const taken = new Set(own.map((header) => header.toLowerCase()));
  return forms.flatMap((form, index) =>
    namedHeaders(form).flatMap(({ field, name }) => {
      const fault = `sets ${name}, which the destination's headers or auth set`;
      return errorIf(taken.has(name), `signature_forms[${index}].${field}`, fault, IN_ONE_PLACE);
    }),
  );
}

/** The errors of forms that an ed25519 key cannot sign in. */
function keyPairErrors(forms: readonly SignatureForm[]): FieldError[] {
  const wrong = forms.findIndex((form) => !takesKeyPair([form]));
  const fault = `is ${forms[wrong]?.form}, and the destination signs with ed25519`;
  const expected = "standard; for another form rotate to a secret for hmac-sha256 first";
  return errorIf(wrong >= 0, `signature_forms[${wrong}].form`, fault, expected);
}

const HANDSHAKE_EXPECTED =
  "a receiver that answers OPTIONS with WebHook-Allowed-Origin naming this host, or *";

/** The limits that the receiver allows; none without a handshake. A lower rate of the caller's own stays. */
export async function handshakeFor(
  services: Services,
  { url, handshake, rate_per_second: own }: NewDestinationInput,
  origin: string,
): Promise<Readonly<{ ratePerSecond?: number }> | AtFault> {
  if (!handshake || url === undefined) return {};
  const answer = await shakeHands(services, url, origin);
  if (answer.kind === "refused")
    return { errors: errorAt("handshake", `the receiver ${answer.fault}`, HANDSHAKE_EXPECTED) };
  const { ratePerSecond } = answer;
  if (ratePerSecond === undefined || (own ?? Number.POSITIVE_INFINITY) <= ratePerSecond) return {};
  return readAs(limitShape.fields.rate_per_second, ratePerSecond) === undefined ? {} : { ratePerSecond };
}

type SecretInput = Readonly<{ secret?: string | null | undefined; signature?: Scheme | null | undefined }>;

/**
 * The caller's secret, or a new one of the requested scheme, or else of the scheme `otherwise`. It can sign in all of
 * the forms.
 */
export async function chosenSecret(
  { secret, signature }: SecretInput,
  otherwise: Scheme,
  forms: readonly SignatureForm[],
): Promise<Readonly<{ secret: string }> | AtFault> {
  const scheme = secret ? schemeOf(secret) : (signature ?? otherwise);
  if (secret && signature && signature !== scheme)
    return { errors: errorAt("secret", `is for ${scheme}`, `one for ${signature}`) };
  if (scheme === "ed25519" && !takesKeyPair(forms)) {
    const expected = "hmac-sha256: only the signature form standard takes ed25519";
    return { errors: errorAt(secret ? "secret" : "signature", "is for ed25519", expected) };
  }
  if (!secret) return { secret: newSecret(scheme) };
  if (
    !secretBytes(secret) &&
    (!takesPlainText(forms) || (secret.startsWith("whsec_") && takesBytes(forms)))
  ) {
    const fault = `is a string of ${secret.length} characters`;
    return { errors: errorAt("secret", fault, SECRET_EXPECTED) };
  }
  const isPair = await signingKey(secret).then(
    () => true,
    () => false,
  );
  if (isPair) return { secret };
  return { errors: errorAt("secret", "joins halves of different keys", SECRET_EXPECTED) };
}
