"""The requests: check, wait, redeem, report, cancel, list, and answers from the agent's side."""

from __future__ import annotations

import json
import secrets
import ssl
import time
import urllib.parse
from typing import Any, Callable, Dict, Iterator, Mapping, Optional

from .errors import HoldpointError, Problem, Stopped, Unreachable, problem_of
from .sse import messages
from .transport import LONGEST_PAUSE, Patience, Stop, Transport, temporary
from .wire import PRECONDITIONS, SESSION, Approval, Call, Decision, Redemption, redemption_of

TRIES = 4
HOLD = 25  # seconds for which the server holds an answer
ANSWER_WITHIN = 15.0
SILENCE = 40.0  # a stream says something every 15 seconds

OUTCOMES = ("succeeded", "failed", "unknown")


class Requests:
    """The requests of one agent. Safe for many threads; each request has a connection of its own."""

    def __init__(self, url: str, key: str, context: Optional[ssl.SSLContext] = None) -> None:
        self._transport = Transport(url, key, context)

    def check(self, call: Call, *, idempotency_key: str = "") -> Decision:
        """Propose a call. Run it when accepted; wait when it has an approval; else it is refused."""
        return self.check_body(check_body(call), check_headers(call), idempotency_key or new_key())

    def check_body(self, body: str, headers: Mapping[str, str], idempotency_key: str) -> Decision:
        """check with the very bytes that were sent before."""
        return Decision(self._post("/v1/pre-tool-check", body, idempotency_key, headers))

    def get(self, approval_id: str) -> Approval:
        """Read an approval as it is now, with a fresh token if it is approved."""
        _, _, raw = self._transport.ask("GET", approval_path(approval_id))
        return _approval(raw)

    def list(self, *, status: str = "", tool_name: str = "", session: str = "") -> Iterator[Approval]:
        """This agent's own approvals, the newest first, without tokens."""
        wanted = {"status": status, "tool_name": tool_name, "session": session}
        cursor = ""
        while True:
            query = {name: value for name, value in {**wanted, "cursor": cursor}.items() if value}
            _, _, page = self._transport.ask("GET", "/v1/approvals?" + urllib.parse.urlencode(query))
            if not isinstance(page, dict) or not isinstance(page.get("approvals"), list):
                raise HoldpointError("the server's answer is no list of approvals")
            for raw in page["approvals"]:
                yield _approval(raw)
            cursor = page.get("next_cursor") or ""
            if not cursor:
                return

    def wait(
        self,
        approval_id: str,
        *,
        timeout: Optional[float] = None,
        stop: Optional[Stop] = None,
        on_question: Optional[Callable[[Approval], None]] = None,
        on_wait: Optional[Callable[[Approval], None]] = None,
    ) -> Approval:
        """Wait until the approval is over, through outages and restarts of the server.

        It follows the server's events; where they do not arrive (a proxy that keeps them back), it
        asks, and each answer is held until something changes. Raises Stopped after timeout
        seconds, or once stop is set: the approval goes on waiting, cancel takes it back. Raises
        Problem when the server says that waiting is of no use.

        on_question is told once of each question that a reviewer asks meanwhile: Approval.question,
        which inform answers. on_wait is told once, if people still have to decide, how it stands.
        The wait goes on when they return; what they raise ends it.
        """
        try:
            return self._wait(approval_id, Patience(None if timeout is None else time.monotonic() + timeout, stop, approval_id), stop, _Listeners(on_question, on_wait))
        except _OwnError as raised:
            own = raised.error
        raise own

    def _wait(self, approval_id: str, patience: Patience, stop: Optional[Stop], told: "_Listeners") -> Approval:
        streams, seen = 2, ""
        while True:
            try:
                if streams:
                    approval, fruitful = self._follow(approval_id, patience, stop, told)
                    if approval:
                        return approval
                    if fruitful:
                        patience.again()
                    streams = 2 if fruitful else streams - 1
                    patience.pause()
                    continue
                asked = time.monotonic()
                approval, tag, after = self._hold(approval_id, seen, patience, stop)
                if approval and approval.final:
                    return approval
                if approval:
                    told.see(approval)
                if not tag or tag == seen:
                    # It was not held long: the next one comes no sooner than the server asks for.
                    patience.sleep(after - (time.monotonic() - asked))
                seen = tag
                patience.again()
            except Unreachable:
                patience.pause()
            except Problem as problem:
                if not problem.retryable:
                    raise
                patience.pause(problem.retry_after)

    def _follow(self, approval_id: str, patience: Patience, stop: Optional[Stop], told: "_Listeners") -> "tuple[Optional[Approval], bool]":
        """Read the stream: the approval once it is final, and whether anything was said at all."""

        def silence() -> float:
            return min(SILENCE, patience.left())

        answer = self._transport.open("GET", approval_path(approval_id) + "/events", headers={"Accept": "text/event-stream"}, timeout=silence(), stop=stop)
        fruitful = False
        try:
            if answer.status // 100 != 2:
                problem = problem_of(answer.status, answer.headers, answer.read())
                if problem.status == 406 or problem.status == 404 and problem.code == "http_404":
                    return None, False  # something between that has no streams
                raise problem
            if answer.headers.get("content-type", "").split(";")[0].strip() != "text/event-stream":
                return None, False
            for message in messages(answer.chunks(silence)):
                approval = _approval(json.loads(message.data))
                if message.event == "approval" and approval.id == approval_id:
                    fruitful = True
                    if approval.final:
                        return approval, True
                    told.see(approval)
        except (ValueError, RecursionError, HoldpointError) as error:
            if isinstance(error, (Problem, Stopped)):
                raise
        finally:
            answer.close()
        patience.left()
        return None, fruitful

    def _hold(self, approval_id: str, seen: str, patience: Patience, stop: Optional[Stop]) -> "tuple[Optional[Approval], str, float]":
        """Ask once, and have the answer held until something changes."""
        hold = int(min(HOLD, max(patience.left(), 1)))
        headers = {"If-None-Match": seen} if seen else {}
        status, got, raw = self._transport.ask(
            "GET", f"{approval_path(approval_id)}?wait={hold}", headers=headers, timeout=min(hold + ANSWER_WITHIN, max(patience.left(), 0.1)), stop=stop
        )
        after = problem_of(status, got, b"").retry_after
        return (None if raw is None else _approval(raw)), got.get("etag", ""), after

    def cancel(self, approval_id: str) -> Approval:
        """Take back a call that still waits."""
        return _approval(self._post(approval_path(approval_id) + "/cancel", "{}"))

    def answer(self, approval_id: str, confirmed: bool, *, digest: str = "", comment: str = "") -> Approval:
        """Say, with a key of kind runtime, what the user said of this very call."""
        said: Dict[str, Any] = {"confirmed": confirmed, **({"digest": digest} if digest else {}), **({"comment": comment} if comment else {})}
        return _approval(self._post(approval_path(approval_id) + "/answers", json.dumps(said)))

    def inform(self, approval_id: str, information: str) -> Approval:
        """Answer the question of a reviewer."""
        return _approval(self._post(approval_path(approval_id) + "/answers", json.dumps({"information": information})))

    def attach_ticket(self, approval_id: str, ticket: str, system: str = "") -> Approval:
        """Name the ticket that covers a call whose next_action is attach_ticket."""
        said = {"ticket": ticket, **({"system": system} if system else {})}
        return _approval(self._post(approval_path(approval_id) + "/ticket", json.dumps(said)))

    def redeem(
        self, token: str, tool: str, arguments: Mapping[str, Any], *, preconditions: Optional[Mapping[str, str]] = None, idempotency_key: str = ""
    ) -> Redemption:
        """Spend a token. Run the call only when this returns, and only once.

        A redemption that is replayed was answered before, under the same key: run the call only
        if your own records say that it has not begun.
        """
        return self.redeem_body(redeem_body(token, tool, arguments, preconditions), idempotency_key or new_key())

    def redeem_body(self, body: str, idempotency_key: str) -> Redemption:
        """redeem with the very bytes that were sent before."""
        redeemed = redemption_of(self._post("/v1/tokens/redeem", body, idempotency_key))
        if redeemed is None:
            raise HoldpointError("the server did not say that the token is redeemed")
        return redeemed

    def report(self, approval_id: str, outcome: str, *, seconds: float = 0.0, idempotency_key: str = "") -> None:
        """Say what became of a call after its token was redeemed: succeeded, failed, unknown."""
        if outcome not in OUTCOMES:
            raise ValueError("an outcome is succeeded, failed or unknown")
        said = {"approval_id": approval_id, "outcome": outcome, "duration_ms": round(max(seconds, 0.0) * 1000)}
        self._post("/v1/executions", json.dumps(said), idempotency_key)

    def jwks(self) -> bytes:
        """The keys that verify_token needs."""
        _, _, keys = self._transport.ask("GET", "/.well-known/jwks.json")
        return json.dumps(keys).encode()

    def _post(self, path: str, body: str, idempotency_key: str = "", headers: Optional[Mapping[str, str]] = None) -> Dict[str, Any]:
        """Send a body under a key, and again under the same key when nobody can know whether it arrived."""
        sent = {**(headers or {}), "Content-Type": "application/json", "Idempotency-Key": idempotency_key or new_key()}
        patience = Patience(None, None)
        for attempt in range(1, TRIES + 1):
            try:
                _, _, raw = self._transport.ask("POST", path, headers=sent, body=body.encode("utf-8"), timeout=ANSWER_WITHIN)
                if not isinstance(raw, dict):
                    raise HoldpointError("the server's answer is no JSON object")
                return raw
            except HoldpointError as error:
                if attempt == TRIES or not temporary(error):
                    raise
                patience.pause(min(getattr(error, "retry_after", 0.0), LONGEST_PAUSE))
        raise AssertionError("unreachable")


