/** The only page that shows a new signing secret. Not after a redirect: it must appear in no address, and is not stored to be shown again. */
import type { Child, FC } from "hono/jsx";
import type { ShownSecret } from "../../features/destinations/schema.ts";
import { Copyable } from "./parts.tsx";

type Props = Readonly<{
  shown: ShownSecret;
  texts: Readonly<{
    title: string;
    lede: string;
    /** In place of it where there is only a public key. */
    keyLede: string;
    label: string;
    publicKey: string;
  }>;
  /** Links to where it goes on. */
  children?: Child;
}>;

export const SecretPage: FC<Props> = ({ shown: { secret, public_key: publicKey }, texts, children }) => (
  <section class="narrow">
    <h1>{texts.title}</h1>
    <p class="lede">{secret === undefined ? texts.keyLede : texts.lede}</p>
    <div class="stack">
      {secret !== undefined && <Copyable id="secret" text={secret} label={texts.label} />}
      {publicKey !== undefined && <Copyable id="public-key" text={publicKey} label={texts.publicKey} />}
      <div class="actions">{children}</div>
    </div>
  </section>
);
