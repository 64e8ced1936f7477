/**
 * Why a delivery has not arrived yet, and what to do about it. The reference at /docs renders this as HTML, and
 * `npm run figures` writes it into docs/troubleshooting.md.
 */

/** What to check, in this order. */
export const steps: readonly string[] = [
  "The delivery: `GET /v1/deliveries/{id}`, or its event in the dashboard. `state` and `reason` say why it has not arrived, `next_attempt_at` or `waiting_until` when it continues, and `log` how each attempt ended.",
  "The destination: `GET /v1/destinations/{id}/health`, or its page in the dashboard. It shows whether the destination is paused, held or behind an open circuit, how much waits, and its traffic of the last 15 minutes.",
  "The receiver: `POST /v1/destinations/{id}/test` sends it a signed event at once and shows the request and the response. It bypasses an open circuit and a pause.",
  "The deployment: `GET /v1/health`. If the sweep has stalled or a retry is long overdue, the destination is not the cause.",
];

type Remedy = Readonly<{
  /** One reason, or several with a comma between. */
  reason: string;
  meaning: string;
  remedy: string;
}>;

export const remedies: readonly Remedy[] = [
  {
    reason: "paused",
    meaning:
      "An operator has paused the destination, or Breakwater has: after a 410 (`gone`), more than a hundred refusals in a row (`rejecting`), five days without a success (`failing`) or more than forty deliveries that its transformation failed for (`transform_failing`).",
    remedy: "Repair the receiver, test it, then `POST /v1/destinations/{id}/resume`.",
  },
  {
    reason: "hold",
    meaning: "The receiver asked Breakwater to wait, with `Retry-After` or its rate limit headers.",
    remedy:
      "Nothing: deliveries continue when the hold ends. If it is too long, correct the receiver, then `POST /v1/destinations/{id}/clear-hold`.",
  },
  {
    reason: "circuit_open",
    meaning: "Too many of the latest attempts failed. From time to time one attempt probes the receiver.",
    remedy:
      "Read the log of a failed delivery, and repair the receiver. A success starts to close the circuit.",
  },
  {
    reason: "probing",
    meaning: "One attempt probes the receiver; the other deliveries wait for its result.",
    remedy: "Nothing: it takes at most `timeout_ms`.",
  },
  {
    reason: "concurrency",
    meaning:
      "As many attempts are under way as are allowed now: `max_concurrency`, or fewer after failures. For about a minute after a restart of the destination's gate, those that it may have permitted before count too.",
    remedy:
      "If the receiver can take more, raise `max_concurrency`. If it is slow, let it respond before it processes the event.",
  },
  {
    reason: "rate",
    meaning: "`rate_per_second` is used up, or is reduced for a while after a 429.",
    remedy: "If the receiver can take more, raise `rate_per_second`.",
  },
  {
    reason: "slow",
    meaning: "The receiver responds slowly and is served separately, so that it delays nobody.",
    remedy: "Let it respond with 2xx before it processes the event.",
  },
  {
    reason: "crash_loop",
    meaning:
      "Invocations that sent to this destination have died, for example for lack of memory. Its deliveries are sent apart from all others, a few at a time.",
    remedy:
      "Nothing, if it passes. If it stays, look for `exceededMemory` or `exceededCpu` in `wrangler tail`, and report it.",
  },
  {
    reason: "group",
    meaning:
      "The receiver's shared limit applies: destinations that share it, of all tenants, take turns, and stop together when it fails or asks for less.",
    remedy: "Nothing: the destination gets its turn. `GET /v1/groups/{name}` shows the group to an operator.",
  },
  {
    reason: "recovered, retried, replayed",
    meaning: "It was lost and found again, or an operator has requeued it; it waits for its turn.",
    remedy: "Nothing. A replay has a rate of its own: `GET /v1/replays/{id}`.",
  },
  {
    reason: "order, order_held",
    meaning:
      "An earlier event of the same key has not ended, or has just ended. `waits_for` names the first one of the key; if that is dead, the key is held.",
    remedy:
      "Look at that delivery. A held key continues when it is retried with success, cancelled, or skipped: `POST /v1/deliveries/{id}/skip`.",
  },
  {
    reason: "sealed",
    meaning:
      "`MASTER_KEYS` lacks the key that encrypts the destination's signing secret, headers, `auth` or `token`.",
    remedy:
      "Restore the key, or rotate the destination's secret and set its headers, `auth` and `token` again.",
  },
  {
    reason: "unresolved, forbidden_address",
    meaning: "The host name cannot be looked up, or leads to an address that is not public.",
    remedy: "Correct its DNS records, or change the URL.",
  },
  {
    reason: "token_unavailable",
    meaning:
      "The token endpoint of the destination's `auth` cannot be reached, fails, redirects, or gives no token.",
    remedy:
      "Nothing, if it passes: the endpoint is called again, with growing delays up to 15 minutes. Otherwise send a test event, which shows the endpoint's answer, and repair the endpoint or `auth.token_url`.",
  },
  {
    reason: "token_refused",
    meaning:
      "The token endpoint of the destination's `auth` refuses the client: wrong credentials, or a scope that it may not have.",
    remedy: "Send a test event, which shows the endpoint's answer; then set `auth` again.",
  },
  {
    reason: "unbound",
    meaning:
      "The destination is a queue or a service whose binding the deployment does not have, or no longer lets the tenant use.",
    remedy: "Bind it, and name it with the tenant in `DESTINATION_BINDINGS`.",
  },
  {
    reason: "transform_failed",
    meaning:
      "The destination's transformation, or the conversion of the event's data to an earlier version of its type, fails for this event, makes a request that may not be sent, or is code that cannot run now. `transform_fault` of the delivery says what and where. No attempt is used up.",
    remedy:
      "Correct the transformation or the conversion: what waits is sent by the corrected version, or, where code could not run, within minutes by itself. After more than forty such deliveries the destination is paused: resume it.",
  },
  {
    reason: "scheduled",
    meaning: "Its `deliver_at` is in the future.",
    remedy: "Nothing.",
  },
  {
    reason: "in_flight",
    meaning: "It was sent, and there is no response yet.",
    remedy: "Nothing: it takes at most `timeout_ms`. If its Worker has died, the sweep sends it again.",
  },
  {
    reason: "http_500 and the like",
    meaning: "The receiver, or a proxy before it, has responded with this status.",
    remedy:
      "Read `response` in the log: it is the beginning of the response body. 502 and 504 usually come from a proxy.",
  },
  {
    reason: "http_429",
    meaning: "The receiver cannot take more at present.",
    remedy: "Lower `rate_per_second` or `max_concurrency` to what it can take.",
  },
  {
    reason: "http_400, http_422",
    meaning:
      "The receiver read the event and rejected its content. The same bytes get the same answer again.",
    remedy:
      "Read `response` in the log. Let the receiver store what it cannot process, with the reason, and respond with 2xx; once it is mended, replay the dead deliveries.",
  },
  {
    reason: "http_401",
    meaning: "The receiver does not accept the signature or the credentials.",
    remedy: "Compare the secret, `auth` and your headers with what the receiver expects.",
  },
  {
    reason: "http_403",
    meaning: "The receiver, or a firewall before it, forbids the request.",
    remedy: "Let firewalls pass the user agent `Breakwater`, then compare the credentials.",
  },
  {
    reason: "http_404",
    meaning: "Nothing answers at this path: often a deployment, or a wrong URL.",
    remedy: "Compare the URL with the receiver's routes. A preset may retry it a few times.",
  },
  {
    reason: "http_405",
    meaning: "The path exists and takes no POST.",
    remedy: "Correct the URL: often it is that of a page, or it lacks the last slash.",
  },
  {
    reason: "http_406, http_415",
    meaning: "The receiver does not take `application/json`.",
    remedy: "Let it accept this content type.",
  },
  {
    reason: "http_410",
    meaning: "The receiver wants no more events. The destination is paused as `gone`.",
    remedy: "Ask its owner before you resume it.",
  },
  {
    reason: "http_411, http_412, http_417, http_426, http_428, http_431",
    meaning: "A proxy demands or refuses headers or a protocol.",
    remedy: "Change the proxy, or the destination's `headers`.",
  },
  {
    reason: "http_413",
    meaning: "The event is larger than the receiver takes.",
    remedy: "Raise the limit of the receiver and of each proxy before it to 256 KB, or post smaller events.",
  },
  {
    reason: "http_451",
    meaning: "Access is blocked for legal reasons, usually by country.",
    remedy: "Let the receiver's firewall pass the webhook's path, whatever country the request comes from.",
  },
  {
    reason: "timeout",
    meaning:
      "There was no response within `timeout_ms`, or Cloudflare could not connect to the receiver in time (522, 524). The receiver may have processed the event.",
    remedy: "Let it respond before it processes the event, and deduplicate by `webhook-id`.",
  },
  {
    reason: "connection_lost",
    meaning:
      "Nothing listened on the port, or the receiver closed the connection: a Worker cannot tell which. The receiver may have processed the event.",
    remedy: "Check whether it runs, and whether it restarts or crashes when requests come in.",
  },
  {
    reason: "refused",
    meaning: "Nothing listened on the port, or nothing is connected to the receiver's tunnel.",
    remedy: "Check whether the receiver runs, and on which port.",
  },
  {
    reason: "dns",
    meaning: "The host name does not resolve.",
    remedy: "Check its DNS records. Behind Cloudflare, check the address or name that its record points to.",
  },
  {
    reason: "tls",
    meaning: "The TLS handshake failed, or the certificate is not valid.",
    remedy: "Check the certificate, including its names, its expiry and the whole chain.",
  },
  {
    reason: "network",
    meaning:
      "The connection failed for another reason: there is no route to the receiver, or TLS failed; a queue did not take the message; or the Worker behind a service binding threw.",
    remedy: "Check its address, its firewall and its certificate, or the log of the other Worker.",
  },
  {
    reason: "challenged",
    meaning:
      "A firewall before the receiver (Cloudflare's WAF or bot protection) answered with a challenge, which only a browser can solve. The receiver did not get the request.",
    remedy:
      "Let the sender pass in the receiver's WAF: a rule that skips challenges for the webhook's path and a secret header of your own, or the user agent `Breakwater`. Until then attempts fail and the circuit opens.",
  },
  {
    reason: "cancelled_by_request",
    meaning: "Somebody has cancelled it, or all that waited for its destination.",
    remedy: "If it is needed after all, `POST /v1/deliveries/{id}/retry` sends it.",
  },
  {
    reason: "too_large",
    meaning:
      "The event does not fit into a message of the destination's queue, which has room for 120,000 bytes. It ended without an attempt.",
    remedy: "Post smaller events, or deliver them to an endpoint or a service.",
  },
  {
    reason: "permanent, gone",
    meaning: "The receiver's last answer refuses it for good; after a 410 the destination is paused.",
    remedy: "Repair the receiver by what that answer says, then `POST /v1/deliveries/{id}/retry`.",
  },
  {
    reason: "exhausted, expired",
    meaning:
      "The retry policy gave up: all attempts are used up, or the age limit or the event's `ttl` has passed.",
    remedy:
      "Repair the receiver by its last failure, then `POST /v1/deliveries/{id}/retry`, or `POST /v1/replays` for a period.",
  },
  {
    reason: "forbidden_target",
    meaning: "Its URL may not be called: it is not public, is the deployment's own, or cannot be read.",
    remedy: "Correct the URL, then `POST /v1/deliveries/{id}/retry`.",
  },
  {
    reason: "corrupt, event_removed",
    meaning:
      "The stored event is damaged, or was removed from the database by hand: there is nothing to send.",
    remedy: "Post the event again. Report damage with the delivery's id and its log lines.",
  },
  {
    reason: "poison",
    meaning: "Its message came back 100 times while the delivery was alone in it, without an outcome.",
    remedy:
      "Keep its id and its log lines, and report it. `POST /v1/deliveries/{id}/retry` sends it once more.",
  },
  {
    reason: "destination_deleted",
    meaning: "Somebody has deleted its destination, which cancels what has not ended.",
    remedy: 'Nothing. A replay with `include: "missing"` sends past events to another destination.',
  },
  {
    reason: "erased",
    meaning:
      "Its content has been erased, so it cannot be sent. An attempt in flight at that moment may have arrived.",
    remedy: "Nothing: erased content cannot be restored. To send it after all, post the event again.",
  },
  {
    reason: "transformed",
    meaning:
      "The destination's transformation leaves the event out: `{% cancel %}`, a body that comes out empty, or code that returns null.",
    remedy: "Nothing, if that is meant. Otherwise preview the transformation on this event.",
  },
];
