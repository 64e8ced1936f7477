/**
 * Requests to receivers, resolvers and token endpoints time out in real time: on a slow machine, or in a later test when
 * a test leaves one hanging. So no timeout ends here, but those under a second, which a test sets to see one end.
 */
const { timeout } = AbortSignal;

AbortSignal.timeout = (ms) => (ms < 1_000 ? timeout.call(AbortSignal, ms) : new AbortController().signal);