class _Listeners:
    """Tells that it waits, and of each question of a reviewer, once."""

    def __init__(self, on_question: Optional[Callable[[Approval], None]], on_wait: Optional[Callable[[Approval], None]]) -> None:
        self._on_question, self._on_wait = on_question, on_wait
        self._asked: Any = None

    def see(self, approval: Approval) -> None:
        """Tell of an approval that is not over."""
        try:
            if self._on_wait:
                tell, self._on_wait = self._on_wait, None
                tell(approval)
            asked = approval.raw.get("question")
            if self._on_question and approval.question and asked != self._asked:
                self._asked = asked
                self._on_question(approval)
        except BaseException as error:
            raise _OwnError(error) from None


class _OwnError(Exception):
    """What the caller's own function raised, which is no answer of the server's."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def new_key() -> str:
    """An idempotency key that nobody has used."""
    return secrets.token_hex(16)


def approval_path(approval_id: str) -> str:
    return "/v1/approvals/" + urllib.parse.quote(approval_id, safe="")


def check_body(call: Call) -> str:
    return _json(call.event())


def check_headers(call: Call) -> Dict[str, str]:
    headers = {}
    if call.session:
        headers[SESSION] = call.session
    if call.preconditions:
        headers[PRECONDITIONS] = json.dumps(dict(call.preconditions))
    return headers


def redeem_body(token: str, tool: str, arguments: Mapping[str, Any], preconditions: Optional[Mapping[str, str]] = None) -> str:
    body: Dict[str, Any] = {"token": token, "tool_name": tool, "arguments": dict(arguments)}
    if preconditions:
        body["preconditions"] = dict(preconditions)
    return _json(body)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _approval(raw: Any) -> Approval:
    if not isinstance(raw, dict) or not isinstance(raw.get("id"), str):
        raise HoldpointError("the server's answer is no approval")
    return Approval(raw)
