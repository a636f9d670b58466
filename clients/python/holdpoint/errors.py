"""What can go wrong. Each of these, from whatever method, means: the call is not permitted.

Two mean more: Unreported, after the call has run, and OutcomeUnknown, where it may have.
"""

from __future__ import annotations

import email.utils
import json
import time
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional

if TYPE_CHECKING:
    from .wire import Approval, Decision

MAX_RETRY_AFTER = 600.0
"""Bounds, in seconds, what a server may ask for in Retry-After."""


class HoldpointError(Exception):
    """The base of all errors of this package. retryable: the same may do better in a moment."""

    retryable = False


class Unreachable(HoldpointError):
    """The server gave no answer."""

    retryable = True


class Problem(HoldpointError):
    """An error that the server answered with (RFC 9457). code is stable and meant for programs."""

    def __init__(self, status: int, document: Mapping[str, Any], retry_after: float = 0.0, request_id: str = "") -> None:
        self.status = status
        self.code = str(document.get("code") or "")
        self.title = str(document.get("title") or "")
        self.detail = str(document.get("detail") or "")
        errors = document.get("errors")
        self.errors: List[Dict[str, Any]] = [e for e in errors if isinstance(e, dict)] if isinstance(errors, list) else []
        """Where in the body, if the body was at fault: [{"path", "message"}]."""
        self.successor = str(document.get("successor") or "")
        """The approval by which people are asked anew for a call that is stale."""
        self.retry_after = retry_after
        """How many seconds the server asks to be left alone; 0 when it does not."""
        self.request_id = request_id
        """Finds the request in the server's log."""
        self.retryable = status in (429, 502, 503, 504)
        text = self.code + (": " + self.detail if self.detail else "")
        super().__init__(text + (" (request " + request_id + ")" if request_id else ""))


def problem_of(status: int, headers: Mapping[str, str], body: bytes, now: Optional[float] = None) -> Problem:
    """Read an answer that is not a 2xx. What is no problem document gets the code "http_" and its status."""
    lower = {name.lower(): value for name, value in headers.items()}
    document: Any = None
    if lower.get("content-type", "").split(";")[0].strip().lower() == "application/problem+json":
        try:
            document = json.loads(body)
        except ValueError:
            pass
    if not isinstance(document, dict) or not isinstance(document.get("code"), str) or not document["code"]:
        document = {"code": f"http_{status}", "detail": f"The server answered {status} without saying why."}
    return Problem(status, document, retry_after(lower.get("retry-after", ""), now), lower.get("x-request-id", ""))


def retry_after(text: str, now: Optional[float] = None) -> float:
    """Read Retry-After, which is seconds or a date."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), MAX_RETRY_AFTER)
    try:
        at = email.utils.parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        return 0.0
    return min(max(at - (time.time() if now is None else now), 0.0), MAX_RETRY_AFTER)


class Refused(HoldpointError):
    """The call was refused at once, or people did not approve it. The tool has not run."""

    def __init__(self, tool: str, decision: Optional[Decision], text: str = "") -> None:
        self.tool = tool
        self.decision = decision
        codes = (decision.hard_blockers or decision.reasons) if decision else []
        wrong = decision.invalid if decision else []
        super().__init__(text or f"{tool} was refused: {', '.join(codes)}" + (f" ({'; '.join(wrong)})" if wrong else ""))


class NotApproved(Refused):
    """People did not approve the call: it was denied, or has expired, or was taken back."""

    def __init__(self, approval: Approval, decision: Optional[Decision] = None) -> None:
        self.approval = approval
        text = f"{approval.tool_name} was not approved: {approval.status}"
        denial = approval.denial
        if denial:
            text += f" ({denial.get('kind', '')})"
            if denial.get("comment"):
                text += f" {json.dumps(denial['comment'], ensure_ascii=False)}"
        elif approval.reasons:
            text += ": " + "; ".join(str(r.get("message", "")) for r in approval.reasons)
        super().__init__(approval.tool_name, decision, text)


class Stopped(HoldpointError):
    """The wait was ended from this side, by a timeout or a Stop. The approval goes on waiting.

    With a journal, the call is one of Client.unfinished().
    """

    def __init__(self, approval_id: str, why: str) -> None:
        self.approval_id = approval_id
        self._ended = f"{why} while {approval_id or 'the server'} was waited for; "
        super().__init__(self._ended + "it goes on waiting")

    def taken_back(self) -> None:
        """Say that the approval was taken back, because it was to be (cancel_when_stopped)."""
        self.args = (self._ended + "it was taken back",)


class ConstraintsNotKept(HoldpointError):
    """The call may run under constraints only, and the tool has no parameter for them. It has not run."""


class EditNotUsable(HoldpointError):
    """A reviewer changed the arguments to ones that the tool does not take. It has not run."""


class OutcomeUnknown(HoldpointError):
    """The call had begun before this process did. Whether it ran, nobody knows; it is not run again.

    Look at what it would have changed, and say so: Unfinished.settle.
    """

    def __init__(self, call: str, approval_id: str) -> None:
        self.call = call
        self.approval_id = approval_id
        super().__init__(
            f"the call {call} had begun, and it is unknown whether it ran: unless another process of this journal is running it"
            " now, look, and settle it (Client.unfinished)"
        )


class AlreadyDone(HoldpointError):
    """The call ran before; outcome is what became of it, "" if that is on record elsewhere."""

    def __init__(self, call: str, outcome: str) -> None:
        self.call = call
        self.outcome = outcome
        super().__init__(f"the call {call} has run before: {outcome or 'the server knows what became of it'}")


class Unreported(HoldpointError):
    """The call ran, but that could not be reported. Do not run it again because of that.

    value is what the tool returned; what it raised, if it did, is error.
    """

    def __init__(self, approval_id: str, value: Any, error: Optional[BaseException]) -> None:
        self.approval_id = approval_id
        self.value = value
        self.error = error
        super().__init__(f"the call of {approval_id} ran, but that could not be reported")


class JournalError(HoldpointError):
    """The journal cannot be written or read, or belongs to another call. The call has not run."""


class InvalidToken(HoldpointError):
    """The token is not believed. No reason quotes it."""


class InvalidWebhook(HoldpointError):
    """The webhook is not believed. No reason quotes it."""


class Uncertain(Exception):
    """For tools to raise, when they do not know whether they had their effect: reported as unknown."""
