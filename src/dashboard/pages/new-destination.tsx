/** Creates a destination, and shows a new signing secret the only time that it can be shown. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { type Refused, statusOfRefused } from "../../api/internal-client.ts";
import { listTypeNames } from "../../db/event-types.ts";
import { newTokenId } from "../../secrets/tokens.ts";
import type { CallApi } from "../call-api.ts";
import { showPage } from "../components/layout.tsx";
import { Copyable, outcomeAt, RefusedNotice } from "../components/parts.tsx";
import { type Form, listIn, numberIn, textIn } from "../format.ts";
import type { DashboardContext, DashboardEnv } from "../session.ts";

const PATH = "/dashboard/destinations/new";

export function registerNewDestination(app: Hono<DashboardEnv>, callApi: CallApi): void {
  app.get(PATH, (c) => showForm(c, {}));

  app.post(PATH, async (c) => {
    const form = await c.req.parseBody();
    const result = await callApi(c, "POST", "/v1/destinations", destinationIn(form), textIn(form, "form"));
    if (result.ok) return showSecret(c, result.json, "created");
    const existing = result.location?.split("/").at(-1);
    return existing === undefined
      ? showForm(c, form, result)
      : c.redirect(outcomeAt(`/dashboard/destinations/${existing}`, "created-before"), 303);
  });
}

/** Empty fields are left out: the API has the defaults. */
function destinationIn(form: Form) {
  const given = {
    url: textIn(form, "url") ?? "",
    description: textIn(form, "description"),
    tenant: textIn(form, "tenant"),
    event_types: listIn(form, "event_types") ?? undefined,
    max_concurrency: numberIn(form, "max_concurrency") ?? undefined,
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

/** Event types that the form suggests; the others can be typed. */
const MOST_SUGGESTED = 100;

async function showForm(c: DashboardContext, typed: Form, refused?: Refused) {
  const { tenant } = c.get("visitor").principal;
  const types = await listTypeNames(c.get("services").db, MOST_SUGGESTED);
  return showPage(
    c,
    { title: "New destination" },
    <NewDestinationPage
      typed={typed}
      types={types}
      asksTenant={tenant === undefined}
      {...(refused && { refused })}
    />,
    refused ? statusOfRefused(refused) : 200,
  );
}

type Props = Readonly<{
  typed: Form;
  /** The names of event types to choose from. */
  types: readonly string[];
  asksTenant: boolean;
  refused?: Refused;
}>;

const NewDestinationPage: FC<Props> = ({ typed, types, asksTenant, refused }) => {
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
          <input
            name="event_types"
            placeholder="order.*, invoice.paid"
            value={value("event_types")}
            {...(types.length > 0 && { list: "event-types" })}
          />
          <span class="hint">Exact names, or prefix.* for all that begin alike. Empty means all types.</span>
        </label>
        {types.length > 0 && (
          <datalist id="event-types">
            {types.map((type) => (
              <option value={type} />
            ))}
          </datalist>
        )}
        <div class="fields">
          {asksTenant && (
            <label>
              Tenant
              <input name="tenant" placeholder="default" value={value("tenant")} />
            </label>
          )}
          <label>
            Concurrency limit (attempts)
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

const secretTexts = {
  created: {
    title: "Destination created",
    lede: "Your receiver verifies signatures with this secret. Copy it now: it is not shown again.",
  },
  rotated: {
    title: "Secret rotated",
    lede: "Requests are signed with this secret from now on, and with the replaced ones until they expire. Copy it now: it is not shown again.",
  },
} as const;

/** Not after a redirect, because the secret must appear in no address and must not be stored to be shown again. */
export function showSecret(
  c: DashboardContext,
  json: Readonly<Record<string, unknown>>,
  what: keyof typeof secretTexts,
) {
  const { id, secret } = json as Readonly<{ id: string; secret?: string }>;
  const { title, lede } = secretTexts[what];
  return showPage(
    c,
    { title: "Signing secret" },
    <section class="narrow">
      <h1>{title}</h1>
      <p class="lede">{lede}</p>
      <div class="stack">
        {secret !== undefined && <Copyable id="secret" text={secret} label="The signing secret" />}
        <div class="actions">
          <a class="button" href={`/dashboard/destinations/${id}`}>
            Go to the destination
          </a>
        </div>
      </div>
    </section>,
  );
}
