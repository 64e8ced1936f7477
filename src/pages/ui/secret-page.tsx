/** The form that rotates a signing secret, and pages that show a text once, such as a new signing secret. Not after a redirect: it must appear in no address, and is not stored to be shown again. */
import type { Child, FC } from "hono/jsx";
import { previousSecrets } from "../../core/credentials.ts";
import type { ShownSecret } from "../../features/destinations/schema.ts";
import type { Destination } from "../../store/destination.ts";
import { FieldForm, type FormState, Input } from "./fields.tsx";
import { usePage } from "./page.tsx";
import { ButtonLink, Copyable, Fold, Section, Top } from "./parts.tsx";

type OnceProps = Readonly<{
  title: string;
  lede: string;
  texts: readonly (readonly [id: string, label: string, text: string | undefined])[];
  /** Links to the next page. */
  children?: Child;
}>;

export const ShownOnce: FC<OnceProps> = ({ title, lede, texts, children }) => (
  <Top of="narrow" title={title} lede={lede}>
    <div class="stack">
      {texts.map(([id, label, text]) => text !== undefined && <Copyable id={id} text={text} label={label} />)}
      <div class="actions">{children}</div>
    </div>
  </Top>
);

type Props = Readonly<{
  row: Destination;
  shown: ShownSecret;
  what: "created" | "rotated";
  /** More links. */
  children?: Child;
}>;

export const SecretPage: FC<Props> = ({ row, shown: { secret, public_key: publicKey }, what, children }) => {
  const { destinationAt, t: texts } = usePage();
  const t = texts.secret;
  return (
    <ShownOnce
      title={t[`${what}Title`]}
      lede={secret === undefined ? t.keyLede : t[`${what}Lede`]}
      texts={[
        ["secret", t.label, secret],
        ["public-key", t.publicKey, publicKey],
      ]}
    >
      <ButtonLink href={destinationAt(row.id)}>{t.next}</ButtonLink>
      {children}
    </ShownOnce>
  );
};

type RotationProps = Readonly<{
  path: string;
  row: Destination;
  /** The overlap, and perhaps its fault. */
  form: FormState;
  /** Whether it was refused. */
  isOpen: boolean;
  /** Further fields. */
  children?: Child;
}>;

/** Takes two clicks: the first one only opens the form. */
export const SecretRotation: FC<RotationProps> = ({ path, row, form, isOpen, children }) => {
  const { now, f, t: texts } = usePage();
  const t = texts.secret;
  const replaced = previousSecrets(row.previousSecrets, now);
  const lastExpiresAt = Math.max(...replaced.map(({ expires_at }) => expires_at));
  return (
    <Section id="secret-head" title={t.title}>
      <div class="stack">
        {t.text && <p>{t.text}</p>}
        {replaced.length > 0 && <p>{t.previous(replaced.length, f.until(lastExpiresAt, now))}</p>}
        <Fold title={t.rotate} open={isOpen}>
          <FieldForm
            form={form}
            hasNotice={false}
            action={`${path}/rotate`}
            hidden={{ secret_version: String(row.secretVersion) }}
            submit={t.create}
            button=""
            hint={t.once}
          >
            {children}
            <Input name="overlap_hours" kind="number" range={{ min: 0, max: 168 }} />
          </FieldForm>
        </Fold>
      </div>
    </Section>
  );
};
