"""A file that outlives the process: what has been proposed, approved, begun and done.

The file is append-only, one JSON object in a line, and each line is on the disk before what it
announces is done. docs/clients.md has the format, which the clients of all languages share.

What makes a call run at most once is the line "begun": of all processes and threads that would run a
call, only the one whose "begun" comes first in the file runs it. A line that a crash has cut off
is no line, and what it would have announced has not been done.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Dict, List, Optional

from .errors import JournalError
from .wire import identity, is_own_key, is_read


@dataclass
class Entry:
    """What the journal says of one call."""

    call: str
    step: str = ""  # proposed, waiting, redeeming, begun, ran, over
    tool: str = ""
    key: str = ""  # the idempotency key of the proposal
    body: str = ""  # the proposal, as it was sent
    headers: Dict[str, str] = field(default_factory=dict)
    approval: str = ""
    redeem_key: str = ""
    redeem_body: str = ""
    redeem_keys: List[str] = field(default_factory=list)  # of all redemptions, by whomever
    redeem_bodies: List[str] = field(default_factory=list)  # and what was sent under each
    named: bool = False  # the call's name is the caller's own key
    by: str = ""  # whose "begun" counts
    outcome: str = ""  # what became of the call, once it ran
    milliseconds: int = 0
    why: str = ""  # why it is over: reported, refused, …

    def take(self, record: Dict[str, Any]) -> None:
        """Read one more line about the call."""
        step = record["step"]
        dropped = step == "over" and record.get("by") == self.by
        if (self.step == "begun" and step != "ran" and not dropped) or (self.step == "ran" and step not in ("ran", "over")):
            return  # only the first to begin has begun, and nobody else can undo it
        if self.step == "over" and (self.outcome or step != "proposed"):
            return  # what did not run may be proposed again under its key
        if step == "proposed":
            self.tool, self.key, self.body, self.headers = record["tool"], record["key"], record["body"], record.get("headers") or {}
            self.named, self.redeem_keys, self.redeem_bodies = record.get("named") is True, [], []
            self.approval = self.redeem_key = self.redeem_body = self.why = ""
        elif step == "waiting":
            self.approval = record["approval"]
        elif step == "redeeming":
            self.approval, self.redeem_key, self.redeem_body = record["approval"], record["key"], record["body"]
            self.redeem_keys = [*self.redeem_keys, record["key"]]
            self.redeem_bodies = [*self.redeem_bodies, record["body"]]
        elif step == "begun":
            self.by = record["by"]
        elif step == "ran":
            self.outcome, self.milliseconds = record["outcome"], record.get("ms") or 0
        elif step == "over":
            self.why = record["why"]
        else:
            return  # of a later version
        self.step = step


    def goes_on_as(self, sought: str) -> bool:
        """Whether a call that says the same (identity), without a key of the caller's own, is this one.

        What was accepted at once, and only reads, may be done anew, whatever became of it.
        """
        if self.named or self.step in ("", "over") or is_own_key(self.call, self.body):
            return False
        if self.step in ("begun", "ran") and not self.approval and is_read(self.body):
            return False
        return identity(self.body, self.headers) == sought


class Journal:
    """A journal in a file, which is made with mode 0600: it holds arguments and tokens."""

    def __init__(self, path: "str | os.PathLike[str]") -> None:
        self._path = os.fspath(path)
        self._lock = threading.Lock()
        self._entries: Dict[str, Entry] = {}
        self._read_to = 0
        try:
            made = not os.path.exists(self._path)
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o600)
            if made:
                _sync_directory(os.path.dirname(os.path.abspath(self._path)))
            with self._lock:
                self._read_on()
        except OSError as e:
            raise JournalError(f"open the journal {self._path}: {e.strerror}") from None

    def close(self) -> None:
        os.close(self._fd)

    def entry(self, call: str) -> Optional[Entry]:
        """What is known of a call."""
        with self._lock:
            self._read_what_others_wrote()
            return self._entries.get(call)

    def unfinished(self) -> List[Entry]:
        """The calls that are not over, the oldest first."""
        with self._lock:
            self._read_what_others_wrote()
            return [e for e in self._entries.values() if e.step != "over"]

    def write(self, call: str, step: str, **more: Any) -> Entry:
        """Append a line. When this returns, it is on the disk."""
        at = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        line = json.dumps({"call": call, "step": step, "at": at, **more}, ensure_ascii=False, allow_nan=False)
        # The line break before it ends a line that a crash has cut off.
        data = f"\n{line}\n".encode("utf-8")
        with self._lock:
            try:
                if os.write(self._fd, data) != len(data):
                    raise JournalError(f"write to the journal {self._path}: the disk is full")
                os.fsync(self._fd)
                self._read_on()
            except OSError as e:
                raise JournalError(f"write to the journal {self._path}: {e.strerror}") from None
            return self._entries[call]

    def begin(self, call: str) -> str:
        """Claim the one right to run a call; the claim's name. "": somebody else has begun it, or it is over."""
        by = secrets.token_hex(8)
        entry = self.write(call, "begun", by=by)
        return by if entry.step == "begun" and entry.by == by else ""

    def _read_what_others_wrote(self) -> None:
        try:
            self._read_on()
        except OSError as e:
            raise JournalError(f"read the journal {self._path}: {e.strerror}") from None

    def _read_on(self) -> None:
        """Read the lines that have been added since, by whomever."""
        size = os.fstat(self._fd).st_size
        if size <= self._read_to:
            return
        with open(self._path, "rb") as file:
            file.seek(self._read_to)
            data = file.read()
        end = data.rfind(b"\n") + 1
        self._read_to += end
        for line in data[:end].split(b"\n"):
            record = _record(line)
            if record is not None:
                call = record["call"]
                try:
                    self._entries.setdefault(call, Entry(call)).take(record)
                except KeyError:
                    pass  # a line that says too little says nothing
        for call in [call for call, e in self._entries.items() if not e.step]:
            del self._entries[call]


def _record(line: bytes) -> Optional[Dict[str, Any]]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(record, dict) and isinstance(record.get("call"), str) and isinstance(record.get("step"), str):
        return record
    return None


def _sync_directory(path: str) -> None:
    """Put a new file's name on the disk, where directories can be opened."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(fd)
    except OSError:
        pass
    finally:
        os.close(fd)
