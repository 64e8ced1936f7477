/** Finds this machine's Chromium: none comes with the packages, because it is a hundred times their size. */
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

const names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const outsidePath = ["/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"];

export const NO_BROWSER =
  "no Chromium or Chrome was found. Install one (`apt-get install chromium`), or set CHROMIUM to its path.";

/** Its path, or undefined when there is none. `CHROMIUM` is taken as it is. */
export function findBrowser(): string | undefined {
  const { CHROMIUM, PATH = "" } = process.env;
  if (CHROMIUM) return CHROMIUM;
  const places = PATH.split(delimiter).flatMap((folder) => names.map((name) => join(folder, name)));
  return [...places, ...outsidePath].find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
