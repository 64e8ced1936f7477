/** Finds secrets in texts, in every form in which they might be written, by pieces of twelve characters. */

/** This many equal characters in a row are no coincidence. */
const PIECE = 12;

/** The secret parts of tokens: of an API key not its id, of a key pair not the public half. */
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
 * The secret itself, URL-encoded, in hexadecimal, and in base64 and base64url, also as a part of a longer text, which
 * shifts it by one or two bytes. Characters that encode neighbouring bytes too are left out.
 */
function formsOf(secret: string): string[] {
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
function piecesOf(secret: string): string[] {
  return formsOf(secret).flatMap((form) => {
    const count = Math.max(0, form.length - PIECE + 1);
    return Array.from({ length: count }, (_, at) => form.slice(at, at + PIECE));
  });
}

/** The number of marks: a power of two, far more than there are pieces. */
const MARKS = 2 ** 23;

/** Pieces of secrets that are searched for in texts. */
export class SecretPieces {
  readonly #secrets = new Set<string>();
  readonly #pieces = new Set<string>();
  /**
   * A bit for four characters of each piece, by which nearly every place of a text can be skipped without comparing
   * pieces.
   */
  readonly #marks = new Uint8Array(MARKS / 8);

  add(secret: string): void {
    if (this.#secrets.has(secret)) return;
    this.#secrets.add(secret);
    for (const piece of piecesOf(secret)) {
      const mark = markAt(piece, 0);
      this.#marks[mark >> 3] = (this.#marks[mark >> 3] ?? 0) | (1 << (mark & 7));
      this.#pieces.add(piece);
    }
  }

  /** The first piece in the text. */
  in(text: string): string | undefined {
    for (let at = 0; at + PIECE <= text.length; at++) {
      const mark = markAt(text, at);
      if (((this.#marks[mark >> 3] ?? 0) & (1 << (mark & 7))) === 0) continue;
      const piece = text.slice(at, at + PIECE);
      if (this.#pieces.has(piece)) return piece;
    }
    return undefined;
  }
}

function markAt(text: string, at: number): number {
  const bits = (offset: number, mask: number) => text.charCodeAt(at + offset) & mask;
  return bits(0, 63) | (bits(3, 63) << 6) | (bits(6, 63) << 12) | (bits(9, 31) << 18);
}
