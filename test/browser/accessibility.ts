/**
 * The faults that axe finds on a page. Its Content-Security-Policy would block axe, so the browser's context must
 * bypass it.
 */
import axe from "axe-core";
import type { Page } from "playwright-core";

type Options = Readonly<{
  /** Selectors of elements that are not checked. */
  without?: readonly string[];
  /** Whether what axe could not decide is a fault too; true by default. */
  undecided?: boolean;
  /** The only rules that are applied; all by default. */
  rules?: readonly string[];
}>;

/** Each serious or critical violation, with the element and the rule. */
export async function accessibilityFaults(page: Page, options: Options = {}): Promise<string[]> {
  const { without = [], undecided = true, rules } = options;
  if (!(await page.evaluate(() => "axe" in window))) await page.addScriptTag({ content: axe.source });
  const { violations, incomplete } = await page.evaluate(
    ({ exclude, only }) =>
      window.axe.run({ exclude }, { resultTypes: ["violations", "incomplete"], ...only }),
    { exclude: [...without], only: rules && { runOnly: [...rules] } },
  );
  return [...violations, ...(undecided ? incomplete : [])]
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, help, nodes }) =>
      nodes.filter(isDecidable).map(({ target }) => `${id} at ${target}: ${help}`),
    );
}

/** Axe cannot determine the background of a chart's text, which has the colours of the text around it. */
function isDecidable({ html }: { html: string }): boolean {
  return !html.startsWith("<text ");
}

declare global {
  interface Window {
    axe: typeof axe;
  }
}
