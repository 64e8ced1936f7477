/** From what a form sends to what the API takes. Nothing is judged here: that is for the API's own schemas. */

export type Form = Readonly<Record<string, unknown>>;

/** The text of a field, or undefined when it is empty or missing. */
export function textIn(form: Form, name: string): string | undefined {
  const value = form[name];
  return typeof value === "string" && value.trim() !== "" ? value.trim() : undefined;
}

/** A number, null (the default) for an empty field, and the text itself when it is none: the API names it. */
export function numberIn(form: Form, name: string): number | string | null {
  const text = textIn(form, name);
  if (text === undefined) return null;
  const number = Number(text);
  return Number.isFinite(number) ? number : text;
}

/** The words of a field, however they are separated; null when there are none. */
export function listIn(form: Form, name: string): readonly string[] | null {
  const words = (textIn(form, name) ?? "").split(/[\s,]+/).filter((word) => word !== "");
  return words.length > 0 ? words : null;
}
