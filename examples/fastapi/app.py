"""A shop on FastAPI: posts an event for each order, and receives what Breakwater delivers."""

import json
import os
from urllib.request import Request as Post, urlopen

from fastapi import FastAPI, Request, Response
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

app = FastAPI()
webhook = Webhook(os.environ["WEBHOOK_SECRET"])


# FastAPI runs a function that is not async in a thread of its own.
@app.post("/orders", status_code=201)
def order(order: dict):
    event = {"type": "order.created", "tenant": "acme", "data": order}
    headers = {
        "Authorization": f"Bearer {os.environ['BREAKWATER_KEY']}",
        "Content-Type": "application/json",
        "Idempotency-Key": f"order {order['id']}",
    }
    url = f"{os.environ['BREAKWATER_URL']}/v1/events"
    with urlopen(Post(url, json.dumps(event).encode(), headers), timeout=10) as answer:
        return {"event": json.load(answer)["id"]}


@app.post("/webhooks")
async def receive(request: Request):
    try:
        event = webhook.verify(await request.body(), dict(request.headers))
    except WebhookVerificationError as error:
        return Response(str(error), status_code=401)
    print(request.headers["webhook-id"], event)
    return Response(status_code=204)
