/** Text for a POSIX shell, in commands that people copy. */

/** Between single quotes everything is itself; a single quote has to step outside. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
