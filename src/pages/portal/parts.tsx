/** Small components of the portal's pages. */
import type { Child, FC } from "hono/jsx";
import { allows, type PortalAccess } from "../../core/portal-access.ts";
import { isoTime } from "../../time.ts";
import { Copyable } from "../ui/parts.tsx";
import type { Look } from "./look.ts";

/** How long ago, with the exact time as a tooltip. */
export const PortalAgo: FC<{ look: Look; at: number; now: number }> = ({ look: { f }, at, now }) => (
  <time class="nowrap" datetime={isoTime(at)} title={`${f.moment(at)} UTC`}>
    {f.ago(at, now)}
  </time>
);

export const Copy: FC<{ look: Look; id: string; text: string; label: string }> = ({ look, ...rest }) => (
  <Copyable {...rest} verb={look.t.copy} more={(count) => look.t.moreLines(look.f.count(count))} />
);

type LabelsProps = Readonly<{
  look: Look;
  access: PortalAccess;
  event: Readonly<{ tags: readonly string[]; channels: readonly string[] }>;
}>;

/** The tags and channels of an event. Tags are removed with its contents, so who may not see these sees no tags. */
export const PortalEventLabels: FC<LabelsProps> = ({ look: { t }, access, event: { tags, channels } }) => (
  <>
    {tags.length > 0 && allows(access, "see_payload") && (
      <span class="labels sub small soft break">{t.log.tags(tags.join(", "))}</span>
    )}
    {channels.length > 0 && (
      <span class="labels sub small soft break">{t.log.channels(channels.join(", "))}</span>
    )}
  </>
);

const outcomes = [
  "created-before",
  "saved",
  "paused",
  "resumed",
  "deleted",
  "resent",
  "replaying",
  "replay-cancelled",
  "rotated-before",
  "key-revoked",
  "none-selected",
] as const;

/** The result of an action. The address names it, but never contains its text. */
type PortalOutcome = (typeof outcomes)[number];

/** Where to redirect to after an action, so that reloading the page does not repeat it. */
export function portalOutcomeAt(path: string, outcome: PortalOutcome, anchor = ""): string {
  return `${path}?done=${outcome}${anchor}`;
}

export const PortalOutcomeNotice: FC<{ look: Look; name: string | undefined }> = ({ look: { t }, name }) => {
  const outcome = outcomes.find((one) => one === name);
  return outcome === undefined ? null : <output class="notice tone-good">{t.done[outcome]}</output>;
};

type FieldProps = Readonly<{
  name: string;
  label: string;
  hint?: string | undefined;
  fault?: string | undefined;
  /** The control, given what ties it to its hint and its fault. */
  control: (attributes: Readonly<Record<string, string>>) => Child;
}>;

/** A field of a form: its label, its control, its hint, and what is wrong with it. */
export const PortalField: FC<FieldProps> = ({ name, label, hint, fault, control }) => {
  const described = [
    ...(hint === undefined ? [] : [`${name}-hint`]),
    ...(fault === undefined ? [] : [`${name}-fault`]),
  ];
  const attributes = {
    id: name,
    name,
    ...(described.length > 0 && { "aria-describedby": described.join(" ") }),
    ...(fault !== undefined && { "aria-invalid": "true" }),
  };
  return (
    <div>
      <label for={name}>{label}</label>
      {control(attributes)}
      {hint !== undefined && (
        <p class="hint" id={`${name}-hint`}>
          {hint}
        </p>
      )}
      {fault !== undefined && (
        <p class="fault" id={`${name}-fault`}>
          {fault}
        </p>
      )}
    </div>
  );
};

export const SectionHead: FC<{ id: string; title: string; children?: Child }> = ({ id, title, children }) => (
  <div class="head">
    <h2 id={id}>{title}</h2>
    {children}
  </div>
);
