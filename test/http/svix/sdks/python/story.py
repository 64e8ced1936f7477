"""The story, told by the Python SDK. javascript/story.ts tells the same, step by step."""

import json
import os
import time
import urllib.request
from datetime import datetime, timedelta, timezone
from urllib.parse import urlsplit

from svix.api import (
    AppPortalAccessIn,
    ApplicationIn,
    ApplicationListOptions,
    ApplicationPatch,
    BackgroundTaskType,
    EndpointGetStatsOptions,
    EndpointHeadersIn,
    EndpointHeadersPatchIn,
    EndpointIn,
    EndpointListOptions,
    EndpointPatch,
    EndpointSecretRotateIn,
    EndpointUpsertIn,
    EventExampleIn,
    EventTypeDeleteOptions,
    EventTypeImportOpenApiIn,
    EventTypeIn,
    EventTypeListOptions,
    EventTypePatch,
    EventTypeUpsertIn,
    MessageAttemptListByEndpointOptions,
    MessageGetOptions,
    MessageIn,
    MessageListOptions,
    MessagePrecheckIn,
    MessageStatus,
    OperationalWebhookEndpointIn,
    RecoverIn,
    Svix,
    SvixOptions,
)
from svix.api.message import message_in_raw
from svix.exceptions import HTTPValidationError, HttpError
from svix.webhooks import Webhook, WebhookVerificationError

SERVER = SvixOptions(server_url=os.environ["BREAKWATER_URL"])
RECEIVER = os.environ["RECEIVER_URL"]
RUN = os.environ["RUN"]

svix = Svix(os.environ["BREAKWATER_KEY"], SERVER)

# Every character that a uid may have.
APP = f"{RUN}-ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz.0123456789"
TYPE = f"{RUN}.order.paid"
PAYLOAD = {"total": 12.5, "note": "Grüße 👋"}
OTHER_SECRET = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


def step(name):
    """Runs the function as a step and prints its outcome."""

    def run(function):
        outcome, detail = "passed", ""
        try:
            function()
        except HttpError as error:
            outcome = "unsupported" if error.status_code == 501 else "failed"
            detail = f"{error.status_code} {error}"
        except Exception as error:
            outcome, detail = "failed", f"{type(error).__name__}: {error}"
        print(json.dumps({"step": name, "outcome": outcome, "detail": detail}), flush=True)

    return run


def equal(actual, expected):
    if actual != expected:
        raise AssertionError(f"expected {expected!r}, got {actual!r}")


def refused(call, status, **expected):
    """What the SDK raises, which must have the status."""
    try:
        call()
    except (HttpError, HTTPValidationError) as error:
        equal(error.status_code, status)
        for name, value in expected.items():
            equal(getattr(error, name), value)
        return error
    raise AssertionError(f"expected {status}, got an answer")


