/** The customer's side, as a handler of a framework that has requests and responses of the Fetch standard. */
import { verify, WebhookVerificationError } from "breakwater-client/verify";

/** Answers 204 to deliveries that the destination's secret has signed, and 401 to everything else. */
export async function receive(request: Request, secret: string): Promise<Response> {
  try {
    const { id, json } = await verify(request, secret);
    console.log(`${id}: ${JSON.stringify(json())}`);
    return new Response(null, { status: 204 });
  } catch (error) {
    if (!(error instanceof WebhookVerificationError)) throw error;
    return new Response(error.message, { status: 401 });
  }
}
