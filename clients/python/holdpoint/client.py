"""Client and AsyncClient: the requests, and the guard around tools."""

from __future__ import annotations

import functools
import json
import os
import ssl
from dataclasses import replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, TypeVar, Union

from .requests import OUTCOMES, Requests
from .errors import HoldpointError
from .guard import Life, in_thread, say_what_is_asked, say_what_waits, settle
from .journal import Entry, Journal
from .tool import Tool, tool_of
from .transport import Stop
from .wire import Approval, Call, Decision, Redemption

F = TypeVar("F", bound=Callable[..., Any])


class Client(Requests):
    """One agent at one server.

    journal is a file (made if it is not there) by which calls survive a crash of this process: they are
    Client.unfinished() afterwards, and none of them runs twice. The same call, made again, goes on as the
    unfinished one before anything new is proposed. It belongs to one agent.
    """

    def __init__(
        self,
        url: str = "",
        key: Optional[str] = None,
        *,
        journal: "Union[None, str, os.PathLike[str]]" = None,
        on_wait: Optional[Callable[[Approval], None]] = say_what_waits,
        on_question: Optional[Callable[[Approval], None]] = say_what_is_asked,
        context: Optional[ssl.SSLContext] = None,
    ) -> None:
        """url and key are HOLDPOINT_URL and HOLDPOINT_API_KEY of the environment when left out.

        on_wait is told of each call of a guarded tool that begins to wait. When left out, a line on standard
        error says for whom, and where they decide; None says nothing. on_question is told of each question
        that a reviewer asks while it waits (Approval.question), which inform answers: when left out, a line on
        standard error says it; None says nothing. Both are called where the call waits, in its thread.
        """
        super().__init__(url or _of_environment("HOLDPOINT_URL", "url"), _of_environment("HOLDPOINT_API_KEY", "agent_key") if key is None else key, context)
        self._journal = Journal(journal) if journal is not None else None
        self._life = Life(self, self._journal, on_wait, on_question)
        self._tools: Dict[str, Tool] = {}

    def guard(
        self,
        *,
        tool: str = "",
        category: str = "unknown",
        authorization_state: str = "none",
        risk_domain: str = "unknown",
        route: str = "accept",
        evidence: Sequence[Any] = (),
        session: str = "",
        constraints: str = "",
        timeout: Optional[float] = None,
        cancel_when_stopped: bool = False,
    ) -> Callable[[F], F]:
        """Decorate a tool, a function or a coroutine function, so that it runs only when it is permitted.

        A call of it is proposed with its arguments, waits for people as long as it takes (or timeout
        seconds), and then runs with the arguments that they approved, also where they edited them. It
        raises Refused or NotApproved, Stopped, or what else keeps it from running. The server is told
        what became of it: succeeded; failed for an exception; unknown for Uncertain, TimeoutError, or
        when the program is being ended.

        constraints names the parameter that takes what the call must keep to ({} for nothing); a tool
        without one does not run under constraints. A wait that ends from this side leaves the approval
        waiting, unless cancel_when_stopped.
        """

        def decorate(function: F) -> F:
            name = tool or function.__name__
            call = Call(
                name,
                category=category,
                authorization_state=authorization_state,
                risk_domain=risk_domain,
                route=route,
                evidence=evidence,
                session=session,
            )
            made = tool_of(function, call, constraints, timeout, cancel_when_stopped)

            @functools.wraps(function)
            def guarded(*args: Any, **kwargs: Any) -> Any:
                return self._life.start(made, replace(call, arguments=made.arguments(args, kwargs)), "")

            guarded.__holdpoint_tool__ = made  # type: ignore[attr-defined]
            self._tools[name] = made
            return guarded  # type: ignore[return-value]

        return decorate

    def call(
        self,
        guarded: Callable[..., Any],
        arguments: Mapping[str, Any],
        *,
        key: str = "",
        evidence: Optional[Sequence[Any]] = None,
        intent: str = "",
        on_behalf_of: str = "",
        separate: bool = False,
        preconditions: Optional[Mapping[str, str]] = None,
    ) -> Any:
        """Call a guarded tool, and say more about this one call.

        key is your own name for it, such as "invoice:42": whatever is called twice under one key runs once.
        With a journal, a call that was interrupted goes on from where it was.
        """
        made = getattr(guarded, "__holdpoint_tool__", None)
        if not isinstance(made, Tool):
            raise TypeError("the function is not guarded")
        call = replace(
            made.call,
            arguments=made.arguments((), arguments),
            evidence=made.call.evidence if evidence is None else evidence,
            intent=intent,
            on_behalf_of=on_behalf_of,
            separate=separate,
            preconditions=preconditions or {},
        )
        return self._life.start(made, call, key)

    def unfinished(self) -> "List[Unfinished]":
        """The calls of the journal that are not over and that this process is not busy with."""
        if self._journal is None:
            raise HoldpointError("without a journal nothing is known of earlier calls")
        return [Unfinished(self, e) for e in self._journal.unfinished() if not self._life.is_live(e.call)]


