/** The example and the schema of an event type, to be copied. */
import type { FC } from "hono/jsx";
import type { EventType } from "../../store/event-types.ts";
import { indented } from "../ui/format.ts";
import type { Look } from "./look.ts";
import { Copy } from "./parts.tsx";

/** @param place makes ids, which a name might not be fit for */
type Props = Readonly<{ look: Look; type: EventType; place: number }>;

export const TypeExample: FC<Props> = ({ look, type: { name, example }, place }) =>
  example === null ? null : (
    <Copy look={look} id={`example-${place}`} label={look.t.types.exampleOf(name)} text={indented(example)} />
  );

export const TypeSchema: FC<Props> = ({ look, type: { name, schema }, place }) =>
  schema === null ? null : (
    <Copy look={look} id={`schema-${place}`} label={look.t.types.schemaOf(name)} text={indented(schema)} />
  );
