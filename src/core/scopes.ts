/** The permissions of an API key: post events, read everything but secrets, fetch from polled destinations, and everything else. */
export const scopes = ["events:write", "read", "poll", "admin"] as const;

export type Scope = (typeof scopes)[number];
