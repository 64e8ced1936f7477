/** The results of actions at the dashboard. */
import { kitTexts } from "../ui/kit-texts.ts";

export const outcomes = {
  "created-before":
    "This form was sent twice. It created this destination the first time, and nothing the second time. To create another destination, open a new form.",
  "rotated-before":
    "This form was sent twice. The secret was rotated the first time only, and the new secret was shown once. If you did not save it, rotate the secret again.",
  paused: "Paused. New events join the backlog until you resume the destination.",
  resumed: "Resumed. The backlog is sent now, starting with one attempt at a time.",
  "hold-cleared": "Hold cleared. The backlog is sent now, starting with one attempt at a time.",
  saved: kitTexts.notices.saved,
  changed: "Changes saved. They apply from the next batch.",
  unchanged: "Nothing was changed.",
  deleted: "Destination deleted. Its unfinished deliveries are cancelled.",
  revoked: "Key revoked. Within a minute it is refused everywhere.",
  settings: "Settings saved.",
  "type-saved": "Event type saved. It applies to the next event posted.",
  "types-imported": "Event types imported.",
  "type-archived": "Event type archived. Its events are still accepted and validated.",
  "type-restored": "Event type restored.",
  "type-deleted": "Event type deleted. Its events are no longer validated.",
  "version-published": "Version published. Events that are posted from now on have it.",
  "version-dated": "Dates saved.",
  "group-limits": "Limits saved. They apply within ten seconds.",
  "action-approved": "Approved. The answer of the tool is below.",
  "action-refused": "Refused. Nothing is changed.",
  "group-reset": "The group is tried again, from one attempt at a time.",
  limits: "Limits saved. They apply from the next batch.",
  policy: "Retry policy saved. It applies from the next attempt.",
  retried: "The delivery is in the backlog. It is sent again as soon as its destination has capacity.",
  "tried-now": "The destination allows an attempt. It is made when the delivery's turn in the backlog comes.",
  "tried-now-probe":
    "The delivery may be sent as the circuit's probe. If it succeeds, the circuit closes. If it fails, the circuit opens for longer.",
  "delivery-cancelled": "Cancelled. No more attempts are made. You can send it again later.",
  "delivery-skipped": "Skipped. The delivery stays dead, and its key continues with the next one.",
  "waiting-cancelled": "The waiting deliveries are cancelled. You can send each again from its event's page.",
  "waiting-cancelled-partly": "Some of the waiting deliveries are cancelled. Repeat to cancel the rest.",
  replaying: "Replay started.",
  "replay-paused": "Replay paused.",
  "replay-resumed": "Replay resumed.",
  "replay-cancelled": "Replay cancelled. Deliveries already in the backlog are still sent.",
} as const;

export type ActionOutcome = keyof typeof outcomes;

/** Where to redirect to after an action, so that reloading the page does not repeat it. */
export function outcomeAt(path: string, outcome: ActionOutcome, anchor = ""): string {
  return `${path}?done=${outcome}${anchor}`;
}
