/** The text of a file, as Vite imports it. */
declare module "*.md?raw" {
  const text: string;
  // biome-ignore lint/style/noDefaultExport: Vite exports it so.
  export default text;
}

/** Vite's: the modules that match, loaded at once. */
interface ImportMeta {
  glob<T>(pattern: string, options: Readonly<{ eager: true }>): Readonly<Record<string, T>>;
}
