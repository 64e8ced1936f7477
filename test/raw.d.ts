/** The text of a file, as Vite imports it. */
declare module "*.md?raw" {
  const text: string;
  // biome-ignore lint/style/noDefaultExport: Vite exports it so.
  export default text;
}
