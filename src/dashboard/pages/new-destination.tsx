/** A new destination, and the one moment at which its secret is shown. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { newTokenId } from "../../api/auth.ts";
import { retryPreviewOf } from "../../core/retry/policy.ts";
import { type Destination, retryPolicyOf } from "../../db/destinations.ts";
import { type Form, listIn, numberIn, textIn } from "../components/forms.tsx";
import { showPage } from "../components/layout.tsx";
import { Copyable, doneAt, RefusedNotice } from "../components/parts.tsx";
import type { CallApi, Refused } from "../internal-client.ts";
import type { DashboardContext, DashboardEnv } from "../session.ts";
import { summaryOf } from "../simulator/schedule-chart.tsx";
import { showDestination } from "./destination.tsx";
import { showRefusal } from "./error-pages.tsx";

const PATH = "/dashboard/destinations/new";

export function registerNewDestination(app: Hono<DashboardEnv>, callApi: CallApi): void {
  app.get(PATH, (c) => showForm(c, {}));

  app.post(PATH, async (c) => {
    const form = await c.req.parseBody();
    const answer = await callApi(c, "POST", "/v1/destinations", inputIn(form), textIn(form, "form"));
    if (answer.ok) return showSecret(c, answer.json, "Created");
    const there = answer.location?.split("/").at(-1);
    return there === undefined
      ? showForm(c, form, answer)
      : c.redirect(doneAt(`/dashboard/destinations/${there}`, "created-before"), 303);
  });

  app.post("/dashboard/destinations/:id/rotate", async (c) => {
    const id = c.req.param("id");
    const form = await c.req.parseBody();
    const hours = numberIn(form, "overlap_hours");
    const rotation = {
      overlap_s: typeof hours === "number" ? Math.round(hours * 3600) : hours,
      // A form that does not say which secret it means to replace replaces none.
      secret_version: numberIn(form, "secret_version") ?? 0,
    };
    const answer = await callApi(c, "POST", `/v1/destinations/${id}/rotate-secret`, rotation);
    if (answer.ok) return showSecret(c, answer.json, "Rotated");
    // Whoever may not rotate has no such form on the page: nothing typed is lost.
    if (answer.status === 403) return showRefusal(c, answer, `/dashboard/destinations/${id}`);
    const isRepeat = answer.status === 409 && answer.errors.some(({ field }) => field === "secret_version");
    return isRepeat
      ? c.redirect(doneAt(`/dashboard/destinations/${id}`, "rotated-before", "#secret-head"), 303)
      : showDestination(c, id, { refused: answer });
  });
}

/** An empty field is left out: the API has the default. */
function inputIn(form: Form) {
  const given = {
    url: textIn(form, "url") ?? "",
    description: textIn(form, "description"),
    tenant: textIn(form, "tenant"),
    event_types: listIn(form, "event_types") ?? undefined,
    max_concurrency: numberIn(form, "max_concurrency") ?? undefined,
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

function showForm(c: DashboardContext, typed: Form, refused?: Refused) {
  const tenant = c.get("visitor").principal.tenant;
  return showPage(
    c,
    { title: "New destination" },
    <NewDestination typed={typed} asksTenant={tenant === undefined} {...(refused && { refused })} />,
    refused ? 422 : 200,
  );
}

type Props = Readonly<{ typed: Form; asksTenant: boolean; refused?: Refused }>;

const NewDestination: FC<Props> = ({ typed, asksTenant, refused }) => {
  const value = (name: string) => String(typed[name] ?? "");
  return (
    <section class="narrow">
      <p class="crumb">
        <a href="/dashboard">Overview</a>
      </p>
      <h1>New destination</h1>
      <form class="stack" method="post" action={PATH}>
        <input type="hidden" name="form" value={textIn(typed, "form") ?? newTokenId()} autocomplete="off" />
        {refused && <RefusedNotice refused={refused} />}
        <label>
          URL
          <input
            type="url"
            name="url"
            required
            placeholder="https://example.com/webhooks"
            value={value("url")}
          />
        </label>
        <label>
          Name
          <input name="description" maxlength={500} placeholder="Billing" value={value("description")} />
        </label>
        <label>
          Event types
          <input name="event_types" placeholder="order.*, invoice.paid" value={value("event_types")} />
          <span class="hint">Exact names and prefix.*; empty takes all.</span>
        </label>
        <div class="fields">
          {asksTenant && (
            <label>
              Tenant
              <input name="tenant" placeholder="default" value={value("tenant")} />
            </label>
          )}
          <label>
            Attempts at once, at most
            <input
              type="number"
              name="max_concurrency"
              min={1}
              max={1000}
              placeholder="10"
              value={value("max_concurrency")}
            />
          </label>
        </div>
        <div class="actions">
          <button type="submit" class="main">
            Create destination
          </button>
        </div>
      </form>
    </section>
  );
};

/** Not after a redirect: nothing that is stored, and no address, may ever show it again. */
function showSecret(
  c: DashboardContext,
  json: Readonly<Record<string, unknown>>,
  what: "Created" | "Rotated",
) {
  const { id, secret } = json as Readonly<{ id: string; secret?: string }>;
  const path = `/dashboard/destinations/${id}`;
  return showPage(
    c,
    { title: "Signing secret" },
    <section class="narrow">
      <h1>{what === "Created" ? "The destination is there." : "The new secret signs from now on."}</h1>
      <p class="lede">
        {what === "Created"
          ? "Its receiver verifies signatures with this secret. It is shown this once."
          : "Those before sign beside it until their overlaps end. It is shown this once."}
      </p>
      <div class="stack">
        {secret !== undefined && <Copyable id="secret" text={secret} label="The signing secret" />}
        <div class="actions">
          <a class="button" href={path}>
            Go to the destination
          </a>
        </div>
      </div>
    </section>,
  );
}

// §§ A destination's retry policy in a sentence, and the way to the lab, where another can be tried.

/** Attempts looked at. */
const MOST = 200;

export const RetryPolicySummary: FC<{ row: Destination }> = ({ row }) => {
  const policy = retryPolicyOf(row);
  return (
    <section aria-labelledby="retry-policy">
      <div class="head">
        <h2 id="retry-policy">Retry policy</h2>
      </div>
      <p class="said">{summaryOf(policy, retryPreviewOf(policy, MOST))}</p>
      <a class="button" href={`/dashboard/lab?destination=${row.id}`}>
        See it in the policy lab
      </a>
    </section>
  );
};
