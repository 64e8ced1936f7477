/** The browser of this machine: none is installed with the packages, which would be a hundred times their size. */
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

const names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const elsewhere = ["/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"];

export const NO_BROWSER =
  "no Chromium or Chrome was found. Install one (`apt-get install chromium`), or name it in CHROMIUM.";

/** Its path; undefined where there is none. What `CHROMIUM` names is not looked for any further. */
export function findBrowser(): string | undefined {
  const { CHROMIUM, PATH = "" } = process.env;
  if (CHROMIUM) return CHROMIUM;
  const places = PATH.split(delimiter).flatMap((folder) => names.map((name) => join(folder, name)));
  return [...places, ...elsewhere].find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
