/** The bytes of a text in UTF-8. */
export function utf8(text: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(new TextEncoder().encode(text));
}

/** The text of a request's body. */
export function textOf(body: RequestInit["body"] | undefined): string {
  return body instanceof Uint8Array ? new TextDecoder().decode(body) : String(body);
}

/** The body as text, whatever its content type: `text()` makes the runtime warn about types that are not text. */
export async function bodyText(body: Body): Promise<string> {
  return new TextDecoder().decode(await body.arrayBuffer());
}
