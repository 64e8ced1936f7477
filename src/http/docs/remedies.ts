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
    "The receiver responds slowly and is served separately, so that it delays nobody.",
    "Let it respond with 2xx before it processes the event.",
  ],
  crash_loop: [
    "Invocations that sent to this destination have died, for example for lack of memory. Its deliveries are sent apart from all others, a few at a time.",
    "Nothing, if it passes. If it stays, look for `exceededMemory` or `exceededCpu` in `wrangler tail`, and report it.",
  ],
  group: [
    "The receiver's shared limit applies: destinations that share it, of all tenants, take turns, and stop together when it fails or asks for less.",
    "Nothing: the destination gets its turn. `GET /v1/groups/{name}` shows the group to an operator.",
  ],
  "recovered, retried, replayed": [
    "It was lost and found again, or an operator has requeued it; it waits for its turn.",
    "Nothing. A replay has a rate of its own: `GET /v1/replays/{id}`.",
  ],
  "order, order_held": [
    "An earlier event of the same key has not ended, or has just ended. `waits_for` names the first one of the key; if that is dead, the key is held.",
    "Look at that delivery. A held key continues when it is retried with success, cancelled, or skipped: `POST /v1/deliveries/{id}/skip`.",
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
    "The token endpoint of the destination's `auth` cannot be reached, fails, redirects, or gives no token.",
    "Nothing, if it passes: the endpoint is called again, with growing delays up to 15 minutes. Otherwise send a test event, which shows the endpoint's answer, and repair the endpoint or `auth.token_url`.",
  ],
  token_refused: [
    "The token endpoint of the destination's `auth` refuses the client: wrong credentials, or a scope that it may not have.",
    "Send a test event, which shows the endpoint's answer; then set `auth` again.",
  ],
  unbound: [
    "The destination is a queue or a service whose binding the deployment does not have, or no longer lets the tenant use.",
    "Bind it, and name it with the tenant in `DESTINATION_BINDINGS`.",
  ],
  transform_failed: [
    "The destination's transformation, or the conversion of the event's data to an earlier version of its type, fails for this event, makes a request that may not be sent, or is code that cannot run now. `transform_fault` of the delivery says what and where. No attempt is used up.",
    "Correct the transformation or the conversion: what waits is sent by the corrected version, or, where code could not run, within minutes by itself. After more than forty such deliveries the destination is paused: resume it.",
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
    "The receiver read the event and rejected its content. The same bytes get the same answer again.",
    "Read `response` in the log. Let the receiver store what it cannot process, with the reason, and respond with 2xx; once it is mended, replay the dead deliveries.",
  ],
  http_401: [
    "The receiver does not accept the signature or the credentials.",
    "Compare the secret, `auth` and your headers with what the receiver expects.",
  ],
  http_403: [
    "The receiver, or a firewall before it, forbids the request.",
    "Let firewalls pass the user agent `Breakwater`, then compare the credentials.",
  ],
  http_404: [
    "Nothing answers at this path: often a deployment, or a wrong URL.",
    "Compare the URL with the receiver's routes. A preset may retry it a few times.",
  ],
  http_405: [
    "The path exists and takes no POST.",
    "Correct the URL: often it is that of a page, or it lacks the last slash.",
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
    "A proxy demands or refuses headers or a protocol.",
    "Change the proxy, or the destination's `headers`.",
  ],
  http_413: [
    "The event is larger than the receiver takes.",
    "Raise the limit of the receiver and of each proxy before it to 256 KB, or post smaller events.",
  ],
  http_451: [
    "Access is blocked for legal reasons, usually by country.",
    "Let the receiver's firewall pass the webhook's path, whatever country the request comes from.",
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
    "Let the sender pass in the receiver's WAF: a rule that skips challenges for the webhook's path and a secret header of your own, or the user agent `Breakwater`. Until then attempts fail and the circuit opens.",
  ],
  cancelled_by_request: [
    "Somebody has cancelled it, or all that waited for its destination.",
    "If it is needed after all, `POST /v1/deliveries/{id}/retry` sends it.",
  ],
  too_large: [
    "The event does not fit into a message of the destination's queue, which has room for 120,000 bytes. It ended without an attempt.",
    "Post smaller events, or deliver them to an endpoint or a service.",
  ],
  "permanent, gone": [
    "The receiver's last answer refuses it for good; after a 410 the destination is paused.",
    "Repair the receiver by what that answer says, then `POST /v1/deliveries/{id}/retry`.",
  ],
  "exhausted, expired": [
    "The retry policy gave up: all attempts are used up, or the age limit or the event's `ttl` has passed.",
    "Repair the receiver by its last failure, then `POST /v1/deliveries/{id}/retry`, or `POST /v1/replays` for a period.",
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
    "Somebody has deleted its destination, which cancels what has not ended.",
    'Nothing. A replay with `include: "missing"` sends past events to another destination.',
  ],
  erased: [
    "Its content has been erased, so it cannot be sent. An attempt in flight at that moment may have arrived.",
    "Nothing: erased content cannot be restored. To send it after all, post the event again.",
  ],
  transformed: [
    "The destination's transformation leaves the event out: `{% cancel %}`, a body that comes out empty, or code that returns null.",
    "Nothing, if that is meant. Otherwise preview the transformation on this event.",
  ],
};

export const remedies = Object.entries(reasons).map(([reason, [meaning, remedy]]) => ({
  reason,
  meaning,
  remedy,
}));
