/** The request of an attempt beside its answer, in the language of the page. */
import type { FC } from "hono/jsx";
import type { AttemptJson } from "../../features/deliveries/schema.ts";
import { bytesOf, headerLines, requestText } from "./exchange.ts";
import { indented } from "./format.ts";
import { Copyable, Section } from "./parts.tsx";

export type ExchangeTexts = Readonly<{
  copy: string;
  request: string;
  /** Follows the heading of the request. */
  requestHint: string;
  noRequest: string;
  noBody: string;
  response: string;
  noAnswer: string;
  cut: string;
  empty: string;
  download: string;
  more: (lines: number) => string;
  binary: (bytes: number) => string;
}>;

type Props = Readonly<{
  attempt: AttemptJson;
  texts: ExchangeTexts;
  /** Where the body of the answer can be saved. */
  answerPath: string;
}>;

export const ExchangeView: FC<Props> = (props) => (
  <div class="columns">
    <Section id="request-head" title={props.texts.request} of="column">
      <Request {...props} />
    </Section>
    <Section id="answer-head" title={props.texts.response} of="column">
      <Answer {...props} />
    </Section>
  </div>
);

const Request: FC<Props> = ({ attempt: { request }, texts }) => {
  if (request === null) return <p class="hint">{texts.noRequest}</p>;
  const { url, headers, body, encoding } = request;
  const isText = body !== null && encoding === "utf-8";
  const text = requestText({ url, headers, body: isText ? body : "" });
  return (
    <>
      <p class="hint">{texts.requestHint}</p>
      <Copyable id="request" label={texts.request} text={text} verb={texts.copy} more={texts.more} />
      {body === null && <p>{texts.noBody}</p>}
      {body !== null && !isText && <p>{texts.binary(bytesOf({ body, encoding }).byteLength)}</p>}
    </>
  );
};

const Answer: FC<Props> = ({ attempt: { response }, texts, answerPath }) => {
  if (response === null) return <p class="hint">{texts.noAnswer}</p>;
  const { headers, encoding, body, is_whole: isWhole } = response;
  return (
    <>
      {headers !== null && <pre tabindex={0}>{headerLines(headers)}</pre>}
      {body === "" && <p class="hint">{texts.empty}</p>}
      {body !== "" && !isWhole && <p class="hint">{texts.cut}</p>}
      {body !== "" && encoding === "utf-8" && (
        <Copyable
          id="answer"
          label={texts.response}
          text={indented(body)}
          verb={texts.copy}
          more={texts.more}
        />
      )}
      {body !== "" && encoding === "base64" && <p>{texts.binary(bytesOf(response).byteLength)}</p>}
      {body !== "" && (
        <p>
          <a href={answerPath}>{texts.download}</a>
        </p>
      )}
    </>
  );
};
