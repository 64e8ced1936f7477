/** Pages about destinations that are not https endpoints. */
import { beforeEach, describe, expect, test } from "vitest";
import { emptyDatabase, testApi } from "../../support/api.ts";
import { queueBinding, serviceBinding } from "../../support/bindings.ts";
import { signedIn } from "../../support/dashboard.ts";
import { receivers } from "../../support/receivers.ts";

const receiver = receivers();
const destinationBindings = new Map([
  ["ORDERS", queueBinding(receiver, "ORDERS")],
  ["BILLING", serviceBinding(receiver)],
]);

beforeEach(emptyDatabase);

describe.each([
  [{ kind: "queue", binding: "ORDERS" }, "queue:ORDERS"],
  [{ kind: "service", binding: "BILLING", path: "/hook" }, "service:BILLING/hook"],
])("%j", (target, shown) => {
  test("is shown by its target on the pages, without a command to send an event by hand", async () => {
    const api = testApi({ services: { destinationBindings } });
    const { json: destination } = await api.call("POST", "/v1/destinations", target);
    const { json: other } = await api.call("POST", "/v1/destinations", { url: "https://example.com/hook" });
    const { json: event } = await api.call("POST", "/v1/events", { type: "order.paid", data: 1 });
    expect(event.deliveries.map((one: { destination_id: string }) => one.destination_id).toSorted()).toEqual(
      [destination.id, other.id].toSorted(),
    );
    const browser = await signedIn();
    for (const path of ["", `/destinations/${destination.id}`, `/events/${event.id}`]) {
      const { status, html } = await browser.get(`/dashboard${path}`);
      expect(status).toBe(200);
      expect(html).toContain(shown);
    }
    const { html } = await browser.get(`/dashboard/events/${event.id}`);
    expect(html).toContain("curl &#39;https://example.com/hook&#39;");
    expect(html).not.toContain(`curl &#39;${shown}`);
  });
});
