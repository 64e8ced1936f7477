/** Pages for what is not there, not allowed, or broken. */

import { showPage } from "../components/layout.tsx";
import { RefusedNotice } from "../components/parts.tsx";
import type { Refused } from "../internal-client.ts";
import type { DashboardContext } from "../session.ts";

export function nothingHere(c: DashboardContext) {
  return showPage(
    c,
    { title: "Not found", signedIn: c.get("visitor") !== undefined },
    <section>
      <h1>There is nothing here.</h1>
      <p class="lede">
        Or it belongs to somebody else. <a href="/dashboard">Back to the overview</a>
      </p>
    </section>,
    404,
  );
}

export function somethingBroke(c: DashboardContext) {
  return showPage(
    c,
    { title: "Something went wrong", signedIn: false },
    <section>
      <h1>Something went wrong on our side.</h1>
      <p class="lede">
        It is safe to try again. <a href="/dashboard">Back to the overview</a>
      </p>
    </section>,
    500,
  );
}

/** In place of the page that one would have come back to, had it been done. */
export function showRefusal(c: DashboardContext, refused: Refused, back: string) {
  return showPage(
    c,
    { title: "Not done" },
    <section class="narrow">
      <h1>That was not done.</h1>
      <RefusedNotice refused={refused} />
      <p class="lede">
        <a href={back}>Back</a>
      </p>
    </section>,
    422,
  );
}
