/** The example and the schema of an event type, to be copied. */
import type { FC } from "hono/jsx";
import type { EventType } from "../../store/event-types.ts";
import { indented } from "../ui/format.ts";
import { Copyable } from "../ui/parts.tsx";
import { useLook } from "./look.ts";

/** @param place makes ids, which a name might not be fit for */
type Props = Readonly<{ type: EventType; place: number }>;

export const TypeExample: FC<Props> = ({ type: { name, example }, place }) =>
  example === null ? null : (
    <Copyable id={`example-${place}`} label={useLook().t.types.exampleOf(name)} text={indented(example)} />
  );

export const TypeSchema: FC<Props> = ({ type: { name, schema }, place }) =>
  schema === null ? null : (
    <Copyable id={`schema-${place}`} label={useLook().t.types.schemaOf(name)} text={indented(schema)} />
  );
