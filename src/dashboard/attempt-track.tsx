/** The line on which a delivery's attempts lie. */
import type { FC } from "hono/jsx";
import { percent } from "./time-scale.ts";
import type { Mark, Track } from "./track.ts";

const LINE = 18;

const names: Readonly<Record<Mark["kind"], string>> = {
  accepted: "accepted",
  succeeded: "an attempt that succeeded",
  failed: "an attempt that failed",
  next: "the next attempt",
  now: "now",
  given_up: "given up here",
};

export const AttemptTrack: FC<{ track: Track; label: string }> = ({ track: { marks, ticks }, label }) => {
  const at = (kind: Mark["kind"]) => marks.find((mark) => mark.kind === kind)?.x;
  const past = at("now") ?? marks.at(-1)?.x ?? 0;
  const end = at("given_up") ?? past;
  return (
    <figure class="chart track">
      <svg height="44" role="img" aria-label={label}>
        {ticks.map(({ x, label }) => (
          <text x={percent(x)} y="42" text-anchor="middle">
            {label}
          </text>
        ))}
        <line class="line" x1={percent(0)} x2={percent(past)} y1={LINE} y2={LINE} />
        {end > past && <line class="wait" x1={percent(past)} x2={percent(end)} y1={LINE} y2={LINE} />}
        {marks.map((mark) => (
          <MarkShape mark={mark} />
        ))}
      </svg>
    </figure>
  );
};

const MarkShape: FC<{ mark: Mark }> = ({ mark: { kind, x } }) => {
  const title = <title>{names[kind]}</title>;
  if (kind === "now") return <line class="now" x1={percent(x)} x2={percent(x)} y1="4" y2="32" />;
  if (kind === "given_up") {
    return (
      <line class="end" x1={percent(x)} x2={percent(x)} y1={LINE - 6} y2={LINE + 6}>
        {title}
      </line>
    );
  }
  const looks = { accepted: "accepted", succeeded: "well", failed: "ill", next: "next" }[kind];
  return (
    <circle class={`dot ${looks}`} cx={percent(x)} cy={LINE} r={kind === "accepted" ? 3 : 6}>
      {title}
    </circle>
  );
};
