/** Pages for what is not there, not allowed, or broken. */
import type { DashboardContext } from "./context.ts";
import { showPage } from "./layout.tsx";

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
