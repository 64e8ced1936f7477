"""A complete receiver for Breakwater's webhooks. Python 3.9 or later.

    WEBHOOK_SECRET=whsec_… python3 receiver.py
    WEBHOOK_JWKS=https://breakwater.example.com/v1/destinations/dst_…/jwks.json python3 receiver.py

The first verifies HMAC-SHA256 with the destination's secret and needs the standard library alone. The second verifies
ed25519 with its public keys and needs the package `cryptography`.
"""

import base64
import binascii
import hashlib
import hmac
import json
import logging
import os
import re
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = os.environ.get("WEBHOOK_SECRET", "")
JWKS = os.environ.get("WEBHOOK_JWKS", "")
if bool(SECRET) == bool(JWKS):
    sys.exit("Set either WEBHOOK_SECRET or WEBHOOK_JWKS")
if SECRET and not SECRET.startswith("whsec_"):
    sys.exit("WEBHOOK_SECRET begins with whsec_")
if JWKS:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

TOLERANCE_S = 300
MAX_BODY_BYTES = 1024 * 1024
REMEMBERED_S = 7 * 24 * 60 * 60


class Refused(Exception):
    """The answer to a refused request."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def verify(headers, body):
    """Raises unless the request was signed less than five minutes ago. `body` is its raw bytes."""
    message_id = headers.get("webhook-id")
    timestamp = headers.get("webhook-timestamp")
    signatures = headers.get("webhook-signature")
    if not message_id or not timestamp or not signatures:
        raise Refused(401, "a webhook header is missing")
    if not re.fullmatch(r"[0-9]{1,12}", timestamp) or abs(time.time() - int(timestamp)) > TOLERANCE_S:
        raise Refused(401, "the timestamp is too old or too new")
    content = f"{message_id}.{timestamp}.".encode() + body
    given = [one.partition(",")[::2] for one in signatures.split(" ")]
    is_valid = is_signed_by_hmac(content, given) if SECRET else is_signed_by_key(content, given)
    if not is_valid:
        raise Refused(401, "no signature matches")


def is_signed_by_hmac(content, given):
    """One signature for each secret that is in force: any of them may match."""
    key = base64.b64decode(SECRET[len("whsec_") :])
    expected = hmac.new(key, content, hashlib.sha256).digest()
    return any(
        version == "v1" and hmac.compare_digest(from_base64(signature), expected) for version, signature in given
    )


def is_signed_by_key(content, given):
    # A key that is not known may be new: the destination's secret has been rotated.
    return any(matches(content, given, public_keys(max_age)) for max_age in (300, 1))


def matches(content, given, keys):
    for version, signature in given:
        for key in keys if version == "v1a" else ():
            try:
                key.verify(from_base64(signature), content)
                return True
            except InvalidSignature:
                pass
    return False


def from_base64(text):
    """Empty when it is no base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


cached = {"keys": None, "at": float("-inf")}
cache_lock = threading.Lock()


def public_keys(max_age_seconds):
    """The keys, fetched again when they are older than this; the last known ones when they cannot be fetched."""
    with cache_lock:
        if time.monotonic() - cached["at"] >= (1 if cached["keys"] is None else max_age_seconds):
            cached["at"] = time.monotonic()
            try:
                with urllib.request.urlopen(JWKS, timeout=5) as response:
                    keys = json.load(response)["keys"]
                cached["keys"] = [
                    Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(key["x"] + "="))
                    for key in keys
                    if key["kty"] == "OKP" and key["crv"] == "Ed25519"
                ]
            except (OSError, ValueError, KeyError) as error:
                logging.error("The public keys cannot be fetched: %s", error)
        if cached["keys"] is None:
            raise Refused(503, "the public keys are not known")
        return cached["keys"]


# The ids that have been handled. In production this is a table with a unique column: insert the id in the transaction
# that stores the effect, so that both or neither survive a crash.
handled = {}
handled_lock = threading.Lock()


def claim(message_id):
    with handled_lock:
        oldest = time.time() - REMEMBERED_S
        for known in [known for known, at in handled.items() if at < oldest]:
            del handled[known]
        if message_id in handled:
            return False
        handled[message_id] = time.time()
        return True


def release(message_id):
    with handled_lock:
        handled.pop(message_id, None)


def handle(message_id, event):
    """The application's handling of an event."""
    logging.info("handled %s %s", message_id, event["type"])


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        try:
            self.receive()
            self.answer(204)
        except Refused as refused:
            self.answer(refused.status, str(refused))
        except Exception as error:
            logging.error("The event cannot be handled: %r", error)
            self.answer(500)

    def receive(self):
        length = self.headers.get("content-length", "")
        if not re.fullmatch(r"[0-9]{1,12}", length):
            self.close_connection = True
            raise Refused(411, "the length of the body is missing")
        if int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            raise Refused(413, "the body is too large")
        body = self.rfile.read(int(length))
        verify(self.headers, body)
        message_id = self.headers["webhook-id"]
        if not claim(message_id):
            logging.info("duplicate %s", message_id)
            return
        try:
            handle(message_id, json.loads(body))
        except BaseException:
            release(message_id)
            raise

    def answer(self, status, text=""):
        body = text.encode()
        self.send_response(status)
        if status != 204:
            self.send_header("content-length", str(len(body)))
        if status == 503:
            self.send_header("retry-after", "30")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    # Each request has a thread. A record of logging is one line, whereas what two threads print can share one.
    logging.basicConfig(stream=sys.stdout, format="%(message)s", level=logging.INFO)
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8788"))), Receiver)
    logging.info("listening on %s", server.server_port)
    server.serve_forever()
