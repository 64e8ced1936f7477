/** The log of Workers, a line of JSON each. */

/** `what` of a line; `other` for what is none of Breakwater's. */
export function kindOf(line: string): string {
  return parsed(line).what ?? "other";
}

/**
 * Whether the line says that a version could not work with what another has written. What else is logged is receivers that
 * fail, and calls that a restart has cut off.
 */
export function isMisreading(line: string): boolean {
  const { what = "", status } = parsed(line);
  // Trouble of the platform that passes.
  if (status === 503) return false;
  return /^(request_failed|page_failed|gate_state_corrupt|message_unreadable|secret_unreadable|misconfigured)$/.test(
    what,
  );
}

function parsed(line: string): Readonly<{ what?: string; status?: number }> {
  try {
    return JSON.parse(line) ?? {};
  } catch {
    return {};
  }
}
