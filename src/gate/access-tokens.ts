/**
 * A destination's access token, kept by its gate for all isolates, so that only one of them fetches it, however many
 * need it at once. The gate makes no calls and decrypts nothing: the isolate with the claim fetches the token and
 * stores it sealed; the others wait for that. Stored as a row of its own, which only destinations with OAuth have.
 */
import {
  afterToken,
  afterTokenFault,
  type KeptToken,
  type TokenAtGate,
  type TokenFault,
  type TokenRequest,
  type TokenState,
  tokenAt,
  tokenUnavailable,
} from "../core/access-token.ts";

const KEY = "access_token";
/** After this a claim counts as abandoned. Longer than a fetch may take. */
const CLAIM_MS = 15_000;

export type TokenResult = TokenAtGate | Readonly<{ kind: "claimed" }>;

/** The result that the holder of a claim reports. */
export type Fetched =
  | (Readonly<{ kind: "token" }> & Omit<KeptToken, "obtainedAt">)
  | (TokenFault & Pick<TokenRequest, "refused">);

export class AccessTokens {
  readonly #storage: DurableObjectStorage;
  #claim: Readonly<{ terms: string; until: number; ended: PromiseWithResolvers<void> }> | undefined;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
  }

  /** The token, why there is none, or the claim to fetch one. Waits while another holds the claim. */
  async request(request: TokenRequest): Promise<TokenResult> {
    let wanted = request;
    for (;;) {
      const now = Date.now();
      const found = tokenAt(this.#load(), wanted, now);
      if (found) return found;
      const claim = this.#claim;
      if (!claim || claim.until <= now || claim.terms !== wanted.terms) {
        claim?.ended.resolve();
        this.#claim = { terms: wanted.terms, until: now + CLAIM_MS, ended: Promise.withResolvers() };
        return { kind: "claimed" };
      }
      await claim.ended.promise;
      // The other one's result is recent enough.
      wanted = { ...wanted, force: false };
    }
  }

  /**
   * Takes the result of a claim. A token is taken from any caller; a failure counts only while the claim lasts, so that
   * a late one undoes nothing.
   */
  keep(terms: string, fetched: Fetched): TokenAtGate {
    const now = Date.now();
    const claim = this.#claim?.terms === terms ? this.#claim : undefined;
    const state = this.#after(terms, fetched, now);
    if (claim || fetched.kind === "token") this.#storage.kv.put(KEY, state);
    if (claim) this.#claim = undefined;
    claim?.ended.resolve();
    const { reason, fault } =
      fetched.kind === "failed" ? fetched : tokenUnavailable("gave a token that has expired");
    return tokenAt(state, { terms }, now) ?? { kind: "failed", reason, fault, until: now };
  }

  #after(terms: string, fetched: Fetched, now: number): TokenState {
    if (fetched.kind === "failed") return afterTokenFault(this.#load(), { ...fetched, terms }, fetched, now);
    const { sealed, usableUntil } = fetched;
    return afterToken(terms, { sealed, obtainedAt: now, usableUntil });
  }

  #load(): TokenState | undefined {
    return this.#storage.kv.get<TokenState>(KEY);
  }
}
