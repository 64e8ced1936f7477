/** Finds secrets in texts, in every form in which they might be written, by pieces of twelve characters. */

/** So many characters in a row are no coincidence. */
const PIECE = 12;

/** What is secret of a token: of an API key not its id, of a key pair not the public half. */
const SHAPES = [
  /whsec_([A-Za-z0-9+/]{32,})/g,
  /whsk_([A-Za-z0-9+/]{42})/g,
  /bw_[0-9a-z]{20}_([0-9a-z]{32})/g,
];

/** The secret parts of all tokens in a text. */
export function secretsIn(text: string): string[] {
  return SHAPES.flatMap((shape) => [...text.matchAll(shape)].map(([, core = ""]) => core));
}

/**
 * The secret as it is, URL-encoded, in hexadecimal, and in base64 and base64url: also as a part of a longer text, which
 * shifts it by one or two bytes. What its neighbours have a share in is left out.
 */
export function formsOf(secret: string): string[] {
  const bytes = new TextEncoder().encode(secret);
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const shifted = [0, 1, 2].map((before) => {
    const text = btoa(String.fromCharCode(...new Uint8Array(before), ...bytes));
    const whole = Math.floor(((before + bytes.length) * 8) / 6);
    return text.slice(Math.ceil((before * 8) / 6), whole);
  });
  const url = shifted.map((text) => text.replaceAll("+", "-").replaceAll("/", "_"));
  return [...new Set([secret, encodeURIComponent(secret), hex, hex.toUpperCase(), ...shifted, ...url])];
}

/** All pieces of the secret in any form. */
export function piecesOf(secret: string): string[] {
  return formsOf(secret).flatMap((form) => {
    const count = Math.max(0, form.length - PIECE + 1);
    return Array.from({ length: count }, (_, at) => form.slice(at, at + PIECE));
  });
}

/** The first of these pieces in the text. */
export function pieceIn(text: string, pieces: ReadonlySet<string>): string | undefined {
  for (let at = 0; at + PIECE <= text.length; at++) {
    const piece = text.slice(at, at + PIECE);
    if (pieces.has(piece)) return piece;
  }
  return undefined;
}
