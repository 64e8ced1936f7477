/** The pages that dashboard and portal share are registered at each, which does the rest in its own way. */
import type { Context, Env } from "hono";
import type { Child } from "hono/jsx";
import type { MiddlewareHandler } from "hono/types";
import type { PortalAction } from "../../core/portal-access.ts";
import type { Refused, Result } from "../../core/result.ts";
import type { Caller } from "../../features/service.ts";
import type { Destination } from "../../store/destination.ts";
import type { Form } from "./format.ts";
import type { PageView } from "./page.tsx";

export type PageAnswer = Response | Promise<Response>;

export type Surface<E extends Env> = Readonly<{
  /** The paths of destinations, deliveries and agents' requests. */
  destinations: string;
  deliveries: string;
  actions: string;
  callerOf: (c: Context<E>) => Caller;
  find: (c: Context<E>, id: string) => Promise<Result<Destination>>;
  viewOf: (c: Context<E>) => PageView;
  /** Refuses a visitor without the right, if services do not report it well. */
  may: (action: PortalAction) => MiddlewareHandler<E>;
  /** @param frame `place`: in the navigation; `refused`: why a form is shown again */
  showPage: (
    c: Context<E>,
    frame: Readonly<{ title: string; place?: "actions"; refused?: Refused | undefined }>,
    content: Child,
  ) => PageAnswer;
  showMissing: (c: Context<E>) => PageAnswer;
  /** @param sentence the reason, where the refusal's own is not for visitors */
  showRefused: (c: Context<E>, refused: Refused, back: string, sentence?: string) => PageAnswer;
}>;

/** The paths of a page of one destination: of its route, and of the destination in the address. */
export function pathsOf<E extends Env>({ destinations }: Surface<E>, page: string) {
  const idIn = (c: Context<E>) => c.req.param("id") ?? "";
  return {
    route: `${destinations}/:id/${page}` as const,
    idIn,
    home: (c: Context<E>) => `${destinations}/${idIn(c)}`,
    path: (c: Context<E>) => `${destinations}/${idIn(c)}/${page}`,
  };
}

export const formOf = async <E extends Env>(c: Context<E>): Promise<Form> => c.req.parseBody();
