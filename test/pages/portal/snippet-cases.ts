/** Signed requests in every form, valid and not, for the code that the portal shows to verify them. */
import { createHmac } from "node:crypto";
import {
  formsOf,
  type Recipe,
  recipeOf,
  type SignatureForm,
  signatureHeaders,
  signedTexts,
} from "../../../src/core/signature-forms.ts";

export const SECRET = `whsec_${Buffer.from("a secret of thirty-two characters").toString("base64")}`;
const OTHER = `whsec_${Buffer.from("another secret, of other characters").toString("base64")}`;

const template: SignatureForm = {
  form: "template",
  content: '{id}\n{timestamp}:{body}"end"',
  signature_header: "X-Acme-Signature",
  prefix: "t={timestamp},sig=",
  encoding: "base64",
  algorithm: "sha512",
};

export const forms: readonly SignatureForm[] = [
  ...(["standard", "svix", "stripe", "github", "slack", "shopify"] as const).map((form) => ({ form })),
  ...formsOf([template]),
];

export type Case = Readonly<{
  name: string;
  headers: Readonly<Record<string, string>>;
  body: string;
  valid: boolean;
}>;

/** @param now seconds since 1970 */
export function casesOf(form: SignatureForm, now: number): readonly Case[] {
  const recipe = recipeOf(form);
  const body = '{"data":"größer als 世界"}';
  const at = (timestamp: number, secrets: readonly string[]) => headersFor(recipe, body, timestamp, secrets);
  const signed = at(now, [SECRET]);
  return [
    { name: "signed with the secret", headers: signed, body, valid: true },
    { name: "with another body", headers: signed, body: `${body} `, valid: false },
    { name: "signed with another secret", headers: at(now, [OTHER]), body, valid: false },
    { name: "signed six minutes ago", headers: at(now - 360, [SECRET]), body, valid: false },
    { name: "with an empty signature", headers: { ...signed, [recipe.header]: "" }, body, valid: false },
    ...(recipe.separator === undefined
      ? []
      : [{ name: "signed with two secrets", headers: at(now, [OTHER, SECRET]), body, valid: true }]),
  ];
}

function headersFor(recipe: Recipe, body: string, timestamp: number, secrets: readonly string[]) {
  const signed = { id: "evt_1", type: "order.paid", timestamp: String(timestamp) };
  const [before, after] = signedTexts(recipe, signed);
  const { key, algorithm, encoding } = recipe.digest;
  const signatures = secrets.map((secret) => {
    const bytes = key === "bytes" ? Buffer.from(secret.slice(6), "base64") : Buffer.from(secret);
    const digest = createHmac(algorithm, bytes).update(before).update(body).update(after).digest(encoding);
    return recipe.version + digest;
  });
  return {
    "webhook-id": signed.id,
    "webhook-timestamp": signed.timestamp,
    ...signatureHeaders(recipe, signed, signatures),
  };
}
