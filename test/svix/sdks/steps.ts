/** The steps of the story that every SDK tells, in its order. Each program prints the outcome of a step under its name. */

type Step = Readonly<{
  name: string;
  /** What it is about, under /api/v1; empty for what the library does by itself. */
  route: string;
  /** Breakwater need not have the route: 501 is not a failure. */
  mayBeUnsupported?: true;
}>;

export const steps: readonly Step[] = [
  { name: "health", route: "GET health" },
  { name: "application: create", route: "POST app" },
  { name: "application: get or create", route: "POST app?get_if_exists=true" },
  { name: "application: list in pages", route: "GET app" },
  { name: "application: get by id and uid", route: "GET app/{app}" },
  { name: "application: update", route: "PUT app/{app}" },
  { name: "application: patch", route: "PATCH app/{app}" },
  { name: "application: delete", route: "DELETE app/{app}" },
  { name: "event type: create", route: "POST event-type" },
  { name: "event type: list in pages", route: "GET event-type" },
  { name: "event type: get", route: "GET event-type/{type}" },
  { name: "event type: update", route: "PUT event-type/{type}" },
  { name: "event type: patch", route: "PATCH event-type/{type}" },
  { name: "event type: archive and delete", route: "DELETE event-type/{type}" },
  { name: "endpoint: create", route: "POST app/{app}/endpoint" },
  { name: "endpoint: list in pages", route: "GET app/{app}/endpoint" },
  { name: "endpoint: get by id and uid", route: "GET app/{app}/endpoint/{endpoint}" },
  { name: "endpoint: patch", route: "PATCH app/{app}/endpoint/{endpoint}" },
  { name: "endpoint: update", route: "PUT app/{app}/endpoint/{endpoint}" },
  { name: "endpoint: disable and enable", route: "PATCH app/{app}/endpoint/{endpoint}" },
  { name: "endpoint: set headers", route: "PUT app/{app}/endpoint/{endpoint}/headers" },
  { name: "endpoint: patch headers", route: "PATCH app/{app}/endpoint/{endpoint}/headers" },
  { name: "endpoint: get headers", route: "GET app/{app}/endpoint/{endpoint}/headers" },
  { name: "endpoint: get the secret", route: "GET app/{app}/endpoint/{endpoint}/secret" },
  { name: "endpoint: delete", route: "DELETE app/{app}/endpoint/{endpoint}" },
  { name: "message: create", route: "POST app/{app}/msg" },
  { name: "message: a repeated eventId is refused", route: "POST app/{app}/msg" },
  { name: "message: list by tag", route: "GET app/{app}/msg" },
  { name: "message: get by id and eventId", route: "GET app/{app}/msg/{msg}" },
  { name: "webhook: verify what has arrived", route: "" },
  { name: "message: a raw payload", route: "POST app/{app}/msg" },
  { name: "endpoint: rotate the secret", route: "POST app/{app}/endpoint/{endpoint}/secret/rotate" },
  { name: "webhook: verify by the old secret and the new", route: "" },
  { name: "endpoint: send an example", route: "POST app/{app}/endpoint/{endpoint}/send-example" },
  { name: "attempt: list by message", route: "GET app/{app}/attempt/msg/{msg}" },
  { name: "attempt: list by endpoint", route: "GET app/{app}/attempt/endpoint/{endpoint}" },
  { name: "attempt: get", route: "GET app/{app}/msg/{msg}/attempt/{attempt}" },
  { name: "attempt: endpoints of a message", route: "GET app/{app}/msg/{msg}/endpoint" },
  { name: "attempt: resend", route: "POST app/{app}/msg/{msg}/endpoint/{endpoint}/resend" },
  { name: "portal link", route: "POST auth/app-portal-access/{app}", mayBeUnsupported: true },
  { name: "error: 404 for what there is not", route: "GET app/{app}" },
  { name: "error: 409 for a uid that is taken", route: "POST app" },
  { name: "error: 422 with the place of the fault", route: "POST app/{app}/endpoint" },
  { name: "error: 401 for an unknown token", route: "GET app" },
  { name: "error: 501 names the route", route: "GET background-task" },
];