def _of_environment(name: str, member: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise HoldpointError(f"{name} is not set (“holdpoint dev” writes it to .holdpoint/dev.json, as {member})")
    return value


class Unfinished:
    """A call that a former process left behind, or whose wait was stopped.

    state: proposed, waiting or redeeming, which resume runs; begun, where it is unknown whether it ran;
    ran, where only the report is missing, which resume makes up for.
    """

    def __init__(self, client: Client, entry: Entry) -> None:
        self._client, self._entry = client, entry
        proposal = json.loads(entry.body) if entry.body else {}
        self.call = entry.call
        self.state = entry.step
        self.tool = entry.tool
        self.arguments: Dict[str, Any] = proposal.get("proposed_arguments") or {}
        self.approval_id = entry.approval

    def resume(self) -> Any:
        """Go on: wait, and run the tool of this name, which is guarded again by now; for a coroutine, await it.

        Raises what a guarded call raises; for begun OutcomeUnknown, for ran AlreadyDone.
        """
        tool = self._client._tools.get(self.tool)
        if tool is None:
            raise HoldpointError(f"no tool {self.tool} is guarded here")
        return self._client._life.go_on(tool, self._entry)

    def settle(self, outcome: str) -> None:
        """Say what became of a call that had begun: succeeded, failed, or unknown."""
        if outcome not in OUTCOMES:
            raise ValueError("an outcome is succeeded, failed or unknown")
        if self.state != "begun":
            raise HoldpointError("the call has not begun, or its outcome is known")
        settle(self._client, self._client._journal, self._entry, outcome, 0, write=True)

    def drop(self) -> None:
        """Do not go on with a call that has not begun: what waits is taken back.

        What has begun meanwhile, in another process for example, is not dropped, which is an error.
        """
        self._client._life.drop(self.call)

    def __repr__(self) -> str:
        return f"Unfinished({self.tool}, {self.state}, {self.approval_id})"


class AsyncClient:
    """The requests of a Client for asyncio: each is done in a thread. Tools that are coroutine functions
    need no AsyncClient: Client.guard takes them."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def check(self, call: Call, *, idempotency_key: str = "") -> Decision:
        return await in_thread(lambda: self.client.check(call, idempotency_key=idempotency_key))

    async def get(self, approval_id: str) -> Approval:
        return await in_thread(lambda: self.client.get(approval_id))

    async def list(self, *, status: str = "", tool_name: str = "", session: str = "") -> List[Approval]:
        return await in_thread(lambda: [*self.client.list(status=status, tool_name=tool_name, session=session)])

    async def wait(
        self,
        approval_id: str,
        *,
        timeout: Optional[float] = None,
        on_question: Optional[Callable[[Approval], None]] = None,
        on_wait: Optional[Callable[[Approval], None]] = None,
    ) -> Approval:
        """When the task is cancelled, the approval goes on waiting. on_question and on_wait are called in a thread."""
        stop = Stop()
        return await in_thread(lambda: self.client.wait(approval_id, timeout=timeout, stop=stop, on_question=on_question, on_wait=on_wait), stop)

    async def cancel(self, approval_id: str) -> Approval:
        return await in_thread(lambda: self.client.cancel(approval_id))

    async def inform(self, approval_id: str, information: str) -> Approval:
        return await in_thread(lambda: self.client.inform(approval_id, information))

    async def attach_ticket(self, approval_id: str, ticket: str, system: str = "") -> Approval:
        return await in_thread(lambda: self.client.attach_ticket(approval_id, ticket, system))

    async def redeem(self, token: str, tool: str, arguments: Mapping[str, Any], *, idempotency_key: str = "") -> Redemption:
        return await in_thread(lambda: self.client.redeem(token, tool, arguments, idempotency_key=idempotency_key))

    async def report(self, approval_id: str, outcome: str, *, seconds: float = 0.0) -> None:
        await in_thread(lambda: self.client.report(approval_id, outcome, seconds=seconds))
