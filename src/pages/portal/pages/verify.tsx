/** Explains how to verify the signatures of an endpoint, in the language of its server. */
import type { FC } from "hono/jsx";
import { formsOf, type Recipe, recipeOf } from "../../../core/signature-forms.ts";
import { getDestination } from "../../../features/destinations/service.ts";
import { sealedScheme } from "../../../secrets/vault.ts";
import type { Destination } from "../../../store/destination.ts";
import { nameOf } from "../../ui/destination-table.tsx";
import { Copyable, Fold, Tabs, Top } from "../../ui/parts.tsx";
import { showPortalNotFound, showPortalPage } from "../layout.tsx";
import { libraryFor } from "../libraries.ts";
import { usePortal } from "../look.ts";
import { callerInPortal, type Portal } from "../session.ts";
import { type SnippetLanguage, snippetLanguages, snippetOf } from "../snippets.ts";

const languages = Object.keys(snippetLanguages) as SnippetLanguage[];

export function registerVerify(app: Portal): void {
  app.get("/portal/endpoints/:id/verify", async (c) => {
    const { t } = c.get("look");
    const found = await getDestination(callerInPortal(c), c.req.param("id"));
    if (found.kind !== "ok") return showPortalNotFound(c);
    const row = found.value;
    const language = languages.find((name) => name === c.req.query("in")) ?? "node";
    const keysAt = new URL(`/v1/destinations/${row.id}/jwks.json`, c.req.url).href;
    return showPortalPage(
      c,
      { title: t.verify.title, place: "endpoints" },
      <>
        <Top
          crumb={[`/portal/endpoints/${row.id}`, nameOf(row)]}
          title={t.verify.title}
          lede={t.verify.lede}
        />
        <section aria-label={t.verify.title}>
          <ul class="rules">
            {t.verify.rules.map((rule) => (
              <li>{rule}</li>
            ))}
          </ul>
        </section>
        {sealedScheme(row.secret) === "ed25519" ? (
          <section class="stack" aria-label={t.verify.keys}>
            <p>{t.verify.ed25519}</p>
            <Copyable id="keys" label={t.verify.keys} text={keysAt} />
          </section>
        ) : (
          formsOf(row.signatureForms).map((form, i) => (
            <Form row={row} recipe={recipeOf(form)} language={language} place={i} />
          ))
        )}
      </>,
    );
  });
}

type FormProps = Readonly<{ row: Destination; recipe: Recipe; language: SnippetLanguage; place: number }>;

const Form: FC<FormProps> = ({ row, recipe, language, place }) => {
  const { verify: t, language: tabsLabel } = usePortal().t;
  const label = t.code(snippetLanguages[language]);
  // The libraries only know Standard Webhooks.
  const library = recipe.takesKeyPairs ? libraryFor(language) : undefined;
  const own = <Copyable id={`code-${place}`} label={label} text={snippetOf(language, recipe)} />;
  const tabs = languages.map((name) => {
    const href = `/portal/endpoints/${row.id}/verify?in=${name}`;
    return [href, snippetLanguages[name], name === language] as const;
  });
  return (
    <section class="stack" aria-labelledby={`form-${place}`}>
      <h2 id={`form-${place}`}>
        <code>{recipe.header}</code>
      </h2>
      <p>{recipe.takesKeyPairs ? t.standard : t.other(recipe.header)}</p>
      {!recipe.takesKeyPairs && <Copyable id={`text-${place}`} label={t.otherText} text={recipe.content} />}
      <Tabs label={tabsLabel} of={tabs} />
      <p>{t.secretIn}</p>
      {library === undefined ? (
        own
      ) : (
        <>
          <Copyable id={`library-${place}`} label={label} text={library.code} />
          <Fold title={t.withoutLibrary}>{own}</Fold>
        </>
      )}
    </section>
  );
};
