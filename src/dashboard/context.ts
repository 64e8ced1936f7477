/** What a request for a page carries: the services, and the session of the person who asks. */
import type { Context } from "hono";
import type { Principal } from "../api/auth.ts";
import type { Services } from "../services.ts";

export type Visitor = Readonly<{
  principal: Principal;
  /** The signed session, as the cookie carries it. */
  token: string;
  sessionId: string;
}>;

export type DashboardEnv = {
  Bindings: Env;
  Variables: {
    services: Services;
    /** Set on every page behind the door. */
    visitor: Visitor;
  };
};

export type DashboardContext = Context<DashboardEnv>;
