/**
 * Keeps calls to objects as fast as in a new Worker. For each object, the test pool's stand-in for a class wraps the
 * class's prototype in one more Proxy, so that every call passes through as many Proxies as there have been objects:
 * after a thousand gates, a call takes a tenth of a second. All these Proxies do the same, so the first one suffices.
 */
const { Proxy: Plain } = globalThis;

/** A part of the source of the pool's handlers that nothing else contains. */
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

// Only once, although every test file that shares a Worker imports this.
if (!(DONE in Plain)) {
  globalThis.Proxy = new Plain<ProxyConstructor>(Plain, { construct });
  Object.assign(Plain, { [DONE]: true });
}
