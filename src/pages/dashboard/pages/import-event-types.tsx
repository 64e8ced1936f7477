/** Imports the webhooks of an OpenAPI document as event types, after showing what that would do to each. For the operator alone. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import type { Refused } from "../../../core/result.ts";
import { type ImportedType, importEventTypes, MAX_DOCUMENT } from "../../../features/event-types/import.ts";
import type { ImportAction } from "../../../features/event-types/schema.ts";
import { AreaField, CheckField, FormNotice, formState } from "../../ui/fields.tsx";
import { eventTypeImportFields } from "../../ui/form-fields.ts";
import { type Form, plural, textIn } from "../../ui/format.ts";
import { ClippedCell, Crumb, LineTable, outcomeAt } from "../../ui/parts.tsx";
import { callService } from "../calls.ts";
import { showPage, showReadOnly } from "../components/layout.tsx";
import type { DashboardContext, DashboardEnv } from "../session.ts";
import { mayEditTypes } from "./edit-event-type.tsx";

const LIST = "/dashboard/event-types";
const PATH = `${LIST}/import`;

/** Encoded, a character takes up to three bytes. */
export const LARGEST_IMPORT = { path: PATH, bytes: 3 * MAX_DOCUMENT };

type Sent = Readonly<{ typed: Form; refused?: Refused; plan?: readonly ImportedType[] }>;

export function registerImportEventTypes(app: Hono<DashboardEnv>): void {
  app.get(PATH, (c) => show(c, { typed: {} }));

  app.post(PATH, async (c) => {
    if (!mayEditTypes(c)) return showReadOnly(c);
    const typed = await c.req.parseBody();
    const isDryRun = typed.action !== "import";
    const input = {
      document: textIn(typed, "document") ?? "",
      field: "document",
      isDryRun,
      replaces: typed.archive_others === "on",
    };
    const imported = await callService(c, importEventTypes, input);
    if (imported.kind !== "ok") return show(c, { typed, refused: imported });
    return isDryRun
      ? show(c, { typed, plan: imported.value })
      : c.redirect(outcomeAt(LIST, "types-imported"), 303);
  });
}

function show(c: DashboardContext, { typed, refused, plan }: Sent) {
  if (!mayEditTypes(c)) return showReadOnly(c);
  const form = formState(typed, eventTypeImportFields, refused);
  return showPage(
    c,
    { title: "Import event types", place: "event-types", refused },
    <section>
      <Crumb href={LIST}>Event types</Crumb>
      <h1>Import event types</h1>
      <p class="lede">
        The webhooks of an OpenAPI document become event types: all of them or none. A changed schema is
        published as the next version where its operation has <code>x-breakwater-conversion</code>.
      </p>
      <form class="stack" method="post" action={`${PATH}#plan`}>
        <FormNotice form={form} />
        <AreaField form={form} name="document" hint="YAML or JSON, up to a megabyte." />
        <CheckField form={form} name="archive_others" />
        <div class="actions">
          <button type="submit" name="action" value="try">
            Show what it would do
          </button>
          <button type="submit" class="main" name="action" value="import">
            Import
          </button>
        </div>
      </form>
      {plan && <Plan plan={plan} />}
    </section>,
  );
}

const actionTexts: Readonly<Record<ImportAction, string>> = {
  create: "Created",
  change: "Changed in place",
  publish: "Next version published",
  archive: "Archived",
  keep: "Unchanged",
  refuse: "Refused",
};

const Plan: FC<{ plan: readonly ImportedType[] }> = ({ plan }) => {
  const refused = plan.filter(({ action }) => action === "refuse");
  return (
    <div class="stack" id="plan">
      {refused.length > 0 ? (
        <p class="notice tone-bad">
          Nothing would be imported: {plural(refused.length, "type")} would be refused.
        </p>
      ) : (
        <p class="notice tone-good">Nothing is changed yet. The import would do this:</p>
      )}
      <LineTable columns={[["Event type", "main"], ["Import"], ["Version", "num"]]}>
        {plan.map(({ name, action, version }) => (
          <tr>
            <ClippedCell text={name}>{name}</ClippedCell>
            <td>{actionTexts[action]}</td>
            <td class="num">{version ?? "–"}</td>
          </tr>
        ))}
      </LineTable>
      <ul class="log">
        {refused.flatMap(({ name, errors }) =>
          errors.map(({ fault, expected }) => (
            <li>
              <span class="soft">{name}</span>
              <span class="break">{`${fault}; expected ${expected}`}</span>
            </li>
          )),
        )}
      </ul>
    </div>
  );
};
