/** Where a page of a refused form opens. */
import { raw } from "hono/html";

/** The marks are in no text of a user: quotes are escaped there. */
const [INPUT_AT_FAULT, NOTICE] = [' aria-invalid="true"', ' role="alert"'];

/** The page with the focus on its first input at fault, or else on its notice. Browsers scroll there. */
export async function focusedOnFault(main: Readonly<{ toString: () => unknown }>) {
  const html = String(await main.toString());
  return raw(
    html.includes(INPUT_AT_FAULT)
      ? html.replace(INPUT_AT_FAULT, `${INPUT_AT_FAULT} autofocus`)
      : html.replace(NOTICE, `${NOTICE} tabindex="-1" autofocus`),
  );
}
