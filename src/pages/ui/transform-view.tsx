/** Views of a transformation: its preview, its versions, and the deliveries that it failed for. */
import type { Child, FC } from "hono/jsx";
import type { DeliveryJson } from "../../features/deliveries/schema.ts";
import type { TransformPreview, TransformVersions } from "../../features/destinations/transforms.ts";
import { headerLines } from "./exchange.ts";
import { indented } from "./format.ts";
import { Section, StateLabel } from "./parts.tsx";
import type { TransformTexts } from "./transform-texts.ts";

/** The words of dashboard or portal for times and authors, and their pages of deliveries. */
export type TransformWords = Readonly<{
  t: TransformTexts;
  count: (n: number) => string;
  ago: (at: number) => Child;
  author: (author: TransformVersions["data"][number]["author"]) => string;
  /** The page of a delivery. */
  deliveryPath: (delivery: DeliveryJson) => string;
}>;

type Tried = TransformPreview["events"][number];

const TONES = { sent: "good", cancelled: "quiet", failed: "bad" } as const;

/** Characters of a body that are shown. */
const MOST_SHOWN = 20_000;

type PreviewProps = Readonly<{
  preview: TransformPreview;
  t: TransformTexts;
  /** Whether to show where requests go. */
  showsUrl: boolean;
}>;

export const TransformDryRun: FC<PreviewProps> = ({ preview: { events }, t, showsUrl }) => (
  <Section id="preview" title={t.preview}>
    {events.length === 0 && <p class="empty">{t.noEvents}</p>}
    {events.map((tried, i) => (
      <article class="delivery">
        <div class="head">
          <h3 class="break">{tried.event_id === null ? t.exampleOf(tried.type) : tried.type}</h3>
          <StateLabel tone={TONES[tried.result]}>{t.results[tried.result]}</StateLabel>
        </div>
        {tried.event_id !== null && <p class="small soft break">{tried.event_id}</p>}
        {tried.fault !== null && <p class="fault break">{tried.fault}</p>}
        {tried.result === "sent" && <p class="small soft">{changesText(tried, t)}</p>}
        <details open={i === 0}>
          <summary>{tried.after ? `${t.before} · ${t.after}` : t.before}</summary>
          <div class="columns">
            <Request title={t.before} part={tried.before} t={t} showsUrl={showsUrl} />
            {tried.after && <Request title={t.after} part={tried.after} t={t} showsUrl={showsUrl} />}
          </div>
        </details>
      </article>
    ))}
  </Section>
);

function changesText({ changed }: Tried, t: TransformTexts): string {
  return changed.length === 0 ? t.unchanged : t.changed(changed.map((name) => t.parts[name]).join(", "));
}

type RequestProps = Readonly<{ title: string; part: Tried["before"] }> & Omit<PreviewProps, "preview">;

const Request: FC<RequestProps> = ({ title, part, t, showsUrl }) => {
  const { method, url, content_type, headers, body } = part;
  const head = headerLines({ "content-type": content_type, ...headers });
  const text = body === null ? t.noText : indented(body);
  const shown = text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}…` : text;
  return (
    <section aria-label={title}>
      <p class="small soft">{title}</p>
      <pre tabindex={0}>{`${showsUrl ? `${method} ${url}` : method}\n${head}\n\n${shown}`}</pre>
    </section>
  );
};

type VersionsProps = Readonly<{
  words: TransformWords;
  path: string;
  versions: TransformVersions["data"];
  mayChange: boolean;
}>;

/** The newest first. Each can be shown in the form, and all but the newest restored. */
export const VersionList: FC<VersionsProps> = ({
  words: { t, count, ago, author },
  path,
  versions,
  mayChange,
}) => (
  <Section id="versions" title={t.versions}>
    {versions.length === 0 && <p class="empty">{t.noVersions}</p>}
    <ol>
      {versions.map(({ version, created_at, author: by, template, code }, i) => (
        <li class="delivery">
          <p class="break">
            <strong>{t.version(count(version))}</strong>
            {template === null && code === null && `, ${t.none}`}
            <span class="soft small">
              {" "}
              {ago(Date.parse(created_at))}
              {`, ${author(by)}`}
            </span>
          </p>
          <div class="actions">
            <a
              class="small"
              href={`${path}?version=${version}`}
              aria-label={`${t.show}: ${t.version(count(version))}`}
            >
              {t.show}
            </a>
            {mayChange && i > 0 && (
              <form method="post" action={`${path}/restore`}>
                <input type="hidden" name="version" value={String(version)} autocomplete="off" />
                <button type="submit" class="tiny" aria-label={`${t.restore}: ${t.version(count(version))}`}>
                  {t.restore}
                </button>
              </form>
            )}
          </div>
        </li>
      ))}
    </ol>
  </Section>
);

type FaultsProps = Readonly<{ words: TransformWords; faults: readonly DeliveryJson[] }>;

/** The newest deliveries that wait for a better version. */
export const TransformFaults: FC<FaultsProps> = ({ words: { t, deliveryPath }, faults }) =>
  faults.length === 0 ? null : (
    <div class="notice tone-warn">
      <p>
        <strong>{t.faults}</strong>
      </p>
      <ul>
        {faults.map((delivery) => (
          <li class="break">
            <a href={deliveryPath(delivery)}>{delivery.event_id}</a>
            {delivery.transform_fault !== undefined && ` ${delivery.transform_fault}`}
          </li>
        ))}
      </ul>
      <p>{t.faultsHint}</p>
    </div>
  );
