"""What is sent and answered: a call, the decision on it, and the approval that it waits for."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .canon import canonical

FINAL = ("approved", "denied", "expired", "cancelled")


@dataclass(frozen=True)
class Call:
    """A proposed tool call in the words of the Agent Action Contract v1."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    category: str = "unknown"  # public_read, private_read, write, unknown
    authorization_state: str = "none"  # none, user_claimed, authenticated, validated, confirmed
    risk_domain: str = "unknown"  # devops, finance, hr, legal, security, research, …, unknown
    route: str = "accept"  # what the caller itself would do: accept, ask, defer, refuse. The stricter of both counts
    evidence: Sequence[Any] = ()  # texts, or objects with source_id
    intent: str = ""  # what the user wants, in words
    on_behalf_of: str = ""  # whoever that is does not decide on it
    request_id: str = ""
    separate: bool = False  # an approval of its own, where the very call waits already
    want_token: bool = False  # a token for an accepted call as well
    session: str = ""
    preconditions: Mapping[str, str] = field(default_factory=dict)

    def event(self) -> Dict[str, Any]:
        """The body of the check."""
        e: Dict[str, Any] = {
            "tool_name": self.tool,
            "tool_category": self.category,
            "authorization_state": self.authorization_state,
            "evidence_refs": list(self.evidence),
            "risk_domain": self.risk_domain,
            "proposed_arguments": dict(self.arguments),
            "recommended_route": self.route,
        }
        if self.intent:
            e["user_intent"] = self.intent
        if self.on_behalf_of:
            e["authorization_subject"] = {"subject_ref": self.on_behalf_of}
        if self.request_id:
            e["request_id"] = self.request_id
        for name, wanted in (("separate", self.separate), ("want_token", self.want_token)):
            if wanted:
                e[name] = True
        return e


PRECONDITIONS = "Holdpoint-Preconditions"
SESSION = "Holdpoint-Session"


def identity(body: str, headers: Mapping[str, str]) -> str:
    """What makes two proposals one call: tool, arguments, on whose behalf, session, preconditions, and what
    decides how strictly it is judged. A call that asks for more people than the unfinished one did is another call.

    "" for a call that is to be apart from its equals (separate).
    """
    event = json.loads(body)
    if event.get("separate"):
        return ""
    subject = _object(event.get("authorization_subject"))
    depends = json.loads(headers.get(PRECONDITIONS) or "{}")
    judged = [event.get(name) or "" for name in ("recommended_route", "tool_category", "risk_domain", "authorization_state")]
    try:
        return canonical([event.get("tool_name"), event.get("proposed_arguments"), subject, headers.get(SESSION) or "", depends, *judged])
    except ValueError:
        return ""  # the server does not read it either


_NEW_KEYS = re.compile(r"(?:[A-Z2-7]{26}|[0-9a-f]{32})\Z")  # that the clients make, of each language


def is_own_key(call: str, body: str) -> bool:
    """Whether a call's name is a key of the caller's own, in a journal of a version that did not write so.

    Calls under such a key ask for a token, and its form is none of ours.
    """
    return not _NEW_KEYS.match(call) and json.loads(body).get("want_token") is True


def is_read(body: str) -> bool:
    return json.loads(body).get("tool_category") in ("public_read", "private_read")


def _list(value: Any) -> List[Any]:
    return value if isinstance(value, list) else []


def _object(value: Any) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


