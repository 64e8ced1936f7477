/** The release that this is, as in `package.json`. */
export const VERSION = "0.4.0";
