/** The log of Workers, a line of JSON each. */

/** `what` of a line; `other` for lines that are not Breakwater's. */
export function kindOf(line: string): string {
  return parsed(line).what ?? "other";
}

/**
 * Whether the line says that a version could not read what another has written. Other lines are about failing receivers, and
 * calls that a restart has cut off.
 */
export function isMisreading(line: string): boolean {
  const { what = "", status } = parsed(line);
  // Transient errors of the platform.
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
