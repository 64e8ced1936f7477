/** `GET /v1/search`. */
import type { Api } from "../../http/context.ts";
import { answers, serve } from "../../http/routes.ts";
import { lookedBack } from "../events/schema.ts";
import { pageOf } from "../parameters.ts";
import { searchQuery, searchResult } from "./schema.ts";
import { search } from "./service.ts";

export function registerSearch(api: Api): void {
  const page = pageOf(searchResult).extend({ looked_back_to: lookedBack });
  serve(api, "get", "/v1/search", search, {
    summary: "Search",
    description:
      "Finds by an id (of an event, a delivery, an attempt, a destination, a replay or an API key), an idempotency " +
      "key, a Svix `eventId` or a `uid`. Words are found in the types, tags, tenants and contents of events, the newest " +
      "first; quotation marks keep words together. A page reads at most 8 MB of contents: it may be short, or empty, and " +
      "still have a `next_cursor`; `looked_back_to` shows the progress. A word that is a status code, a reason or " +
      "a state finds deliveries, as do the conditions that only deliveries have.",
    tags: ["Search"],
    query: searchQuery,
    responses: answers(200, page, "A page of matches.", 422),
  });
}
