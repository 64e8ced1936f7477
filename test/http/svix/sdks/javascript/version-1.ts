/** Version 1 of the SDK calls the same routes by other names: here it gets those of version 2. */
import type { EndpointIn, EndpointOut, Svix } from "svix";

const renamed = [
  ["application", "upsert", "update"],
  ["endpoint", "upsert", "update"],
  ["endpoint", "setHeaders", "updateHeaders"],
  ["eventType", "upsert", "update"],
] as const;

type Methods = Record<string, unknown>;

export function withNamesOfVersion2(svix: Svix): Svix {
  for (const [resource, name, former] of renamed) {
    const methods: Methods = Object.getPrototypeOf(svix[resource]);
    methods[name] ??= methods[former];
  }
  return svix;
}

/** The event types of an endpoint, by both names: each version sends the one that it knows. */
export function ofTypes(...eventTypes: string[]): Pick<EndpointIn, "eventTypes"> {
  return { eventTypes, filterTypes: eventTypes } as Pick<EndpointIn, "eventTypes">;
}

export function typesOf(endpoint: Pick<EndpointOut, "eventTypes"> & { filterTypes?: string[] }) {
  return endpoint.eventTypes ?? endpoint.filterTypes ?? null;
}
