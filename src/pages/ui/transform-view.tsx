/** Views of a transformation: its preview, its versions, and the deliveries that it failed for. */
import type { FC } from "hono/jsx";
import type { DeliveryJson } from "../../features/deliveries/schema.ts";
import type { TransformPreview, TransformVersions } from "../../features/destinations/transforms.ts";
import { headerLines } from "./exchange.ts";
import { indented } from "./format.ts";
import { usePage } from "./page.tsx";
import { Ago, Press, Section, StateLabel } from "./parts.tsx";
import type { TransformTexts } from "./transform-texts.ts";

type Tried = TransformPreview["events"][number];

const TONES = { sent: "good", cancelled: "quiet", failed: "bad" } as const;

/** Characters of a body that are shown. */
const MOST_SHOWN = 20_000;

/** Whether to show where requests go. */
type UrlProps = Readonly<{ showsUrl: boolean }>;

export const TransformDryRun: FC<UrlProps & Readonly<{ preview: TransformPreview }>> = ({
  preview: { events },
  showsUrl,
}) => {
  const { transform: t, types } = usePage().t;
  return (
    <Section id="preview" title={t.preview}>
      {events.length === 0 && <p class="empty">{t.noEvents}</p>}
      {events.map((tried, i) => (
        <article class="delivery">
          <div class="head">
            <h3 class="break">{tried.event_id === null ? types.exampleOf(tried.type) : tried.type}</h3>
            <StateLabel tone={TONES[tried.result]}>{t.results[tried.result]}</StateLabel>
          </div>
          {tried.event_id !== null && <p class="small soft break">{tried.event_id}</p>}
          {tried.fault !== null && <p class="fault break">{tried.fault}</p>}
          {tried.result === "sent" && <p class="small soft">{changesText(tried, t)}</p>}
          <details open={i === 0}>
            <summary>{tried.after ? `${t.before} · ${t.after}` : t.before}</summary>
            <div class="columns">
              <Request title={t.before} part={tried.before} showsUrl={showsUrl} />
              {tried.after && <Request title={t.after} part={tried.after} showsUrl={showsUrl} />}
            </div>
          </details>
        </article>
      ))}
    </Section>
  );
};

function changesText({ changed }: Tried, t: TransformTexts): string {
  return changed.length === 0 ? t.unchanged : t.changed(changed.map((name) => t.parts[name]).join(", "));
}

type RequestProps = UrlProps & Readonly<{ title: string; part: Tried["before"] }>;

const Request: FC<RequestProps> = ({ title, part, showsUrl }) => {
  const t = usePage().t.transform;
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

type VersionsProps = Readonly<{ path: string; versions: TransformVersions["data"]; mayChange: boolean }>;

/** The newest first. Each can be shown in the form, and all but the newest restored. */
export const VersionList: FC<VersionsProps> = ({ path, versions, mayChange }) => {
  const { f, authorText, t: texts } = usePage();
  const t = texts.transform;
  return (
    <Section id="versions" title={t.versions}>
      {versions.length === 0 && <p class="empty">{t.noVersions}</p>}
      <ol>
        {versions.map(({ version, created_at, author, template, code }, i) => {
          const name = t.version(f.count(version));
          return (
            <li class="delivery">
              <p class="break">
                <strong>{name}</strong>
                {template === null && code === null && `, ${t.none}`}
                <span class="soft small">
                  {" "}
                  <Ago at={created_at} />
                  {`, ${authorText(author)}`}
                </span>
              </p>
              <div class="actions">
                <a class="small" href={`${path}?version=${version}`} aria-label={`${t.show}: ${name}`}>
                  {t.show}
                </a>
                {mayChange && i > 0 && (
                  <Press
                    action={`${path}/restore`}
                    label={t.restore}
                    hidden={{ version: String(version) }}
                    of="tiny"
                    title={`${t.restore}: ${name}`}
                  />
                )}
              </div>
            </li>
          );
        })}
      </ol>
    </Section>
  );
};

/** The newest deliveries that wait for a better version. */
export const TransformFaults: FC<{ faults: readonly DeliveryJson[] }> = ({ faults }) => {
  const { deliveryAt, t: texts } = usePage();
  const t = texts.transform;
  if (faults.length === 0) return null;
  return (
    <div class="notice tone-warn">
      <p>
        <strong>{t.faults}</strong>
      </p>
      <ul>
        {faults.map((delivery) => (
          <li class="break">
            <a href={deliveryAt(delivery, true)}>{delivery.event_id}</a>
            {delivery.transform_fault !== undefined && ` ${delivery.transform_fault}`}
          </li>
        ))}
      </ul>
      <p>{t.faultsHint}</p>
    </div>
  );
};
