/**
 * The request of an attempt as it can be shown afterwards: headers are not stored, so they are made again from the
 * event and from the destination as it is now. Headers that authenticate are masked: signatures, custom headers, those
 * that an event was posted with, and the deployment's marker. An answer that repeats one of these is masked too
 * (`sentSecrets`).
 */
import { formsOf, recipeOf, signatureHeaders } from "../core/signature-forms.ts";
import { MARKER, USER_AGENT } from "../secrets/deployment-marker.ts";
import { type Destination, storedHeaders } from "../store/destination.ts";
import { authOf, headerOf, MASK } from "./authorization.ts";

type Shown = Readonly<{
  /** The event's id, as it is sent. */
  id: string;
  type: string;
  /** The headers that the event was posted with. */
  headers?: Readonly<Record<string, string>> | undefined;
  contentType: string;
  /** Its number, from 1; undefined if it is not known any more. */
  attempt: number | undefined;
  /** When it started, epoch ms. */
  at: number;
}>;

/** Later ones replace earlier ones, in the order in which an attempt sets them (http.ts). */
export function shownHeaders(
  { id, type, headers = {}, contentType, attempt, at }: Shown,
  destination: Pick<Destination, "headers" | "sealedHeaders" | "auth" | "signatureForms">,
): Record<string, string> {
  const auth = authOf(destination);
  const own = [...Object.keys(storedHeaders(destination).values), ...(auth ? [headerOf(auth)] : [])];
  const masked = [...Object.keys(headers), ...own].filter((name) => name !== "");
  const signed = { id, type, timestamp: String(Math.floor(at / 1000)) };
  const signatures = formsOf(destination.signatureForms)
    .map(recipeOf)
    .map((recipe) => signatureHeaders(recipe, signed, [`${recipe.version}${MASK}`]));
  return Object.assign(
    Object.fromEntries(masked.map((name) => [name.toLowerCase(), MASK])),
    {
      "content-type": contentType,
      "user-agent": USER_AGENT,
      ...(attempt !== undefined && { "webhook-attempt": String(attempt) }),
      [MARKER]: MASK,
      "webhook-id": id,
      "webhook-timestamp": signed.timestamp,
    },
    ...signatures,
  );
}