def until(ask):
    """Asks until there is an answer, for up to 20 seconds."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        answer = ask()
        if answer:
            return answer
        time.sleep(0.1)
    raise AssertionError("not within 20 seconds")


def url_of(path):
    return f"{RECEIVER}/{RUN}/{path}"


def arrived(path, count=1):
    """The requests that have come to the path, once there are so many."""
    url = f"{RECEIVER}/received?path=/{RUN}/{path}&count={count}"
    with urllib.request.urlopen(url) as response:
        return json.load(response)


def all_pages(fetch):
    """All entries of a list, page by page."""
    page = fetch(None)
    found = list(page.data)
    while not page.done:
        page = fetch(page.iterator)
        found += page.data
    return found


def is_verified(secret, body, headers):
    try:
        Webhook(secret).verify(body, headers)
        return True
    except WebhookVerificationError:
        return False


@step("health")
def _():
    svix.health.get()


# Applications

NAME = RUN.ljust(256, "x")


@step("application: create")
def _():
    app = svix.application.create(ApplicationIn(name=NAME, uid=APP))
    equal((app.name, app.uid, app.metadata), (NAME, APP, {}))


@step("application: get or create")
def _():
    app = svix.application.get_or_create(ApplicationIn(name=NAME, uid=APP))
    equal(app.id, svix.application.get(APP).id)


@step("application: list in pages")
def _():
    for n in (1, 2):
        svix.application.create(ApplicationIn(name=f"{RUN} {n}", uid=f"{RUN}-{n}"))
    uids = [
        app.uid
        for app in all_pages(
            lambda iterator: svix.application.list(ApplicationListOptions(limit=2, iterator=iterator))
        )
    ]
    equal([uids.count(uid) for uid in (APP, f"{RUN}-1", f"{RUN}-2")], [1, 1, 1])


@step("application: get by id and uid")
def _():
    app = svix.application.get(APP)
    equal(svix.application.get(app.id), app)


@step("application: update")
def _():
    app = svix.application.upsert(APP, ApplicationIn(name="Updated", uid=APP, metadata={"a": "b"}))
    equal((app.name, app.uid, app.metadata), ("Updated", APP, {"a": "b"}))


@step("application: patch")
def _():
    app = svix.application.patch(APP, ApplicationPatch(name="Patched"))
    equal((app.name, app.uid, app.metadata), ("Patched", APP, {"a": "b"}))


@step("application: delete")
def _():
    svix.application.delete(f"{RUN}-1")
    refused(lambda: svix.application.get(f"{RUN}-1"), 404)


# Event types

SCHEMAS = {"1": {"type": "object", "examples": [{"total": 1}]}}


@step("event type: create")
def _():
    created = svix.event_type.create(EventTypeIn(name=TYPE, description="Paid", schemas=SCHEMAS))
    equal((created.name, created.description, created.schemas), (TYPE, "Paid", SCHEMAS))


@step("event type: list in pages")
def _():
    for n in (1, 2):
        svix.event_type.create(EventTypeIn(name=f"{RUN}.{n}", description=""))
    names = [
        each.name
        for each in all_pages(
            lambda iterator: svix.event_type.list(EventTypeListOptions(limit=2, iterator=iterator))
        )
    ]
    equal([names.count(name) for name in (TYPE, f"{RUN}.1", f"{RUN}.2")], [1, 1, 1])


@step("event type: get")
def _():
    found = svix.event_type.get(TYPE)
    equal((found.name, found.archived, found.schemas), (TYPE, False, SCHEMAS))


@step("event type: update")
def _():
    updated = svix.event_type.upsert(TYPE, EventTypeUpsertIn(description="Updated", schemas=SCHEMAS))
    equal((updated.description, updated.schemas), ("Updated", SCHEMAS))


@step("event type: patch")
def _():
    patched = svix.event_type.patch(TYPE, EventTypePatch(description="Patched"))
    equal((patched.description, patched.schemas), ("Patched", SCHEMAS))


@step("event type: archive and delete")
def _():
    svix.event_type.delete(f"{RUN}.1")
    equal(svix.event_type.get(f"{RUN}.1").archived, True)
    svix.event_type.delete(f"{RUN}.1", EventTypeDeleteOptions(expunge=True))
    refused(lambda: svix.event_type.get(f"{RUN}.1"), 404)


# Endpoints


@step("endpoint: create")
def _():
    endpoint = svix.endpoint.create(
        APP,
        EndpointIn(
            uid="orders",
            url=url_of("orders"),
            description="Orders",
            event_types=[TYPE],
            metadata={"a": "b"},
            headers={"x-one": "1"},
        ),
    )
    equal((endpoint.uid, endpoint.description, endpoint.metadata), ("orders", "Orders", {"a": "b"}))
    equal((endpoint.url, endpoint.event_types), (url_of("orders"), [TYPE]))


@step("endpoint: list in pages")
def _():
    for uid in ("second", "third"):
        svix.endpoint.create(APP, EndpointIn(uid=uid, url=url_of(uid), event_types=["none"]))
    found = all_pages(
        lambda iterator: svix.endpoint.list(APP, EndpointListOptions(limit=2, iterator=iterator))
    )
    equal(sorted(endpoint.uid for endpoint in found), ["orders", "second", "third"])


@step("endpoint: get by id and uid")
def _():
    endpoint = svix.endpoint.get(APP, "orders")
    equal(svix.endpoint.get(APP, endpoint.id), endpoint)


@step("endpoint: patch")
def _():
    endpoint = svix.endpoint.patch(APP, "second", EndpointPatch(description="Patched", throttle_rate=5))
    equal((endpoint.description, endpoint.throttle_rate), ("Patched", 5))
    equal((endpoint.uid, endpoint.event_types), ("second", ["none"]))


@step("endpoint: update")
def _():
    update = EndpointUpsertIn(url=url_of("updated"), uid="second", event_types=["none"])
    endpoint = svix.endpoint.upsert(APP, "second", update)
    equal((endpoint.url, endpoint.description), (url_of("updated"), ""))
    equal((endpoint.throttle_rate, endpoint.event_types), (None, ["none"]))


@step("endpoint: disable and enable")
def _():
    svix.endpoint.patch(APP, "second", EndpointPatch(disabled=True))
    equal(svix.endpoint.get(APP, "second").disabled, True)
    equal(svix.endpoint.patch(APP, "second", EndpointPatch(disabled=False)).disabled, False)


@step("endpoint: set headers")
def _():
    svix.endpoint.set_headers(APP, "orders", EndpointHeadersIn(headers={"x-one": "1", "x-two": "2"}))


@step("endpoint: patch headers")
def _():
    change = EndpointHeadersPatchIn(headers={"x-three": "3"}, delete_headers=["x-one"])
    svix.endpoint.patch_headers(APP, "orders", change)


@step("endpoint: get headers")
def _():
    shown = svix.endpoint.get_headers(APP, "orders")
    equal((shown.headers, sorted(shown.sensitive)), ({}, ["x-three", "x-two"]))


@step("endpoint: get the secret")
def _():
    equal(svix.endpoint.get_secret(APP, "orders").key[:6], "whsec_")


@step("endpoint: delete")
def _():
    svix.endpoint.delete(APP, "third")
    refused(lambda: svix.endpoint.get(APP, "third"), 404)


# Messages

ORDER = MessageIn(event_type=TYPE, event_id="order-1", payload=PAYLOAD, tags=["eu"])
WITH_CONTENT = MessageGetOptions(with_content=True)


@step("message: create")
def _():
    message = svix.message.create(APP, ORDER)
    equal((message.event_type, message.event_id, message.tags), (TYPE, "order-1", ["eu"]))


@step("message: a repeated eventId is refused")
def _():
    refused(lambda: svix.message.create(APP, ORDER), 409)


@step("message: list by tag")
def _():
    svix.message.create(APP, MessageIn(event_type="none.else", payload={}, tags=["us"]))
    found = svix.message.list(APP, MessageListOptions(tag="eu", with_content=True)).data
    equal([(message.event_id, message.payload) for message in found], [("order-1", PAYLOAD)])


@step("message: get by id and eventId")
def _():
    message = svix.message.get(APP, "order-1", WITH_CONTENT)
    equal(message.payload, PAYLOAD)
    equal(svix.message.get(APP, message.id, WITH_CONTENT), message)


@step("webhook: verify what has arrived")
def _():
    [request] = arrived("orders")
    body, headers = request["body"], request["headers"]
    key = svix.endpoint.get_secret(APP, "orders").key
    equal(json.loads(body), PAYLOAD)
    equal((headers["x-two"], headers["x-three"]), ("2", "3"))
    equal(headers["svix-id"], svix.message.get(APP, "order-1").id)
    for prefix in ("svix-", "webhook-"):
        own = {name: value for name, value in headers.items() if name.startswith(prefix)}
        equal((prefix, is_verified(key, body, own)), (prefix, True))
        equal((prefix, is_verified(OTHER_SECRET, body, own)), (prefix, False))
        equal((prefix, is_verified(key, body + " ", own)), (prefix, False))


@step("message: a raw payload")
def _():
    svix.endpoint.create(APP, EndpointIn(uid="raw", url=url_of("raw"), event_types=[f"{RUN}.raw"]))
    message = svix.message.create(APP, message_in_raw(f"{RUN}.raw", "<a> 1 </a>", "text/xml"))
    [request] = arrived("raw")
    equal((request["body"], request["headers"]["content-type"]), ("<a> 1 </a>", "text/xml"))
    equal(svix.message.get(APP, message.id, WITH_CONTENT).id, message.id)


@step("message: channels")
def _():
    endpoint = EndpointIn(
        uid="west", url=url_of("west"), channels=["west"], event_types=[f"{RUN}.channel"]
    )
    equal(svix.endpoint.create(APP, endpoint).channels, ["west"])
    for channel in ("east", "west"):
        payload = {"channel": channel}
        message = MessageIn(event_type=f"{RUN}.channel", payload=payload, channels=[channel])
        svix.message.create(APP, message)
    equal(arrived("west")[0]["body"], '{"channel":"west"}')
    found = svix.message.list(APP, MessageListOptions(channel="east", with_content=True)).data
    equal([(each.channels, each.payload) for each in found], [(["east"], {"channel": "east"})])


def secret():
    return svix.endpoint.get_secret(APP, "rotated").key


former = []


@step("endpoint: rotate the secret")
def _():
    endpoint = EndpointIn(uid="rotated", url=url_of("rotated"), event_types=[f"{RUN}.rotated"])
    svix.endpoint.create(APP, endpoint)
    former.append(secret())
    rotated = svix.endpoint.rotate_secret(APP, "rotated", EndpointSecretRotateIn())
    equal(rotated.key, secret())
    equal(rotated.key in former, False)


@step("webhook: verify by the old secret and the new")
def _():
    svix.message.create(APP, MessageIn(event_type=f"{RUN}.rotated", payload=PAYLOAD))
    [request] = arrived("rotated")
    for key in (*former, secret()):
        equal(is_verified(key, request["body"], request["headers"]), True)


@step("endpoint: send an example")
def _():
    svix.endpoint.create(APP, EndpointIn(uid="example", url=url_of("example")))
    svix.endpoint.send_example(APP, "example", EventExampleIn(event_type=TYPE))
    equal(arrived("example")[0]["body"], '{"total":1}')


# Attempts


def attempts_of_order():
    return svix.message_attempt.list_by_msg(APP, svix.message.get(APP, "order-1").id).data


@step("attempt: list by message")
def _():
    [attempt] = until(attempts_of_order)
    equal(attempt.msg_id, svix.message.get(APP, "order-1").id)
    equal(attempt.endpoint_id, svix.endpoint.get(APP, "orders").id)
    equal((attempt.status, attempt.response_status_code), (MessageStatus.SUCCESS, 204))


@step("attempt: list by endpoint")
def _():
    equal(svix.message_attempt.list_by_endpoint(APP, "orders").data, attempts_of_order())


@step("attempt: get")
def _():
    [attempt] = attempts_of_order()
    equal(svix.message_attempt.get(APP, attempt.msg_id, attempt.id), attempt)


@step("attempt: endpoints of a message")
def _():
    message = svix.message.get(APP, "order-1")
    found = svix.message_attempt.list_attempted_destinations(APP, message.id).data
    equal([(endpoint.uid, endpoint.status) for endpoint in found], [("orders", MessageStatus.SUCCESS)])


@step("attempt: resend")
def _():
    path = "gone-once"
    svix.endpoint.create(APP, EndpointIn(uid=path, url=url_of(path), event_types=[f"{RUN}.gone"]))
    message = svix.message.create(APP, MessageIn(event_type=f"{RUN}.gone", payload=PAYLOAD))
    failed = MessageAttemptListByEndpointOptions(status=MessageStatus.FAIL)
    until(lambda: svix.message_attempt.list_by_endpoint(APP, path, failed).data)
    # A receiver that is gone has been disabled.
    equal(svix.endpoint.get(APP, path).disabled, True)
    svix.endpoint.patch(APP, path, EndpointPatch(disabled=False))
    svix.message_attempt.resend(APP, message.id, path)
    before, after = arrived(path, 2)
    equal(after["body"], before["body"])


# Replays, imports, operational webhooks, the portal

SINCE = datetime.now(timezone.utc) - timedelta(hours=1)


@step("attempt: messages of an endpoint")
def _():
    found = svix.message_attempt.list_attempted_messages(APP, "orders").data
    equal([(message.event_id, message.status) for message in found], [("order-1", MessageStatus.SUCCESS)])


@step("endpoint: counts")
def _():
    stats = svix.endpoint.get_stats(APP, "gone-once", EndpointGetStatsOptions(since=SINCE))
    equal(stats.fail >= 0 and stats.success >= 0, True)


tasks = []


@step("endpoint: recover")
def _():
    recovery = svix.endpoint.recover(APP, "gone-once", RecoverIn(since=SINCE))
    equal(recovery.task, BackgroundTaskType.ENDPOINT_RECOVER)
    tasks.append(recovery.id)


@step("background task: list and get")
def _():
    listed = [task.id for task in svix.background_task.list().data]
    [task] = tasks or listed
    equal(task in listed, True)
    equal(svix.background_task.get(task).id, task)


@step("message: precheck")
def _():
    equal(svix.message.precheck(APP, MessagePrecheckIn(event_type=f"{RUN}.raw")).active, True)


@step("event type: import OpenAPI")
def _():
    post = {"description": "Imported", "responses": {}}
    spec = {"openapi": "3.1.0", "webhooks": {f"{RUN}.imported": {"post": post}}}
    svix.event_type.import_openapi(EventTypeImportOpenApiIn(spec=spec))
    equal(svix.event_type.get(f"{RUN}.imported").description, "Imported")


@step("operational webhook")
def _():
    endpoints = svix.operational_webhook.endpoint
    made = endpoints.create(
        OperationalWebhookEndpointIn(url=url_of("operations"), event_types=["endpoint.disabled"])
    )
    endpoint = endpoints.get(made.id)
    equal(endpoint.event_types, ["endpoint.disabled"])
    equal([each for each in endpoints.list().data if each.id == made.id], [endpoint])
    endpoints.delete(made.id)
    refused(lambda: endpoints.get(made.id), 404)


@step("portal link")
def _():
    link = svix.authentication.app_portal_access(APP, AppPortalAccessIn())
    equal(urlsplit(link.url).scheme in ("http", "https"), True)


# Errors


@step("error: 404 for what there is not")
def _():
    refused(
        lambda: svix.application.get("none"), 404, code="not_found", detail="There is no application none"
    )


@step("error: 409 for a uid that is taken")
def _():
    refused(lambda: svix.application.create(ApplicationIn(name="Again", uid=APP)), 409)


@step("error: 422 with the place of the fault")
def _():
    error = refused(lambda: svix.endpoint.create(APP, EndpointIn(url="nowhere")), 422)
    equal(error.detail[0].loc, ["body", "url"])


@step("error: 401 for an unknown token")
def _():
    refused(lambda: Svix("testsk_none.eu", SERVER).application.list(), 401)


@step("error: 501 names the route")
def _():
    error = refused(lambda: svix.statistics.aggregate_event_types(), 501)
    equal("PUT /api/v1/stats/usage/event-types" in error.detail, True)
