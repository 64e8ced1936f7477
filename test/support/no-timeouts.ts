/**
 * Requests to receivers, resolvers and token endpoints would time out in real time: on a slow machine, or in a later
 * test after a test has left one hanging. So no timeout passes here, except those under a second, which a test sets in
 * order to see one pass.
 */
const { timeout } = AbortSignal;

AbortSignal.timeout = (ms) => (ms < 1_000 ? timeout.call(AbortSignal, ms) : new AbortController().signal);
