/** A request's body as it comes: no more of it than a route takes, whatever Content-Length says, or does not. */

/**
 * So much of a body that is too large is read on and dropped: half-read ones break the connection under the
 * caller's next request, and `wrangler dev` altogether.
 */
const DRAINED = 16 * 1024 * 1024;

/** Hands `take` the body chunk by chunk; false when it has more than `max` bytes, of which no more are taken. */
export async function readAtMost(
  request: Request,
  max: number,
  take: (chunk: Uint8Array) => void,
): Promise<boolean> {
  if (Number(request.headers.get("content-length")) > max) return false;
  let size = 0;
  for await (const chunk of request.body ?? []) {
    size += chunk.byteLength;
    if (size <= max) take(chunk);
    else if (size > max + DRAINED) break;
  }
  return size <= max;
}
