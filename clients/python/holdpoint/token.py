"""The offline check of a resumption token: a compact JWS by an Ed25519 key of the server."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from .errors import HoldpointError, InvalidToken

TOKEN_TYPE = "holdpoint-resumption+jwt"
MAX_TOKEN_SIZE = 16 << 10
MAX_TOKEN_LIFE = 24 * 60 * 60


@dataclass(frozen=True)
class Claims:
    """What a token says. Times are whole seconds since 1970."""

    issuer: str
    audience: str  # the environment in which the call may run
    subject: str  # the agent that may run it
    issued_at: int
    not_before: int
    expires: int
    id: str
    approval_id: str
    outcome: str
    digest: str  # of tool and arguments
    policy_digest: str
    constraints: Optional[Dict[str, Any]]


def verify_token(
    jwks: Union[str, bytes],
    token: str,
    *,
    issuer: str,
    audience: str,
    subject: str = "",
    digest: str = "",
    now: Optional[float] = None,
) -> Claims:
    """Check a token against the server's /.well-known/jwks.json, and return its claims.

    subject and digest are compared when they are not empty. Raises InvalidToken. Genuine is not
    unspent: only redeeming a token tells whether it still permits anything.

    The signature is checked by the package "cryptography", because the standard library has no
    Ed25519. Without it, this raises HoldpointError, and believes nothing.
    """
    if not issuer or not audience:
        raise ValueError("say which issuer and audience are expected")
    keys = _keys(jwks)
    header, payload, signature = _split(token)
    key = keys.get(_kid(header))
    if key is None:
        raise InvalidToken("no key of the set has the id that it names")
    if not _signed(key, signature, token.rpartition(".")[0].encode("ascii")):
        raise InvalidToken("the signature does not verify")
    c = _claims(payload)
    at = int(time.time() if now is None else now)
    for wrong, why in (
        (c.issuer != issuer, "another issuer signed it"),
        (c.audience != audience, "it is for another environment"),
        (bool(subject) and c.subject != subject, "it is another agent's"),
        (bool(digest) and c.digest != digest, "it is for another call"),
        (c.not_before < c.issued_at or c.expires <= c.not_before, "its times make no sense"),
        (c.expires - c.issued_at > MAX_TOKEN_LIFE, "its times make no sense"),
        (at < c.not_before, "it is not valid yet"),
        (at >= c.expires, "it has expired"),
    ):
        if wrong:
            raise InvalidToken(why)
    return c


def _signed(key: bytes, signature: bytes, message: bytes) -> bool:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        raise HoldpointError('checking a token offline needs the package "cryptography": pip install holdpoint[tokens]') from None
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def _split(token: str) -> Tuple[bytes, bytes, bytes]:
    if len(token) > MAX_TOKEN_SIZE:
        raise InvalidToken("it is too long")
    parts = token.split(".")
    if len(parts) != 3:
        raise InvalidToken("it has not three parts")
    try:
        header, payload, signature = (_decode(part) for part in parts)
    except ValueError:
        raise InvalidToken("a part is not canonical base64url") from None
    return header, payload, signature


def _decode(text: str) -> bytes:
    """Read base64url in its one canonical spelling: no padding, no stray bits."""
    if not re.fullmatch(r"[A-Za-z0-9_-]+", text):
        raise ValueError("not base64url")
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as e:
        raise ValueError("not base64url") from e
    if _encode(data) != text:
        raise ValueError("not canonical")
    return data


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


class _Number(str):
    """A number as it is spelled."""


def _object(data: Union[str, bytes]) -> Dict[str, Any]:
    """Read one JSON object whose names are all different, also when case is disregarded."""

    def members(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
        if len({name.lower() for name, _ in pairs}) != len(pairs):
            raise ValueError("a name is there twice")
        return dict(pairs)

    def constant(_: str) -> Any:
        raise ValueError("not JSON")

    if isinstance(data, bytes):
        data = data.decode("utf-8")
    try:
        value = json.loads(data, object_pairs_hook=members, parse_int=_Number, parse_float=_Number, parse_constant=constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("no object")
    return value


def _text(members: Mapping[str, Any], name: str) -> str:
    value = members.get(name)
    return value if isinstance(value, str) and not isinstance(value, _Number) else ""


def _kid(header: bytes) -> str:
    try:
        h = _object(header)
    except ValueError:
        raise InvalidToken("its header is not strict JSON") from None
    if len(h) != 3 or _text(h, "alg") != "EdDSA" or _text(h, "typ") != TOKEN_TYPE or not _text(h, "kid"):
        raise InvalidToken(f"its header is not {{alg EdDSA, kid, typ {TOKEN_TYPE}}}")
    return _text(h, "kid")


def _claims(payload: bytes) -> Claims:
    try:
        m = _object(payload)
    except ValueError:
        raise InvalidToken("its claims are not strict JSON") from None

    def text(name: str) -> str:
        value = _text(m, name)
        if not value:
            raise InvalidToken(f"the claim {name} is missing or no text")
        return value

    def seconds(name: str) -> int:
        value = m.get(name)
        # Plain digits only: no fraction, no exponent, nothing beyond 2^53.
        if not isinstance(value, _Number) or not re.fullmatch("[0-9]{1,16}", value) or not 1 <= int(value) <= 1 << 53:
            raise InvalidToken(f"the claim {name} is missing or no whole number of seconds")
        return int(value)

    constraints = None
    if "constraints" in m:
        if not isinstance(m["constraints"], dict):
            raise InvalidToken("its constraints are not an object")
        constraints = json.loads(payload)["constraints"]
    return Claims(
        issuer=text("iss"),
        audience=text("aud"),
        subject=text("sub"),
        issued_at=seconds("iat"),
        not_before=seconds("nbf"),
        expires=seconds("exp"),
        id=text("jti"),
        approval_id=text("approval_id"),
        outcome=text("outcome"),
        digest=text("digest"),
        policy_digest=text("policy_digest"),
        constraints=constraints,
    )


def _keys(jwks: Union[str, bytes]) -> Dict[str, bytes]:
    """The set's Ed25519 keys by their ids. Keys of other kinds and for other uses are passed over;

    a key whose id is not its RFC 7638 thumbprint spoils the set.
    """
    try:
        listed = _object(jwks)["keys"]
        if not isinstance(listed, list) or not all(isinstance(k, dict) for k in listed):
            raise ValueError("no keys")
    except (KeyError, ValueError):
        raise InvalidToken("the keys are not a JSON Web Key Set") from None
    keys: Dict[str, bytes] = {}
    for k in listed:
        if _text(k, "kty") != "OKP" or _text(k, "crv") != "Ed25519" or k.get("alg", "EdDSA") != "EdDSA" or k.get("use", "sig") != "sig":
            continue
        x = _text(k, "x")
        try:
            key = _decode(x)
        except ValueError:
            key = b""
        if len(key) != 32:
            raise InvalidToken("a key of the set is not an Ed25519 public key")
        thumbprint = _encode(hashlib.sha256(f'{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}'.encode()).digest())
        if _text(k, "kid") != thumbprint:
            raise InvalidToken("the kid of a key is not its RFC 7638 thumbprint")
        keys[thumbprint] = key
    if not keys:
        raise InvalidToken("the set holds no Ed25519 key")
    return keys
