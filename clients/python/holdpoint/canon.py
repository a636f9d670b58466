"""The digest of a call: SHA-256 of the RFC 8785 form of {"arguments", "tool"}, as the server computes it."""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal
from typing import Any


def digest(tool: str, arguments: Any) -> str:
    """Name a call. Two calls have one digest exactly if they say the same.

    Raises ValueError for what the server does not read either: NaN, -0, integers that no
    float64 says exactly, NUL, unpaired surrogates, names that are no text.
    """
    form = canonical({"arguments": arguments, "tool": tool})
    return "sha256:" + hashlib.sha256(form.encode("utf-8")).hexdigest()


def canonical(value: Any) -> str:
    """The RFC 8785 form of a JSON value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, (int, float)):
        return _number(value)
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(canonical(each) for each in value) + "]"
    if isinstance(value, dict):
        if not all(isinstance(name, str) for name in value):
            raise ValueError("a name of an object is no text")
        members = sorted(value, key=_utf16)
        return "{" + ",".join(_string(name) + ":" + canonical(value[name]) for name in members) + "}"
    raise ValueError(f"{type(value).__name__} is not JSON")


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be")


def _string(text: str) -> str:
    text.encode("utf-8")  # raises for an unpaired surrogate
    if "\0" in text:
        raise ValueError("a text holds NUL")
    return json.dumps(text, ensure_ascii=False)


def _number(value: float) -> str:
    """As ECMAScript's Number::toString."""
    try:
        number = float(value)
    except OverflowError:
        raise ValueError("the number is too large") from None
    if number != number or number in (float("inf"), float("-inf")) or str(number) == "-0.0":
        raise ValueError("the number is not JSON")
    shortest = Decimal(repr(number))
    if isinstance(value, int) and shortest != value:
        raise ValueError("the integer is not one that a float64 says exactly")
    if number == 0:
        return "0"
    sign, all_digits, exponent = shortest.as_tuple()
    text = "".join(map(str, all_digits)).rstrip("0")
    point = len(all_digits) + int(exponent)  # 0.text × 10^point
    if len(text) <= point <= 21:
        text = text + "0" * (point - len(text))
    elif 0 < point <= 21:
        text = text[:point] + "." + text[point:]
    elif -6 < point <= 0:
        text = "0." + "0" * -point + text
    else:
        fraction = "." + text[1:] if len(text) > 1 else ""
        text = f"{text[0]}{fraction}e{'+' if point > 0 else '-'}{abs(point - 1)}"
    return ("-" if sign else "") + text
