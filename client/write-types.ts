/** Writes the client's types from the API's OpenAPI document: what a deployment of this source serves at /openapi.d.ts. */
import { writeFileSync } from "node:fs";
import { createApp } from "../src/http/app.ts";
import { documentOf } from "../src/http/openapi/document.ts";
import { typesOf } from "../src/http/openapi/typescript.ts";

writeFileSync(`${import.meta.dirname}/src/api.ts`, typesOf(documentOf(createApp())));
