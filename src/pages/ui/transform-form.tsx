/** The form of a transformation's template: a field for each part, in the words of dashboard or portal. */
import type { FC } from "hono/jsx";
import type { FieldError, Refused, Result } from "../../core/result.ts";
import { invalidFields, ok } from "../../core/result.ts";
import { type ReadyTemplate, readyTemplates } from "../../core/transform/ready.ts";
import { methods, type TransformTemplate } from "../../core/transform/template.ts";
import { type shownSource, transformShown } from "../../features/destinations/fields.ts";
import { type FormState, Input } from "./fields.tsx";
import { fieldsNamed, type Option } from "./form-fields.ts";
import { type Form, jsonIn, pairsIn, textIn } from "./format.ts";
import { usePage } from "./page.tsx";
import { Options } from "./parts.tsx";
import { readTyped } from "./services.ts";
import { serviceNames, type TransformPart, type TransformTexts } from "./transform-texts.ts";

const PARTS = ["body", "content_type", "headers", "method", "path", "query"] as const;
const INPUTS = [...PARTS, "code"] as const;

/** The template in a form; null if all of it is empty. A form that is sent unchanged means exactly the stored template. */
export function templateTyped(
  form: Form,
  stored: TransformTemplate | null,
): Result<TransformTemplate | null, "invalid"> {
  const was = typedOf(stored);
  if (PARTS.every((part) => typedIn(form, part) === typedIn(was, part))) return ok(stored);
  const [headers, query] = [namedIn(form, "headers"), namedIn(form, "query")];
  const errors = [...headers.errors, ...query.errors];
  if (errors.length > 0) return invalidFields(errors);
  const body = typedIn(form, "body");
  const template = {
    body: body.trim() === "" ? undefined : body,
    content_type: textIn(form, "content_type"),
    headers: headers.value ?? undefined,
    method: textIn(form, "method"),
    path: textIn(form, "path"),
    query: query.value ?? undefined,
  };
  if (Object.values(template).every((value) => value === undefined)) return ok(null);
  return readTyped(transformShown.shape.template.unwrap(), template);
}

/** A template or code; null: events are sent as they are. */
export type ShownSource = ReturnType<typeof shownSource>;

/** The source in a form. A form that is sent unchanged means exactly the stored source. */
export function sourceTyped(form: Form, stored: ShownSource): Result<ShownSource, "invalid"> {
  const code = typedIn(form, "code");
  const template = templateTyped(form, stored?.template ?? null);
  if (template.kind !== "ok") return template;
  if (code.trim() === "") return ok(template.value && { template: template.value });
  if (template.value === null) return ok({ code });
  const [fault, expected] = ["is there beside a template", "either of them: empty the fields of the other"];
  return invalidFields([{ field: "code", fault, expected }]);
}
export function typedOfSource(source: ShownSource): Form {
  return { ...typedOf(source?.template ?? null), code: source?.code };
}

/** Browsers send line breaks as CRLF. */
function typedIn(form: Form, part: TransformPart): string {
  return String(form[part] ?? "").replaceAll("\r\n", "\n");
}

type Pairs = Readonly<Record<string, string>>;

/** Names with their values: a pair on each line, or JSON if lines cannot express them. */
function namedIn(form: Form, part: "headers" | "query"): ReturnType<typeof pairsIn> {
  if (!typedIn(form, part).trimStart().startsWith("{")) return pairsIn(form, part);
  const { value, fault } = jsonIn(form, part);
  if (fault === undefined) return { value: value as Pairs, errors: [] };
  return {
    value: null,
    errors: [{ field: part, fault, expected: "a name, a colon and a value on each line" }],
  };
}

function pairsText(pairs: Pairs = {}): string {
  const lines = Object.entries(pairs).map(([name, value]) => `${name}: ${value}`);
  const read = namedIn({ headers: lines.join("\n") }, "headers");
  const isSame = read.errors.length === 0 && JSON.stringify(read.value ?? {}) === JSON.stringify(pairs);
  return isSame ? lines.join("\n") : JSON.stringify(pairs, null, 2);
}
export function typedOf(template: TransformTemplate | null): Form {
  const { body, content_type, headers, method, path, query } = template ?? {};
  return {
    body,
    content_type,
    headers: pairsText(headers),
    method: method === "POST" ? "" : method,
    path,
    query: pairsText(query),
  };
}

/** The form's state: each fault of a refusal at its field, and others above. */
export function transformFormState(values: Form, t: TransformTexts, refused?: Refused): FormState {
  const labels = fieldsNamed(t.labels);
  const errors = (refused?.errors ?? []).map((error) => placed(error, t));
  const detail = refused === undefined ? undefined : refused.kind === "conflict" ? t.outdated : t.notSaved;
  return { values, labels, errors, ...(detail !== undefined && { detail }) };
}

function placed({ field, fault, expected }: FieldError, t: TransformTexts): FormState["errors"][number] {
  const bare = field.replace(/^transform\./, "").replace(/^template\./, "");
  const [, name = "", place = ""] = /^(\w+)\.?(.*)$/s.exec(bare) ?? [];
  const part = INPUTS.find((one) => one === name);
  const text = `${t.wrong}${place === "" ? "" : ` (${place})`}: ${fault}; ${expected}.`;
  return { input: part, label: part ? t.labels[part] : name, text };
}

/**
 * @param props `hasUrl`: whether the kind of destination has a URL, of which a method, a path and a query are parts; `hasCode`:
 * whether there is a field for code: where it runs, and the person may write it, or there is some already
 */
export const TemplateFields: FC<{ hasUrl: boolean; hasCode: boolean }> = ({ hasUrl, hasCode }) => {
  const { hints } = usePage().t.transform;
  return (
    <>
      <Input kind="area" name="body" hint={hints.body} of="all tall" />
      <Input name="content_type" hint={hints.content_type} placeholder="application/json" />
      <Input kind="area" name="headers" hint={hints.headers} />
      {hasUrl && (
        <>
          <Input name="method" options={methodOptions} />
          <Input name="path" hint={hints.path} />
          <Input kind="area" name="query" hint={hints.query} />
        </>
      )}
      {hasCode && <Input kind="area" name="code" hint={hints.code} of="all tall" />}
    </>
  );
};

const methodOptions: readonly Option[] = methods.map((method) => [method === "POST" ? "" : method, method]);

/** A form that is sent as a query: it changes nothing, and its address can be shared. */
export const ReadyTemplates: FC<{ path: string; chosen: string | undefined }> = ({ path, chosen }) => {
  const t = usePage().t.transform;
  const names: Readonly<Record<ReadyTemplate, string>> = { ...serviceNames, ...t.readyNames };
  return (
    <form class="actions" method="get" action={path}>
      <label for="ready">{t.ready}</label>
      <select id="ready" name="ready" class="inline">
        <option value="">{t.asTheyAre}</option>
        <Options of={readyTemplates.map((name) => [name, names[name]])} chosen={chosen} />
      </select>
      <button type="submit">{t.fillIn}</button>
    </form>
  );
};
