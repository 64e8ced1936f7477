/** What a reader needs to know of the machine to judge the times measured on it. */
import { cpus, release } from "node:os";

export function machine(): string {
  const [cpu] = cpus();
  const parts = `${cpus().length} × ${cpu?.model ?? "unknown CPU"}, Linux ${release()}, Node ${process.versions.node}`;
  return `Machine: ${parts}. Load and receivers run on it too.`;
}
