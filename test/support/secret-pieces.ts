/** Finds secrets in texts by pieces of twelve characters. */

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

export function piecesOf(secret: string): string[] {
  const count = Math.max(0, secret.length - PIECE + 1);
  return Array.from({ length: count }, (_, at) => secret.slice(at, at + PIECE));
}

/** The first of these pieces in the text. */
export function pieceIn(text: string, pieces: ReadonlySet<string>): string | undefined {
  for (let at = 0; at + PIECE <= text.length; at++) {
    const piece = text.slice(at, at + PIECE);
    if (pieces.has(piece)) return piece;
  }
  return undefined;
}
