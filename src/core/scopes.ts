/** The permissions of an API key: post events, read everything but secrets, and everything else. */
export const scopes = ["events:write", "read", "admin"] as const;

export type Scope = (typeof scopes)[number];
