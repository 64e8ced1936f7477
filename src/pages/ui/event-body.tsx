/** The body of an event as it is sent; its JSON is indented. */
import type { FC } from "hono/jsx";
import { readable, textOf } from "../../delivery/http.ts";
import type { StoredEvent } from "../../store/planned-deliveries.ts";
import { indented } from "./format.ts";
import { usePage } from "./page.tsx";
import { Copyable } from "./parts.tsx";

export const EventBody: FC<{ event: Pick<StoredEvent, "body" | "isErased"> }> = ({
  event: { body, isErased },
}) => {
  const t = usePage().t.body;
  if (isErased || !body) return <p>{isErased ? t.erased : t.damaged}</p>;
  const text = readable(textOf(body));
  return text === undefined ? (
    <Copyable id="sent-body" label={t.base64} text={body.toBase64()} />
  ) : (
    <Copyable id="sent-body" label={t.text} text={indented(text)} />
  );
};
