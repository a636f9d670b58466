"""Server-sent events, as far as a client needs them (WHATWG HTML, section 9.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, Iterator, List


@dataclass(frozen=True)
class Message:
    """One event of a stream."""

    event: str
    id: str
    data: str


MAX_MESSAGE = 8 << 20


def messages(chunks: Iterable[bytes]) -> Iterator[Message]:
    """The events of a stream. One that is cut off before its blank line is none.

    Raises ValueError for bytes that are no UTF-8, and for an event that does not end.
    """
    event, last_id, data = "", "", []  # type: str, str, List[str]
    size = 0
    for line in _lines(chunks):
        if line == "":
            if data:
                yield Message(event or "message", last_id, "\n".join(data))
            event, data, size = "", [], 0
            continue
        name, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "event":
            event = value
        elif name == "data":
            data.append(value)
            size += len(value)
            if size > MAX_MESSAGE:
                raise ValueError("an event that is too large")
        elif name == "id" and "\0" not in value:
            last_id = value


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Lines that have ended, by LF, CR or CRLF, wherever the chunks are broken."""
    rest = b""
    for chunk in chunks:
        rest += chunk
        if len(rest) > MAX_MESSAGE:
            raise ValueError("a line that is too long")
        while True:
            ends = [at for at in (rest.find(b"\n"), rest.find(b"\r")) if at >= 0]
            if not ends:
                break
            at = min(ends)
            if rest[at : at + 1] == b"\r" and at + 1 == len(rest):
                break  # its LF may be in the next chunk
            skip = 2 if rest[at : at + 2] == b"\r\n" else 1
            yield rest[:at].decode("utf-8")
            rest = rest[at + skip :]
