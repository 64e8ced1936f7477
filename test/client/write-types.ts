/** Writes the types that a deployment of this source serves at /openapi.d.ts, for `npm run check`. */
import { writeFileSync } from "node:fs";
import { createApp } from "../../src/http/app.ts";
import { documentOf } from "../../src/http/openapi/document.ts";
import { typesOf } from "../../src/http/openapi/typescript.ts";

writeFileSync(`${import.meta.dirname}/breakwater.d.ts`, typesOf(documentOf(createApp())));
