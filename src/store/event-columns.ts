/** What a bundle says of its events, in SQL: for what looks at many deliveries at once. See core/bundle.ts. */

/** SQL of the number of the bundle that an event is in, from SQL of its number. */
export function bundleIdOf(event: string): string {
  return `(${event} / 128)`;
}

/** SQL of an event's index in its bundle, from SQL of its number. */
export function indexColumnOf(event: string): string {
  return `(${event} % 128)`;
}

/** SQL of the event's tenant. @param header SQL of its bundle's header */
export function tenantOf(header: string, event: string): string {
  return nameOf("tenants", header, `(${indexColumnOf(event)} * 3)`);
}

/** SQL of the event's type. */
export function typeOf(header: string, event: string): string {
  return nameOf("types", header, `(${indexColumnOf(event)} * 3 + 1)`);
}

function nameOf(list: string, header: string, place: string): string {
  return `(${header} ->> ('$.${list}[' || (${header} ->> ('$.events[' || ${place} || ']')) || ']'))`;
}

/** SQL of how many events runs stand for. */
export function countOf(runs: string): string {
  return `(SELECT coalesce(sum(iif(r.key % 2, r.value + 1, -r.value)), 0) FROM json_each(${runs}) r)`;
}

/** SQL of the condition that a delivery's event is in a bundle. */
export function isInBundle(event: string, bundle: string): string {
  return `${event} >= ${bundle} * 128 AND ${event} < ${bundle} * 128 + 128`;
}
