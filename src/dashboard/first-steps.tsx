/** What an empty Breakwater shows: the two requests that make it one that is not. */
import type { FC } from "hono/jsx";
import { Copyable } from "./parts.tsx";

export const FirstSteps: FC<{ origin: string }> = ({ origin }) => (
  <>
    <section>
      <h1>Nothing is delivered yet.</h1>
      <p class="lede">
        Name an address that is to receive events, then post one. This page shows both as soon as they are
        there.
      </p>
    </section>
    <section aria-labelledby="first">
      <div class="head">
        <h2 id="first">1. Create a destination</h2>
        <a class="button" href="/dashboard/destinations/new">
          Or fill in a form
        </a>
      </div>
      <Copyable
        id="create"
        label="The command that creates a destination"
        text={`curl ${origin}/v1/destinations \\\n  -H "Authorization: Bearer $BREAKWATER_KEY" \\\n  --json '{"url": "https://example.com/webhooks"}'`}
      />
    </section>
    <section aria-labelledby="second">
      <div class="head">
        <h2 id="second">2. Send the first event</h2>
      </div>
      <Copyable
        id="send"
        label="The command that sends the first event"
        text={`curl ${origin}/v1/events \\\n  -H "Authorization: Bearer $BREAKWATER_KEY" \\\n  --json '{"type": "order.created", "data": {"order": 42}}'`}
      />
    </section>
  </>
);
