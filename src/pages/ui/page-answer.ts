/** The answer of every page: whole, or only its `main`; after a refused form, with the focus on the fault. */
import type { Context } from "hono";
import { raw } from "hono/html";
import type { HtmlEscapedString } from "hono/utils/html";

type Html = HtmlEscapedString | Promise<HtmlEscapedString>;

/** The header of a request for only a page's `main`. */
export const PART = "x-part";

export type PageStatus = 200 | 400 | 401 | 403 | 404 | 413 | 422 | 429 | 500 | 503;

/**
 * Responds with a page. A refusal has the focus on the fault.
 * @param around the whole page
 */
export async function answerPage(c: Context, page: Html, status: PageStatus, around: (main: Html) => Html) {
  c.header("vary", PART);
  c.header("cache-control", "no-store");
  const main = status === 200 ? page : await focusedOnFault(page);
  return c.html(c.req.header(PART) === "main" ? main : around(main), status);
}

/** The marks are in no text of a user: quotes are escaped there. */
const [INPUT_AT_FAULT, NOTICE] = [' aria-invalid="true"', ' role="alert"'];

/** The page with the focus on its first input at fault, or else on its notice. Browsers scroll there. */
async function focusedOnFault(main: Html) {
  const html = String(await main.toString());
  return raw(
    html.includes(INPUT_AT_FAULT)
      ? html.replace(INPUT_AT_FAULT, `${INPUT_AT_FAULT} autofocus`)
      : html.replace(NOTICE, `${NOTICE} tabindex="-1" autofocus`),
  );
}
