/** What the document says of the API as a whole. The tags are in the order in which one gets to need them. */
export const INFO = {
  title: "Breakwater",
  version: "1",
  description:
    "Webhook and event delivery that never storms. JSON in, JSON out; errors are problem documents (RFC 9457). " +
    "Lists are paged: hand the next_cursor of a page in as cursor, until it is null. Times are ISO 8601.",
  license: { name: "MIT", identifier: "MIT" },
};

export const SERVERS = [{ url: "/" }];

export const TAGS = [
  { name: "Events", description: "What happened, posted once, to be told to everybody who wants to know." },
  { name: "Destinations", description: "Where events go: a URL, what it takes, and what it can bear." },
  { name: "Deliveries", description: "One event for one destination: where it stands, and each attempt." },
  { name: "Replays", description: "Deliveries of a past time once more, at a pace that the receiver bears." },
  { name: "API keys", description: "Who may do what, for all tenants or for one." },
  { name: "Portal", description: "A customer's own way into the dashboard." },
  { name: "Health", description: "How all of it is doing, for people and for machines." },
  { name: "Operation", description: "For whoever runs this deployment." },
];

export const BEARER = {
  type: "http" as const,
  scheme: "bearer",
  description: "An API key. Next to an operation stands the scope that its key needs.",
};
