/** Every service of every feature: a new one is found as soon as it is written. */
import type { RefusalKind } from "../../src/core/result.ts";
import type { Service } from "../../src/features/service.ts";

const modules = import.meta.glob<Record<string, unknown>>("../../src/features/*/*.ts", { eager: true });

type AnyService = Service<unknown, unknown, RefusalKind>;

/** The value as a service, where it is one. */
function asService(value: unknown): AnyService[] {
  return typeof value === "function" && "permission" in value ? [value as AnyService] : [];
}

export const everyService = Object.entries(modules).flatMap(([file, exported]) =>
  Object.entries(exported).flatMap(([name, value]) =>
    asService(value).map((service) => ({
      exported: name,
      name: `${file.replace("../../src/features/", "")} ${name}`,
      service,
    })),
  ),
);
