"""Whether a webhook is one of the server's: Standard Webhooks, version 1, with a shared secret."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import time
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Union

from .errors import InvalidWebhook

TOLERANCE = 300  # seconds, either way
MIN_KEY = 24  # bytes


@dataclass(frozen=True)
class Webhook:
    """What a genuine webhook says. It permits nothing: read the approval with the agent's own key."""

    id: str  # the same for every attempt: pass over what you have seen
    type: str
    approval_id: str  # "" when it is about none
    status: str  # the approval's
    data: Dict[str, Any]


def verify_webhook(secret: str, headers: Mapping[str, str], body: Union[bytes, str], *, now: Optional[float] = None) -> Webhook:
    """Check a webhook by its secret ("whsec_…"), and return what it says.

    body is what came, byte for byte. Raises InvalidWebhook, when it is not genuine or older than five
    minutes. Somebody who overheard it may send it again within these: remember id for as long.
    """
    raw = body.encode() if isinstance(body, str) else body
    key = _key(secret)
    id_, stamp, signatures = (_header(headers, "webhook-" + name) for name in ("id", "timestamp", "signature"))
    if not re.fullmatch(r"[0-9]{1,15}", stamp, re.ASCII):
        raise InvalidWebhook("its timestamp is no number of seconds")
    if abs(int(time.time() if now is None else now) - int(stamp)) > TOLERANCE:
        raise InvalidWebhook("it is not of these five minutes")
    digest = hmac.new(key, f"{id_}.{stamp}.".encode() + raw, hashlib.sha256).digest()
    want = b"v1," + base64.b64encode(digest)
    fits = [hmac.compare_digest(want, got.encode()) for got in signatures.split(" ")]
    if not any(fits):
        raise InvalidWebhook("no signature fits")
    try:
        said = json.loads(raw)
        data = said["data"]
        texts = {name: data.get(name, "") for name in ("approval_id", "status")}
        texts["type"] = said["type"]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InvalidWebhook("its body says nothing that is known") from None
    if not all(isinstance(text, str) for text in texts.values()):
        raise InvalidWebhook("its body says nothing that is known")
    return Webhook(id=id_, data=data, **texts)


def _key(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret[len("whsec_") :], validate=True) if secret.startswith("whsec_") else b""
    except (binascii.Error, ValueError):
        key = b""
    if len(key) < MIN_KEY:
        raise InvalidWebhook("the secret is none")
    return key


def _header(headers: Mapping[str, str], name: str) -> str:
    found = [value for key, value in headers.items() if key.lower() == name]
    if len(found) != 1 or not found[0] or not found[0].isascii():
        raise InvalidWebhook(f"the header {name} is not there once")
    return found[0]
