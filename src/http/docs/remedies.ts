/**
 * The reasons why a delivery has not arrived yet, and what to do about each. The reference at /docs renders this as
 * HTML, and `npm run figures` writes it into docs/troubleshooting.md.
 */

/** The questions to check, in this order. */
export const steps: readonly string[] = [
  "The delivery: `GET /v1/deliveries/{id}`, or its event in the dashboard. `state` and `reason` say why it has not arrived, `next_attempt_at` or `waiting_until` when it continues, and `log` how each attempt ended.",
  "The destination: `GET /v1/destinations/{id}/health`, or its page in the dashboard. It shows whether the destination is paused, held or behind an open circuit, how much waits, and its traffic of the last 15 minutes.",
  "The receiver: `POST /v1/destinations/{id}/test` sends it a signed event at once and shows the request and the response. It bypasses an open circuit and a pause.",
  "The deployment: `GET /v1/health`. If the sweep has stalled or a retry is long overdue, the destination is not the cause.",
];

/** By the reason, or several with a comma between: what it means, and what to do. */
const reasons: Readonly<Record<string, readonly [meaning: string, remedy: string]>> = {
  paused: [
    "An operator has paused the destination, or Breakwater has: after a 410 (`gone`), more than a hundred refusals in a row (`rejecting`), five days without a success (`failing`) or more than forty deliveries that its transformation failed for (`transform_failing`).",
    "Repair the receiver, test it, then `POST /v1/destinations/{id}/resume`.",
  ],
  hold: [
    "The receiver asked Breakwater to wait, with `Retry-After` or its rate limit headers.",
    "Nothing: deliveries continue when the hold ends. If it is too long, correct the receiver, then `POST /v1/destinations/{id}/clear-hold`.",
  ],
  circuit_open: [
    "Too many of the latest attempts failed. From time to time one attempt probes the receiver.",
    "Read the log of a failed delivery, and repair the receiver. A success starts to close the circuit.",
  ],
  probing: [
    "One attempt probes the receiver; the other deliveries wait for its result.",
    "Nothing: it takes at most `timeout_ms`.",
  ],
  concurrency: [
    "As many attempts are under way as are allowed now: `max_concurrency`, or fewer after failures. For about a minute after a restart of the destination's gate, those that it may have permitted before count too.",
    "If the receiver can take more, raise `max_concurrency`. If it is slow, let it respond before it processes the event.",
  ],
  rate: [
    "`rate_per_second` is used up, or is reduced for a while after a 429.",
    "If the receiver can take more, raise `rate_per_second`.",
  ],
  slow: [
    "The receiver responds slowly and is served separately, so that it delays no other.",
    "Let it respond with 2xx before it processes the event.",
  ],
  crash_loop: [
    "Invocations that sent to this destination have died, for example for lack of memory. Its deliveries are sent separately from all others, a few at a time.",
    "Nothing, if it passes. If it stays, look for `exceededMemory` or `exceededCpu` in `wrangler tail`, and report it.",
  ],
  group: [
    "The receiver's shared limit applies: destinations that share it, of all tenants, take turns, and stop together when it fails or asks for less.",
    "Nothing: the destination gets its turn. `GET /v1/groups/{name}` shows the group to an operator.",
  ],
  "recovered, retried, replayed": [
    "It was lost and found again, or an operator has requeued it; it waits for its turn.",
    "Nothing. A replay has its own rate: `GET /v1/replays/{id}`.",
  ],
  "order, order_held": [
    "An earlier event of the same key has not ended, or has just ended. `waits_for` names the first one of the key; if that is dead, the key is held.",
    "Check that delivery. A held key continues when it is retried with success, cancelled, or skipped: `POST /v1/deliveries/{id}/skip`.",
  ],
  sealed: [
    "`MASTER_KEYS` lacks the key that encrypts the destination's signing secret, headers, `auth` or `token`.",
    "Restore the key, or rotate the destination's secret and set its headers, `auth` and `token` again.",
  ],
  "unresolved, forbidden_address": [
    "The host name cannot be looked up, or leads to an address that is not public.",
    "Correct its DNS records, or change the URL.",
  ],
  token_unavailable: [
    "The token endpoint of the destination's `auth` cannot be reached, fails, redirects, or returns no token.",
    "Nothing, if it passes: the endpoint is called again, with growing delays up to 15 minutes. Otherwise send a test event, which shows the endpoint's answer, and repair the endpoint or `auth.token_url`.",
  ],
  token_refused: [
    "The token endpoint of the destination's `auth` refuses the client: wrong credentials, or a scope that is not granted.",
    "Send a test event, which shows the endpoint's answer; then set `auth` again.",
  ],
  unbound: [
    "The destination is a queue or a service whose binding the deployment does not have, or no longer lets the tenant use.",
    "Bind it, and name it with the tenant in `DESTINATION_BINDINGS`.",
  ],
  transform_failed: [
    "The destination's transformation, or the conversion of the event's data to an earlier version of its type, fails for this event, makes a request that may not be sent, or is code that cannot run now. `transform_fault` of the delivery says what and where. No attempt is used up.",
    "Correct the transformation or the conversion: the corrected version sends what waits. Where code could not run, deliveries continue by themselves within minutes. After more than forty such deliveries the destination is paused: resume it.",
  ],
  scheduled: ["Its `deliver_at` is in the future.", "Nothing."],
  in_flight: [
    "It was sent, and there is no response yet.",
    "Nothing: it takes at most `timeout_ms`. If its Worker has died, the sweep sends it again.",
  ],
  "http_500 and the like": [
    "The receiver, or a proxy before it, has responded with this status.",
    "Read `response` in the log: it is the beginning of the response body. 502 and 504 usually come from a proxy.",
  ],
  http_429: [
    "The receiver cannot take more at present.",
    "Lower `rate_per_second` or `max_concurrency` to what it can take.",
  ],
  "http_400, http_422": [
    "The receiver read the event and rejected its content. The same bytes would get the same answer again.",
    "Read `response` in the log. Let the receiver store what it cannot process, with the reason, and respond with 2xx. When it is fixed, replay the dead deliveries.",
  ],
  http_401: [
    "The receiver does not accept the signature or the credentials.",
    "Compare the secret, `auth` and your headers with what the receiver expects.",
  ],
  http_403: [
    "The receiver, or a firewall before it, forbids the request.",
    "Let firewalls allow the user agent `Breakwater`, then compare the credentials.",
  ],
  http_404: [
    "Nothing answers at this path: often a deployment, or a wrong URL.",
    "Compare the URL with the receiver's routes. A preset may retry it a few times.",
  ],
  http_405: [
    "The path exists, but does not accept POST.",
    "Correct the URL: often it is the URL of a page, or lacks the trailing slash.",
  ],
  "http_406, http_415": [
    "The receiver does not take `application/json`.",
    "Let it accept this content type.",
  ],
  http_410: [
    "The receiver wants no more events. The destination is paused as `gone`.",
    "Ask its owner before you resume it.",
  ],
  "http_411, http_412, http_417, http_426, http_428, http_431": [
    "A proxy requires or refuses a header or a protocol.",
    "Change the proxy, or the destination's `headers`.",
  ],
  http_413: [
    "The event is larger than the receiver accepts.",
    "Raise the limit of the receiver and of each proxy before it to 256 KB, or post smaller events.",
  ],
  http_451: [
    "Access is blocked for legal reasons, usually by country.",
    "Let the receiver's firewall allow the webhook's path for every country.",
  ],
  timeout: [
    "There was no response within `timeout_ms`, or Cloudflare could not connect to the receiver in time (522, 524). The receiver may have processed the event.",
    "Let it respond before it processes the event, and deduplicate by `webhook-id`.",
  ],
  connection_lost: [
    "Nothing listened on the port, or the receiver closed the connection: a Worker cannot tell which. The receiver may have processed the event.",
    "Check whether it runs, and whether it restarts or crashes when requests come in.",
  ],
  refused: [
    "Nothing listened on the port, or nothing is connected to the receiver's tunnel.",
    "Check whether the receiver runs, and on which port.",
  ],
  dns: [
    "The host name does not resolve.",
    "Check its DNS records. Behind Cloudflare, check the address or name that its record points to.",
  ],
  tls: [
    "The TLS handshake failed, or the certificate is not valid.",
    "Check the certificate, including its names, its expiry and the whole chain.",
  ],
  network: [
    "The connection failed for another reason: there is no route to the receiver, or TLS failed; a queue did not take the message; or the Worker behind a service binding threw.",
    "Check its address, its firewall and its certificate, or the log of the other Worker.",
  ],
  challenged: [
    "A firewall before the receiver (Cloudflare's WAF or bot protection) answered with a challenge, which only a browser can solve. The receiver did not get the request.",
    "Add a rule to the receiver's WAF that skips challenges for the webhook's path and a secret header of your own, or for the user agent `Breakwater`. Until then attempts fail and the circuit opens.",
  ],
  cancelled_by_request: [
    "It was cancelled on request, alone or with everything that waited for its destination.",
    "If it is still needed, `POST /v1/deliveries/{id}/retry` sends it.",
  ],
  too_large: [
    "The event does not fit into a message of the destination's queue, which has room for 120,000 bytes. It ended without an attempt.",
    "Post smaller events, or deliver them to an endpoint or a service.",
  ],
  "permanent, gone": [
    "The receiver's last answer rejects it permanently; after a 410 the destination is paused.",
    "Repair the receiver as that answer suggests, then `POST /v1/deliveries/{id}/retry`.",
  ],
  "exhausted, expired": [
    "The retry policy gave up: all attempts are used up, or the age limit or the event's `ttl` has passed.",
    "Find the cause in the last failure, repair the receiver, then `POST /v1/deliveries/{id}/retry`, or `POST /v1/replays` for a period.",
  ],
  forbidden_target: [
    "Its URL may not be called: it is not public, is the deployment's own, or cannot be read.",
    "Correct the URL, then `POST /v1/deliveries/{id}/retry`.",
  ],
  "corrupt, event_removed": [
    "The stored event is damaged, or was removed from the database by hand: there is nothing to send.",
    "Post the event again. Report damage with the delivery's id and its log lines.",
  ],
  poison: [
    "Its message came back 100 times while the delivery was alone in it, without an outcome.",
    "Keep its id and its log lines, and report it. `POST /v1/deliveries/{id}/retry` sends it once more.",
  ],
  destination_deleted: [
    "Its destination was deleted, which cancels deliveries that have not ended.",
    'Nothing. A replay with `include: "missing"` sends past events to another destination.',
  ],
  erased: [
    "Its content has been erased, so it cannot be sent. An attempt in flight at that moment may have arrived.",
    "Nothing: erased content cannot be restored. To send the content anyway, post the event again.",
  ],
  transformed: [
    "The destination's transformation leaves the event out: `{% cancel %}`, an empty body, or code that returns null.",
    "Nothing, if this is intended. Otherwise preview the transformation on this event.",
  ],
};

export const remedies = Object.entries(reasons).map(([reason, [meaning, remedy]]) => ({
  reason,
  meaning,
  remedy,
}));
