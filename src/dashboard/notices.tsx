/** What came of the thing that a person has just done. Named in the address, never spelled there. */
import type { FC } from "hono/jsx";
import type { Refused } from "./inside.ts";

const done = {
  created: "The destination is there. What is posted from now on goes to it.",
  "created-before":
    "This form had created this destination already, and did nothing more. For another one, open a new form.",
  "rotated-before":
    "The secret has been rotated already, and this form did nothing more. It was shown once: if nobody has kept it, make another one.",
  paused: "Paused. What is posted meanwhile waits.",
  resumed: "Resumed. What has waited goes out, beginning with one at a time.",
  "hold-cleared": "The hold is over. What has waited goes out, beginning with one at a time.",
  limits: "Saved. It holds from the next batch.",
  policy: "Saved. It holds from the next attempt.",
  retried: "It waits for its destination's door, and is tried again.",
  replaying: "The replay has begun.",
  "replay-paused": "The replay is paused.",
  "replay-resumed": "The replay goes on.",
  "replay-cancelled": "The replay is cancelled. What waits already is still sent.",
} as const;

export type Done = keyof typeof done;

/** The address to go to after something has been done, so that reloading does not do it again. */
export function doneAt(path: string, what: Done, anchor = ""): string {
  return `${path}?done=${what}${anchor}`;
}

export const DoneNotice: FC<{ what: string | undefined }> = ({ what }) =>
  what !== undefined && Object.hasOwn(done, what) ? (
    <output class="notice tone-good">{done[what as Done]}</output>
  ) : null;

/** Why something was not done, field by field. */
export const RefusedNotice: FC<{ refused: Refused }> = ({ refused: { detail, errors } }) => (
  <div class="notice tone-bad" role="alert">
    {errors.length === 0 ? (
      <p>{`${detail}.`.replace(/\.\.$/, ".")}</p>
    ) : (
      <ul>
        {errors.map(({ field, fault, expected }) => (
          <li>{`${field} ${fault}; expected ${expected}.`}</li>
        ))}
      </ul>
    )}
  </div>
);
