/** Accepting events as tests write them: with their data instead of their bytes. */
import * as ingest from "../../src/ingest/accept.ts";
import { type PostedEvent, postedEvent } from "../../src/ingest/bundle.ts";
import type { Services } from "../../src/services.ts";

type WithData<Event extends PostedEvent> = Omit<Event, "body"> & Readonly<{ data: unknown }>;

export type GivenEvent = WithData<PostedEvent>;
export type GivenSingle = GivenEvent & ingest.Handover;
export type GivenKeyed = WithData<ingest.KeyedEvent>;

export const accept = (services: Services, given: readonly GivenEvent[], key?: string) =>
  ingest.accept(services, given.map(postedEvent), key);

export const acceptEach = async (services: Services, given: readonly GivenSingle[]) =>
  ingest.acceptEach(
    services,
    await Promise.all(given.map((one) => ingest.entryOfMessage(services, postedEvent(one), one))),
  );

export const acceptOperational = (services: Services, given: readonly GivenKeyed[]) =>
  ingest.acceptOperational(
    services,
    given.map((one) => ({ ...one, ...postedEvent(one) })),
  );
