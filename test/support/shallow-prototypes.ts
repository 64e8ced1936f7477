/**
 * Keeps calls to objects as fast as they are in a new Worker. The test pool's stand-in for a class of objects wraps the
 * class's prototype in one more Proxy for each object that is made, so that every call passes through as many of them as
 * there have been objects: after a thousand gates, a call takes a tenth of a second. All these Proxies do the same, so the
 * first one suffices.
 */
const { Proxy: Plain } = globalThis;

/** Part of the source of the pool's handlers, and of no other. */
const MARK = "getUnknownPrototypeKey";

const wrapped = new WeakSet<object>();

function construct(_: unknown, [target, handler]: [object, ProxyHandler<object>]): object {
  if (!String(handler.get).includes(MARK)) return new Plain(target, handler);
  if (wrapped.has(target)) return target;
  const proxy = new Plain(target, handler);
  wrapped.add(proxy);
  return proxy;
}

const DONE = Symbol.for("shallow prototypes");

// Once, although every file of tests that share a Worker begins with it.
if (!(DONE in Plain)) {
  globalThis.Proxy = new Plain<ProxyConstructor>(Plain, { construct });
  Object.assign(Plain, { [DONE]: true });
}
