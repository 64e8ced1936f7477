/** What is checked, and what the documentation shows of it. */
import type { Model } from "./explorer.ts";

// biome-ignore lint/suspicious/noExplicitAny: the models have states of their own
export type AnyModel = Model<any>;

export type Checked = Readonly<{ name: string; model: () => AnyModel }>;

/** Broken on purpose. */
export type Variant = Checked;
