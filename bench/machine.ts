/** Describes the machine, so that readers can judge the times measured on it. */
import { cpus, release } from "node:os";

export function machine(): string {
  return `Machine: ${machineParts()}. Load and receivers run on it too.`;
}

export function machineParts(): string {
  const [cpu] = cpus();
  return `${cpus().length} × ${cpu?.model ?? "unknown CPU"}, Linux ${release()}, Node ${process.versions.node}`;
}
