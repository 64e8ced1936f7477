/** Pausing, resuming and cancelling a replay. Each may be repeated: the answer is the replay. */
import { createRoute } from "@hono/zod-openapi";
import { sendForStep } from "../delivery/replay.ts";
import type { Services } from "../services.ts";
import { withParts } from "../store/replay-parts.ts";
import { changeReplay, findReplay, type Replay, type ReplayChange } from "../store/replays.ts";
import type { ReplayState } from "../store/schema.ts";
import { requires } from "./auth.ts";
import type { Api } from "./context.ts";
import { noSuch, problem, problemResponses } from "./problems.ts";
import { replaySchema } from "./replay-schema.ts";
import { replayView } from "./replay-view.ts";
import { idParam, jsonAnswer } from "./route-parts.ts";

const common = {
  method: "post" as const,
  tags: ["Replays"],
  middleware: [requires("admin")],
  request: { params: idParam },
  responses: { 200: jsonAnswer(replaySchema, "The replay."), ...problemResponses(401, 403, 404, 409) },
};

const pause = createRoute({
  ...common,
  path: "/v1/replays/{id}/pause",
  summary: "Pause a replay",
  description: "It sets no more to wait until it is resumed.",
});
const resume = createRoute({
  ...common,
  path: "/v1/replays/{id}/resume",
  summary: "Resume a replay",
  description: "It goes on where it was, no faster than it began.",
});
const cancel = createRoute({
  ...common,
  path: "/v1/replays/{id}/cancel",
  summary: "Cancel a replay",
  description: "It sets no more to wait. What waits already is still sent.",
});

/** A change of state: from which states, and what it makes of the replay. */
type Turn = Readonly<{
  to: ReplayState;
  from: readonly ReplayState[];
  change: (replay: Replay, now: number) => ReplayChange;
}>;

const turns = {
  pause: { to: "paused", from: ["running"], change: () => ({ reason: "manual" }) },
  // It begins again no faster than it began.
  resume: {
    to: "running",
    from: ["paused"],
    change: ({ pace, ratePerMinute }, now) => ({
      reason: null,
      pace: Math.min(pace, ratePerMinute),
      nextStepAt: now,
    }),
  },
  cancel: {
    to: "cancelled",
    from: ["running", "paused"],
    change: (_, now) => ({ reason: "manual", endedAt: now }),
  },
} as const satisfies Record<string, Turn>;

export function registerReplayStatus(api: Api): void {
  const routes = [
    [pause, turns.pause],
    [resume, turns.resume],
    [cancel, turns.cancel],
  ] as const;
  for (const [route, turn] of routes) {
    api.openapi(route, async (c) => {
      const services = c.get("services");
      const { id } = c.req.valid("param");
      const before = await findReplay(services, id, c.get("principal").tenant);
      if (before === undefined) return noSuch("replay", id);
      const after = await turned(services, before, turn);
      if (after.state !== turn.to) return problem(409, `The replay is ${after.state}: it has ended`);
      return c.json(replayView(after), 200);
    });
  }
}

/** The replay after the turn; as it is when it can no longer be turned, or has been already. */
async function turned(services: Services, replay: Replay, { to, from, change }: Turn): Promise<Replay> {
  const now = services.now();
  const made = { ...change(replay, now), state: to };
  const after = await changeReplay(services.db, replay.id, from, made, now);
  if (after === undefined) return (await findReplay(services, replay.id, undefined)) ?? replay;
  services.log({ what: `replay_${to}`, replay: replay.id, destination: replay.destinationId });
  if (to === "running") services.background(sendForStep(services, replay.id, now));
  const [shown = after] = await withParts(services, [after]);
  return shown;
}
