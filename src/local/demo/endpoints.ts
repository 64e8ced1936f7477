/** The customers' endpoints: each answers by its fate, which knows only its own requests. */
import { type Hit, type Receiver, startReceiver } from "../receiver.ts";
import { fates } from "./fates.ts";

export function startEndpoints(): Promise<Receiver> {
  const seen = new Map<string, { nth: number; firstAt: number }>();
  return startReceiver(({ path, at }: Hit) => {
    const fate = fates.find(({ name }) => path === `/${name}`);
    if (!fate) return { status: 404 };
    const { nth, firstAt } = seen.get(path) ?? { nth: 0, firstAt: at };
    seen.set(path, { nth: nth + 1, firstAt });
    return fate.answer({ nth: nth + 1, sinceFirstMs: at - firstAt });
  });
}
