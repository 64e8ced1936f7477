/** Names of groups. A host's has a colon, so that a name that an operator gives is never a host's. */

/** The value of `group` that joins every destination with the same host. */
export const BY_HOST = "host";
const HOST_PREFIX = "host:";

/** A name that an operator gives. */
export const GROUP_NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;
/** A group of either kind, as paths and the table `groups` name it. */
export const GROUP_ID = /^(host:[a-z0-9_.[\]:-]{1,255}|[A-Za-z0-9][A-Za-z0-9_.-]{0,63})$/;

/** @param host with its port, unless that is the usual one */
export function groupOfHost(host: string): string {
  return `${HOST_PREFIX}${host}`;
}

/** Whether all members of the group send to one host and port. */
export function isGroupOfHost(name: string): boolean {
  return name.startsWith(HOST_PREFIX);
}
