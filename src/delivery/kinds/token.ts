/** The API token of a queue without a binding. */
import type { Vault } from "../../secrets/vault.ts";
import type { Destination } from "../../store/destination.ts";

/** A target's token at rest. It is sealed under another name than signing secrets, so that it cannot be decrypted as one. */
export function sealToken(vault: Vault, destination: string, token: string): Promise<string> {
  return vault.seal(tokenName(destination), token, "token");
}

/** The token. Rejects, with nothing of it in the message, when it cannot be opened. */
export function openToken(vault: Vault, destination: string, sealed: string): Promise<string> {
  return vault.openText(tokenName(destination), "token", sealed);
}

/** The same, sealed with the first master key; undefined if it already is, or if there is no token. */
export async function rotatedToken(
  vault: Vault,
  { id, targetToken }: Pick<Destination, "id" | "targetToken">,
): Promise<string | undefined> {
  if (targetToken === null || vault.isCurrent(targetToken)) return undefined;
  return vault.sealAgain(tokenName(id), targetToken);
}

function tokenName(destination: string): string {
  return `${destination}.target_token`;
}
