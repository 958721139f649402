"""A webhook receiver that checks the signature, answers at once and drops repeated events."""

from __future__ import annotations

import hashlib
import hmac
import json
import queue
import time
from http.server import BaseHTTPRequestHandler

TOLERANCE_SECONDS = 300
work: queue.Queue[dict[str, object]] = queue.Queue(maxsize=1000)
seen_ids: set[str] = set()


def signature_is_valid(secret: bytes, header: str, body: bytes, now: float) -> bool:
    """True if the header was made with the secret and is at most five minutes old."""
    parts = dict(part.split("=", 1) for part in header.split(",") if "=" in part)
    stamp = parts.get("t", "")
    if not stamp.isdigit() or abs(now - int(stamp)) > TOLERANCE_SECONDS:
        return False
    expected = hmac.new(secret, f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, parts.get("v1", ""))


class Receiver(BaseHTTPRequestHandler):
    """Queue the event and answer 204; a full queue answers 503, which makes the hub try again later."""

    secret = b"replace-me"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if not signature_is_valid(self.secret, self.headers.get("Orre-Signature", ""), body, time.time()):
            self.send_error(401)
            return
        event = json.loads(body)
        if event["id"] not in seen_ids:
            if work.full():
                self.send_error(503)
                return
            work.put(event)
            seen_ids.add(event["id"])
        self.send_response(204)
        self.end_headers()
