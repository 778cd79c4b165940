"""Checks that a webhook is from your server: the signatures of Standard Webhooks."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import FieldpostError

#: How far a webhook's time may be from ours, in seconds.
TOLERANCE = 300.0
_PREFIX = "whsec_"


class WebhookError(FieldpostError):
    """A request that is not to be trusted."""


def verify(
    secrets: str | Sequence[str],
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: float | None = None,
    tolerance: float = TOLERANCE,
) -> Any:
    """The webhook's body, read, if one of the secrets has signed it; otherwise raises :class:`WebhookError`.

    ``body`` has to be the very bytes that came. ``webhook-id`` is the same for every attempt to tell one thing:
    remember it to do nothing twice. Several secrets are for the time in which a secret is changed.
    """
    by_name = {name.lower(): value for name, value in headers.items()}
    try:
        webhook_id, sent_at = by_name["webhook-id"], by_name["webhook-timestamp"]
        signatures = by_name["webhook-signature"]
    except KeyError as missing:
        raise WebhookError(f"no header {missing}") from None
    if not sent_at.isdecimal():
        raise WebhookError("webhook-timestamp is not a number")
    if abs((time.time() if now is None else now) - int(sent_at)) > tolerance:
        raise WebhookError("webhook-timestamp is too far from now")
    signed = f"{webhook_id}.{sent_at}.".encode() + body
    given = [text.partition(",")[2].encode() for text in signatures.split() if text.startswith("v1,")]
    for secret in [secrets] if isinstance(secrets, str) else secrets:
        wanted = base64.b64encode(hmac.new(_key(secret), signed, hashlib.sha256).digest())
        if any(hmac.compare_digest(wanted, signature) for signature in given):
            return json.loads(body)
    raise WebhookError("no signature fits")


def _key(secret: str) -> bytes:
    text = secret[len(_PREFIX) :] if secret.startswith(_PREFIX) else secret
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError("a secret is whsec_ and base64") from error
