/** How to verify the signatures of an endpoint, in the language of whoever writes its server. */
import type { Hono } from "hono";
import type { FC } from "hono/jsx";
import { formsOf, type Recipe, recipeOf } from "../../../core/signature-forms.ts";
import { getDestination } from "../../../features/destinations/service.ts";
import { sealedScheme } from "../../../secrets/vault.ts";
import type { Destination } from "../../../store/destination.ts";
import { nameOf } from "../../ui/destination-table.tsx";
import { Crumb } from "../../ui/parts.tsx";
import { showPortalNotFound, showPortalPage } from "../layout.tsx";
import { libraryFor } from "../libraries.ts";
import type { Look } from "../look.ts";
import { Copy } from "../parts.tsx";
import { callerInPortal, type PortalEnv } from "../session.ts";
import { type SnippetLanguage, snippetLanguages, snippetOf } from "../snippets.ts";

const languages = Object.keys(snippetLanguages) as SnippetLanguage[];

export function registerVerify(app: Hono<PortalEnv>): void {
  app.get("/portal/endpoints/:id/verify", async (c) => {
    const look = c.get("look");
    const found = await getDestination(callerInPortal(c), c.req.param("id"));
    if (found.kind !== "ok") return showPortalNotFound(c);
    const row = found.value;
    const language = languages.find((name) => name === c.req.query("in")) ?? "node";
    const keysAt = new URL(`/v1/destinations/${row.id}/jwks.json`, c.req.url).href;
    return showPortalPage(
      c,
      { title: look.t.verify.title, place: "endpoints" },
      <VerifyPage look={look} row={row} language={language} keysAt={keysAt} />,
    );
  });
}

type Props = Readonly<{ look: Look; row: Destination; language: SnippetLanguage; keysAt: string }>;

const VerifyPage: FC<Props> = ({ look, row, language, keysAt }) => {
  const { t } = look;
  const isKeyPair = sealedScheme(row.secret) === "ed25519";
  const recipes = formsOf(row.signatureForms).map(recipeOf);
  return (
    <>
      <section>
        <Crumb href={`/portal/endpoints/${row.id}`}>{nameOf(row)}</Crumb>
        <h1>{t.verify.title}</h1>
        <p class="lede">{t.verify.lede}</p>
      </section>
      <section aria-label={t.verify.title}>
        <ul class="rules">
          {t.verify.rules.map((rule) => (
            <li>{rule}</li>
          ))}
        </ul>
      </section>
      {isKeyPair ? (
        <section class="stack" aria-label={t.verify.keys}>
          <p>{t.verify.ed25519}</p>
          <Copy look={look} id="keys" label={t.verify.keys} text={keysAt} />
        </section>
      ) : (
        recipes.map((recipe, i) => (
          <Form look={look} row={row} recipe={recipe} language={language} place={i} />
        ))
      )}
    </>
  );
};

type FormProps = Readonly<{
  look: Look;
  row: Destination;
  recipe: Recipe;
  language: SnippetLanguage;
  place: number;
}>;

const Form: FC<FormProps> = ({ look, row, recipe, language, place }) => {
  const { t } = look;
  const label = t.verify.code(snippetLanguages[language]);
  // The libraries know Standard Webhooks alone.
  const library = recipe.takesKeyPairs ? libraryFor(language) : undefined;
  const own = <Copy look={look} id={`code-${place}`} label={label} text={snippetOf(language, recipe)} />;
  return (
    <section class="stack" aria-labelledby={`form-${place}`}>
      <h2 class="break" id={`form-${place}`}>
        <code>{recipe.header}</code>
      </h2>
      <p>{recipe.takesKeyPairs ? t.verify.standard : t.verify.other(recipe.header)}</p>
      {!recipe.takesKeyPairs && (
        <Copy look={look} id={`text-${place}`} label={t.verify.otherText} text={recipe.content} />
      )}
      <nav class="tabs" aria-label={t.verify.language}>
        {languages.map((name) => (
          <a
            href={`/portal/endpoints/${row.id}/verify?in=${name}`}
            {...(name === language && { "aria-current": "true" })}
          >
            {snippetLanguages[name]}
          </a>
        ))}
      </nav>
      <p>{t.verify.secretIn}</p>
      {library === undefined ? (
        own
      ) : (
        <>
          <Copy look={look} id={`library-${place}`} label={label} text={library.code} />
          <details>
            <summary>{t.verify.withoutLibrary}</summary>
            {own}
          </details>
        </>
      )}
    </section>
  );
};
