/**
 * For scripts that run the gate's class in Node, loaded before anything else (`node --import`): Node cannot
 * know the runtime's own module.
 */
import { registerHooks } from "node:module";

const stub = new URL("./cloudflare-workers.ts", import.meta.url).href;

registerHooks({
  resolve: (specifier, context, next) =>
    specifier === "cloudflare:workers" ? { url: stub, shortCircuit: true } : next(specifier, context),
});
