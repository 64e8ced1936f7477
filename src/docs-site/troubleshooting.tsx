/**
 * Why a delivery is not there yet, and what to do about it: a section of the reference, to which the dashboard leads.
 * docs/stuck-in-retries.md has the same steps and reasons; a test holds them together.
 */
import type { FC } from "hono/jsx";
import { Prose } from "../dashboard/components/parts.tsx";

/** What to look at, in this order. */
export const steps: readonly string[] = [
  "The delivery: `GET /v1/deliveries/{id}`, or its event in the dashboard. `state` and `reason` say why it is where it is, `next_attempt_at` or `waiting_until` until when, `log` what each attempt came to.",
  "The destination: `GET /v1/destinations/{id}/health`, or its page in the dashboard. Whether it is paused, held or behind an open circuit, how much waits, and what its last 15 minutes were like.",
  "The receiver: `POST /v1/destinations/{id}/test` sends it a signed event at once and shows what was sent and what came back. It passes an open circuit and a pause.",
  "Everything: `GET /v1/health`. If the sweep has stalled or a retry is long overdue, it is not the destination.",
];

export type Reason = Readonly<{ reason: string; means: string; remedy: string }>;

export const reasons: readonly Reason[] = [
  {
    reason: "paused",
    means:
      "A person has paused the destination, or Breakwater has: after 410 (`gone`), more than a hundred refusals in a row (`rejecting`) or five days without a success (`failing`).",
    remedy: "Mend the receiver, test it, then `POST /v1/destinations/{id}/resume`.",
  },
  {
    reason: "hold",
    means: "The receiver has asked for quiet with `Retry-After` or its rate limits.",
    remedy: "Nothing: it goes on by itself. If the receiver asks for too long, mend it.",
  },
  {
    reason: "circuit_open",
    means: "Too many of the last attempts failed. Every so often one attempt tests the receiver.",
    remedy: "Look at the log of a delivery that failed, mend the receiver. One success begins to close it.",
  },
  {
    reason: "probing",
    means: "One attempt is testing the receiver; the others wait for what it comes to.",
    remedy: "Nothing: it takes no longer than `timeout_ms`.",
  },
  {
    reason: "concurrency",
    means:
      "As many attempts are under way as the receiver takes at the moment: `max_concurrency`, or less after failures.",
    remedy:
      "If it can take more, raise `max_concurrency`; if it answers slowly, let it answer before it works.",
  },
  {
    reason: "rate",
    means: "`rate_per_second` is used up, or has been lowered for a while after 429.",
    remedy: "If the receiver can take more, raise `rate_per_second`.",
  },
  {
    reason: "slow",
    means: "The receiver answers so slowly that it is served aside.",
    remedy: "Let it answer 2xx before it works.",
  },
  {
    reason: "recovered, retried, replayed",
    means: "It was lost on its way and found again, or somebody sends it again; it waits for its turn.",
    remedy: "Nothing. A replay has a pace of its own: `GET /v1/replays/{id}`.",
  },
  {
    reason: "sealed",
    means: "`MASTER_KEYS` lacks the key that its signing secret is sealed with.",
    remedy: "Put the key back, or rotate the destination's secret.",
  },
  {
    reason: "unresolved, forbidden_address",
    means: "Its name cannot be looked up, or leads to an address that is not public.",
    remedy: "Mend its DNS, or change its URL.",
  },
  {
    reason: "scheduled",
    means: "Its `deliver_at` has not come.",
    remedy: "Nothing.",
  },
  {
    reason: "in_flight",
    means: "It is sent, and there is no answer yet.",
    remedy:
      "Nothing: it takes no longer than `timeout_ms`. If its Worker has died, the sweep sends it again.",
  },
  {
    reason: "http_500 and the like",
    means: "The receiver, or a proxy before it, has answered so.",
    remedy:
      "Read `response` in the log: it is the beginning of the answer. 502 and 504 are mostly a proxy's.",
  },
  {
    reason: "http_429",
    means: "The receiver has had enough for now.",
    remedy: "Lower `rate_per_second` or `max_concurrency` to what it can take.",
  },
  {
    reason: "http_401, http_403, http_404",
    means: "The receiver, or a firewall before it, does not accept the request.",
    remedy:
      "Compare secret, URL and own headers with what the receiver expects; let firewalls pass the user agent `Breakwater`.",
  },
  {
    reason: "timeout",
    means: "No answer within `timeout_ms`. The receiver may have processed it.",
    remedy: "Let it answer before it works, and deduplicate by `webhook-id`.",
  },
  {
    reason: "connection_lost",
    means:
      "Nobody listened at the port, or the receiver broke off: a Worker cannot tell which. It may have processed it.",
    remedy: "See whether it runs, and whether it restarts or crashes as requests come in.",
  },
  {
    reason: "refused",
    means: "Nobody listened at the port.",
    remedy: "See whether it runs, and at which port.",
  },
  {
    reason: "dns, network",
    means: "Its name does not resolve, or the connection failed otherwise, mostly at TLS.",
    remedy: "See to its DNS and its certificate, with the whole chain.",
  },
];

export const Stuck: FC = () => (
  <section aria-labelledby="stuck-in-retries">
    <h2 id="stuck-in-retries">Stuck in retries</h2>
    <p class="lede">What to look at when a delivery is not there yet, in this order.</p>
    <ol>
      {steps.map((step) => (
        <li>
          <Prose text={step} />
        </li>
      ))}
    </ol>
    <dl class="fields-of" aria-label="Reasons">
      {reasons.map(({ reason, means, remedy }) => (
        <div>
          <dt>
            <code>{reason}</code>
          </dt>
          <dd>
            <Prose text={`${means} ${remedy}`} />
          </dd>
        </div>
      ))}
    </dl>
  </section>
);
