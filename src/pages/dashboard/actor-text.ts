/** Who changed something, in words. */
import type { AuditEntryView } from "../../features/audit/schema.ts";

const actorTexts: Readonly<Record<AuditEntryView["actor"]["kind"], string>> = {
  api_key: "By a key",
  admin_key: "By ADMIN_KEY",
  dashboard: "At the dashboard",
  portal: "In the portal",
  binding: "By a Worker's binding",
  agent: "By an agent",
  breakwater: "By Breakwater",
};

export function actorText({ kind, key, person, approver }: AuditEntryView["actor"]): string {
  const who = person ?? key;
  const text = who === null ? actorTexts[kind] : `${actorTexts[kind]}, ${who}`;
  if (approver === undefined) return text;
  const approved = actorText(approver);
  return `${text}; approved ${approved.charAt(0).toLowerCase()}${approved.slice(1)}`;
}
