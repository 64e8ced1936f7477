/**
 * The marker of a deployment: a header of every attempt by which it recognizes its own requests, when they come back to it as
 * events under any name. It is derived from the master keys and `ADMIN_KEY`, so that it cannot be predicted, and another
 * deployment has another one. A receiver that copies it can only get its own posts refused.
 */
import { VERSION } from "../core/version.ts";
import { derivedKeys, type MasterKeys } from "./vault.ts";

/** The User-Agent of requests to receivers and token endpoints: a patch of a release does not change it, because firewalls permit it exactly. */
export const USER_AGENT = `Breakwater/${VERSION.slice(0, VERSION.lastIndexOf("."))} (webhooks)`;

export const MARKER = "webhook-deployment";

type MarkerConfig = Readonly<{ adminKey: string; masterKeys: MasterKeys }>;

/**
 * Derived once for each configuration: that costs two operations of WebCrypto for each master key. They never become old,
 * because another key is another configuration.
 */
const derived = new WeakMap<MarkerConfig, Markers>();

type Markers = Readonly<{ all: Promise<string[]>; current: Promise<string> }>;

function markersOf(config: MarkerConfig): Markers {
  const known = derived.get(config);
  if (known) return known;
  const all = derivedKeys(config.masterKeys, "deployment", config.adminKey);
  const made = { all, current: all.then(([current = ""]) => current) };
  derived.set(config, made);
  return made;
}

/** The value of the header. */
export function markerOf(config: MarkerConfig): Promise<string> {
  return markersOf(config).current;
}

/** Whether a request has the marker of this deployment, of any of its master keys. @param given the header's value */
export async function isOwnMarker(config: MarkerConfig, given: string | undefined): Promise<boolean> {
  if (given === undefined) return false;
  const markers = await markersOf(config).all;
  return given.split(",").some((one) => markers.includes(one.trim()));
}
