import { HMAC } from "fast-sha256";
import { Webhook } from "standardwebhooks";

/** Verifies and signs the bytes of a body, whatever `verify` is given: the package itself takes only texts. */
export class BodyWebhook extends Webhook {
  readonly #body: Uint8Array;

  constructor(secret: string, body: Uint8Array) {
    super(secret);
    this.#body = body;
  }

  override sign(id: string, at: Date): string {
    const before = new TextEncoder().encode(`${id}.${Math.floor(at.getTime() / 1000)}.`);
    // biome-ignore lint/complexity/useLiteralKeys: the package's types hide it
    const mac = new HMAC(this["key"]).update(before).update(this.#body).digest();
    return `v1,${btoa(String.fromCharCode(...mac))}`;
  }
}
