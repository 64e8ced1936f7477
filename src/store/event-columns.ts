/** What a bundle's header says of one event, in SQL: for lists and replays that look at many deliveries at once. */

/** SQL of the number of the bundle that an event is in, from SQL of its number. */
export function bundleIdOf(event: string): string {
  return `(${event} / 128)`;
}

/** SQL of the event's tenant. @param header SQL of its bundle's header */
export function tenantOf(header: string, event: string): string {
  return nameOf("tenants", header, `(${event} % 128) * 3`);
}

/** SQL of the event's type. */
export function typeOf(header: string, event: string): string {
  return nameOf("types", header, `((${event} % 128) * 3 + 1)`);
}

function nameOf(list: string, header: string, place: string): string {
  return `(${header} ->> ('$.${list}[' || (${header} ->> ('$.events[' || ${place} || ']')) || ']'))`;
}
