/** The pages that are neither README.md, CHANGELOG.md nor in docs/. */
import { defineRoutes } from "vitepress";
import { api } from "../api.ts";
import { addressOf, contentOf, otherPages, ROOT } from "../pages.ts";

export default defineRoutes({
  watch: otherPages.map((file) => `${ROOT}/${file}`),
  paths: () => [
    { params: { page: "api" }, content: api.markdown },
    ...otherPages.map((file) => ({
      params: { page: addressOf(file).replace(/\.md$/, "") },
      content: contentOf(file),
    })),
  ],
});