class Approval:
    """A call that waits, or has waited, for people. raw has all that the server said."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = dict(raw)
        self.id = _text(raw.get("id"))
        self.status = _text(raw.get("status"))  # pending, approved, denied, expired, cancelled
        self.tool_name = _text(raw.get("tool_name"))
        self.expires_at = _text(raw.get("expires_at"))
        self.digest = _text(raw.get("digest"))  # of tool and arguments
        self.next_action = _text(raw.get("next_action"))  # wait, answer, attach_ticket, verify, none
        self.execution = _text(raw.get("execution"))  # none, redeemed, succeeded, failed, unknown
        self.reasons: List[Dict[str, Any]] = [r for r in _list(raw.get("reasons")) if isinstance(r, dict)]
        self.requirements: List[Dict[str, Any]] = [r for r in _list(raw.get("requirements")) if isinstance(r, dict)]
        denial = raw.get("denial")
        self.denial: Optional[Dict[str, Any]] = denial if isinstance(denial, dict) else None
        self.question = _text(_object(raw.get("question")).get("text"))  # what a reviewer wants to know: Client.inform
        self.successor = _text(raw.get("successor"))
        self.review = _text(_object(raw.get("links")).get("review"))  # the page on which a person decides
        self.token = _text(raw.get("resumption_token"))
        self.is_edited = isinstance(raw.get("edited"), dict)
        """A reviewer has changed the arguments: edited_arguments are what is approved, and what runs."""
        self.edited_arguments = _object(_object(raw.get("edited")).get("arguments"))

    @property
    def final(self) -> bool:
        """Whether nothing can change the status any more. A status that is not known is not final."""
        return self.status in FINAL

    def __repr__(self) -> str:
        return f"Approval({self.id}, {self.status})"  # without token and arguments


class Decision:
    """The answer to a proposed call. raw has all that the server said."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = dict(raw)
        self.hard_blockers = [str(code) for code in _list(raw.get("hard_blockers"))]
        self.reasons = [str(reason) for reason in _list(raw.get("reasons"))]
        self.constraints = _object(raw.get("constraints"))
        """What an accepted call has to keep to; {} for nothing."""
        approval = raw.get("approval")
        self.approval = Approval(approval) if isinstance(approval, dict) else None
        self.joined = raw.get("joined") is True
        """The very call waited already: approval is that one."""

    @property
    def invalid(self) -> List[str]:
        """What is wrong with the proposal itself, such as "$.tool_category: The field is required."; [] for nothing."""
        errors = [e for e in _list(self.raw.get("validation_errors")) if isinstance(e, dict)]
        return [f"{e.get('path', '')}: {e.get('message', '')}" for e in errors]

    @property
    def accepted(self) -> bool:
        """Whether the call may run at once.

        These are the contract's six conditions, that the server says so in as many words, that nothing
        waits, and that it was no dry run. A list that is absent does not count as empty.
        """
        r = self.raw
        return (
            r.get("gate_decision") == "pass"
            and r.get("recommended_action") == "accept"
            and _object(r.get("architecture_decision")).get("route") == "accept"
            and r.get("hard_blockers") == []
            and _object(r.get("aix")).get("hard_blockers") == []
            and r.get("validation_errors") in (None, [])
            and _object(r.get("execution_policy")).get("execution_allowed") is True
            and _object(r.get("execution_policy")).get("mode") != "shadow"
            and (r.get("shadow_mode") is None or r.get("shadow_mode") is False)
            and r.get("approval") is None
            and (r.get("constraints") is None or isinstance(r.get("constraints"), dict))
        )

    def __repr__(self) -> str:
        return f"Decision({self.raw.get('recommended_action')}, {self.approval!r})"


@dataclass(frozen=True)
class Redemption:
    """A spent token: the call may run now, once, within constraints."""

    approval_id: str
    constraints: Dict[str, Any]
    lease_until: str  # by when to report what became of the call
    replayed: bool  # the server had answered this request before


def redemption_of(raw: Mapping[str, Any]) -> Optional[Redemption]:
    """Read the answer to a redemption; None unless it says that the token is redeemed."""
    constraints = raw.get("constraints")
    if raw.get("redeemed") is not True or not (constraints is None or isinstance(constraints, dict)):
        return None
    return Redemption(_text(raw.get("approval_id")), constraints or {}, _text(raw.get("lease_until")), raw.get("replayed") is True)
