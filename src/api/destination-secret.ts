/** Signing secrets as Standard Webhooks writes them: `whsec_` and the base64 of 24 to 64 bytes. */
const BYTES = 24;

export function newSecret(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(BYTES));
  return `whsec_${btoa(String.fromCharCode(...bytes))}`;
}

export function isSecret(text: string): boolean {
  const base64 = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(text)?.[1];
  if (base64 === undefined || base64.length % 4 !== 0) return false;
  const bytes = atob(base64).length;
  return bytes >= 24 && bytes <= 64;
}
