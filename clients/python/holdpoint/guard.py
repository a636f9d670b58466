"""The life of a guarded call, once for functions and once for coroutines.

    proposed ─┬─ accepted ────────────────────────────────────► begun ─► ran ─► over
              ├─ waiting ─┬─ approved ─► redeeming ─► redeemed ──┘
              │           └─ denied, expired, cancelled ──────────────────────► over
              └─ refused ─────────────────────────────────────────────────────► over

What blocks is a step: permit yields the steps up to the run, run_sync and run_async do them, here or in
a thread. Each arrow is a line of the journal, if there is one, before what it announces.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, Generator, List, Mapping, Optional, Set, TypeVar, Union

from .requests import Requests, check_body, check_headers, new_key, redeem_body
from .errors import (
    AlreadyDone,
    ConstraintsNotKept,
    EditNotUsable,
    HoldpointError,
    JournalError,
    NotApproved,
    OutcomeUnknown,
    Problem,
    Refused,
    Stopped,
    Uncertain,
    Unreachable,
    Unreported,
)
from .journal import Entry, Journal
from .tool import Tool
from .transport import Stop
from .wire import PRECONDITIONS, Approval, Call, Decision, Redemption, identity

T = TypeVar("T")
Steps = Generator[Callable[[], Any], Any, T]


@dataclass
class Run:
    """One call on its way: what Life does it with."""

    tool: Tool
    call: Call
    name: str  # of the call, in the journal
    entry: Optional[Entry]  # what the journal says of it, when it goes on
    stop: Stop
    named: bool = False  # name is the caller's own key
    sought: str = ""  # goes on as the unfinished call of the journal that says the same
    approval_id: str = ""
    arguments: Optional[Mapping[str, Any]] = None  # as approved
    limits: Optional[Dict[str, Any]] = None  # the constraints, as approved
    redeem_keys: Set[str] = field(default_factory=set)  # of the redemptions that are this run's own, or were when it went on


class Life:
    """Runs calls of tools that are permitted, and no others."""

    def __init__(
        self,
        requests: Requests,
        journal: Optional[Journal],
        on_wait: Optional[Callable[[Approval], None]],
        on_question: Optional[Callable[[Approval], None]],
    ) -> None:
        self._requests, self._journal, self._on_wait, self._on_question = requests, journal, on_wait, on_question
        self._live: Set[str] = set()
        self._lock = threading.Lock()

    def start(self, tool: Tool, call: Call, key: str) -> Any:
        """Propose a call, and run it; for a coroutine, what to await."""
        if key:
            call = replace(call, want_token=True)  # the server redeems it once, whoever asks twice
        body = check_body(call)
        # What is run is what was sent, whatever becomes of the caller's objects meanwhile.
        call = replace(call, arguments=json.loads(body)["proposed_arguments"])
        entry = self._journal.entry(key) if self._journal and key else None
        if entry and (entry.step != "over" or entry.outcome) and entry.body != body:
            raise JournalError("the key belongs to another call")
        sought = identity(body, check_headers(call)) if self._journal and not key else ""
        return self._go(Run(tool, call, key or new_key(), entry, Stop(), named=bool(key), sought=sought))

    def go_on(self, tool: Tool, entry: Entry) -> Any:
        """Go on with a call of the journal."""
        return self._go(Run(tool, _as_proposed(tool.call, entry), entry.call, entry, Stop()))

    def is_live(self, name: str) -> bool:
        """Whether this process is busy with a call."""
        with self._lock:
            return name in self._live

    def _go(self, run: Run) -> Any:
        return self._run_async(run) if run.tool.is_async else self._run_sync(run)

    # --- the two ways to do it

    def _run_sync(self, run: Run) -> Any:
        self._set_out(run)
        try:
            steps = self._permit(run)
            step = next(steps, None)
            while step is not None:
                try:
                    value = step()
                except BaseException as error:
                    step = _throw(steps, error)
                else:
                    step = _send(steps, value)
            began = time.monotonic()
            try:
                value = run.tool.function(**self._inputs(run))
            except BaseException as error:
                self._finish(run, _outcome(error), began, None, error)
                raise
            self._finish(run, "succeeded", began, value, None)
            return value
        finally:
            self._leave(run.name)

    async def _run_async(self, run: Run) -> Any:
        self._set_out(run)
        try:
            steps = self._permit(run)
            step = next(steps, None)
            while step is not None:
                try:
                    value = await in_thread(step, run.stop)
                except BaseException as error:
                    step = _throw(steps, error)
                else:
                    step = _send(steps, value)
            began = time.monotonic()
            try:
                value = await run.tool.function(**self._inputs(run))
            except BaseException as error:
                outcome, failed = _outcome(error), error
                await in_thread(lambda: self._finish(run, outcome, began, None, failed))
                raise
            await in_thread(lambda: self._finish(run, "succeeded", began, value, None))
            return value
        finally:
            self._leave(run.name)

    def drop(self, name: str) -> None:
        """Do not go on with a call of the journal, unless it has begun by now."""
        journal = self._journal
        assert journal is not None
        self._enter(name)
        try:
            now = journal.entry(name)  # it may be further on than when it was listed
            if now is None or now.step in ("begun", "ran") or now.outcome:
                raise HoldpointError("the call has begun: settle it")
            if now.step == "over":
                return
            if now.step == "waiting":
                take_back(self._requests, now.approval)
            # Whoever has the right to run the call may say that it does not run: nobody else can begin it any more.
            by = journal.begin(name)
            if not by:
                raise HoldpointError("the call has begun: settle it")
            now = journal.entry(name)
            if now:
                not_run(self._requests, now)
            journal.write(name, "over", why="dropped", by=by)
        finally:
            self._leave(name)

    def _set_out(self, run: Run) -> None:
        """Begin, or go on with what an earlier start of this very call left unfinished, before anything new is proposed.

        What this process is busy with is another call, although it says the same.
        """
        with self._lock:
            left = self._journal.unfinished() if self._journal and run.sought else []
            for entry in left:
                if entry.call not in self._live and entry.goes_on_as(run.sought):
                    run.name, run.entry, run.call = entry.call, entry, _as_proposed(run.call, entry)
                    break
            self._enter_locked(run.name)

    def _anew(self, run: Run) -> None:
        """What had been left unfinished ended without anybody's no: the call that was made now is proposed."""
        with self._lock:
            self._live.discard(run.name)
            run.name, run.entry, run.approval_id, run.sought = new_key(), None, "", ""
            self._live.add(run.name)

    def _enter(self, name: str) -> None:
        with self._lock:
            self._enter_locked(name)

    def _enter_locked(self, name: str) -> None:
        if name in self._live:
            raise HoldpointError("a call under this key is on its way")
        self._live.add(name)

    def _leave(self, name: str) -> None:
        with self._lock:
            self._live.discard(name)

    # --- up to the run

    def _permit(self, run: Run) -> Steps[None]:
        """Yield what has to be done until the call may run. Any error means that it may not."""
        at = run.entry.step if run.entry else ""
        if run.entry and (at in ("begun", "ran") or run.entry.outcome):
            yield lambda: self._refuse_second(run)
        approval: Optional[Approval] = None
        redeemed: Optional[Redemption] = None
        run.redeem_keys = set(run.entry.redeem_keys) if run.entry else set()
        if run.sought and run.entry and at == "waiting":
            approval = yield lambda: self._left_waiting(run)
            at = run.entry.step if run.entry else ""
        if run.entry and at in ("waiting", "redeeming"):
            run.approval_id = run.entry.approval
        else:
            approval = yield from self._propose(run)
        if run.entry and at == "redeeming":
            # With the bytes of before, because nobody knows whether they arrived; the call has not begun. Where several
            # processes have redeemed it, one of them has spent the token, by its own key: the newest is tried first.
            sent = list(zip(run.entry.redeem_keys, run.entry.redeem_bodies))
            while sent:
                key, body = sent.pop()
                run.arguments = json.loads(body)["arguments"]
                try:
                    redeemed = yield from self._spend(run, body, key, again=True, others=bool(sent))
                    break
                except _OtherKey:
                    pass
        for _ in range(2):  # the token may have become too old
            if run.approval_id and not redeemed:
                approval = yield from self._wait(run, approval)
                redeemed = yield from self._redeem(run, approval)
                approval = None
        if run.approval_id and not redeemed:
            raise HoldpointError(f"the server takes no token for {run.approval_id}, not even a fresh one")
        if redeemed:
            run.limits = redeemed.constraints
        if run.limits and not run.tool.constraints:
            yield lambda: self._give_up(run, redeemed is not None)
            raise ConstraintsNotKept(f"{run.tool.name} may run under constraints only, and has no parameter for them")
        # No step, so that nothing comes between it and the run: a task is not cancelled here.
        if self._journal and not self._journal.begin(run.name):
            raise OutcomeUnknown(run.name, run.approval_id)

    def _left_waiting(self, run: Run) -> Optional[Approval]:
        """How the approval stands that an earlier start left waiting; None where the wait finds out, or for a new proposal."""
        entry = run.entry
        assert entry is not None
        try:
            approval = self._requests.get(entry.approval)
            over = approval.status == "approved" and not approval.token and approval.execution in ("", "none")
            if approval.status not in ("expired", "cancelled") and not over:
                return approval
            why = "no_token" if over else approval.status  # its time to run is over, and it did not
        except Unreachable:
            return None
        except Problem as problem:
            if problem.status != 404:
                if problem.retryable:
                    return None
                raise
            why = problem.code
        self._write(run, "over", why=why)
        self._anew(run)
        return None

    def _refuse_second(self, run: Run) -> None:
        entry = run.entry
        assert entry is not None
        if entry.step == "begun":
            raise OutcomeUnknown(entry.call, entry.approval)
        if entry.step == "ran":
            settle(self._requests, self._journal, entry, entry.outcome, entry.milliseconds)
        raise AlreadyDone(entry.call, entry.outcome)

    def _propose(self, run: Run) -> Steps[Optional[Approval]]:
        entry, call = run.entry, run.call
        if entry and entry.step == "proposed":
            key, body, headers = entry.key, entry.body, entry.headers
        else:
            key, body, headers = run.name, check_body(call), check_headers(call)
            yield lambda: self._write(run, "proposed", tool=call.tool, key=key, body=body, headers=headers, **({"named": True} if run.named else {}))
        try:
            decision: Decision = yield lambda: self._requests.check_body(body, headers, key)
        except (Problem, Unreachable) as error:
            why = error.code if isinstance(error, Problem) else "unreachable"
            yield lambda: self._write(run, "over", why=why)
            raise
        if decision.accepted:
            run.arguments, run.limits = call.arguments, decision.constraints
            return None
        approval = decision.approval
        if approval is None or not approval.id:
            yield lambda: self._write(run, "over", why="refused")
            raise Refused(call.tool, decision)
        run.approval_id = approval.id
        yield lambda: self._write(run, "waiting", approval=run.approval_id)
        if (entry or run.named) and not approval.final:  # perhaps an answer of before, which is kept with its key
            now: Optional[Approval] = yield lambda: self._as_it_stands(run.approval_id)
            return now
        return approval

    def _as_it_stands(self, approval_id: str) -> Optional[Approval]:
        """An approval that may have been opened earlier; None where the wait finds out how it stands."""
        try:
            return self._requests.get(approval_id)
        except HoldpointError:
            return None

    def _wait(self, run: Run, approval: Optional[Approval]) -> Steps[Approval]:
        if approval is None or not approval.final:
            on_wait = self._on_wait
            if approval and on_wait:
                tell, waits, on_wait = on_wait, approval, None
                yield lambda: tell(waits)
            try:
                approval = yield lambda: self._requests.wait(
                    run.approval_id, timeout=run.tool.timeout, stop=run.stop, on_question=self._on_question, on_wait=on_wait
                )
            except BaseException as error:
                if isinstance(error, Stopped) or not isinstance(error, (HoldpointError, GeneratorExit)):
                    if (yield from self._abandon(run)) and isinstance(error, Stopped):
                        error.taken_back()
                raise
        assert approval is not None
        if approval.status != "approved":
            status = approval.status
            yield lambda: self._write(run, "over", why=status)
            raise NotApproved(approval)
        return approval

    def _abandon(self, run: Run) -> Steps[bool]:
        """Nobody waits any more: the approval goes on waiting, unless it was asked to be taken back. Says whether it was."""
        if not run.tool.cancel_when_stopped:
            return False
        try:
            yield lambda: take_back(self._requests, run.approval_id)
            yield lambda: self._write(run, "over", why="cancelled")
        except HoldpointError:
            return False  # why the wait ended is told; the call stays unfinished
        return True

    def _redeem(self, run: Run, approval: Approval) -> Steps[Optional[Redemption]]:
        run.arguments = approval.edited_arguments if approval.is_edited else run.call.arguments
        arguments = run.arguments
        if approval.is_edited and not run.tool.takes(arguments):
            yield lambda: self._write(run, "over", why="edit_not_usable")
            raise EditNotUsable(f"a reviewer changed the arguments of {run.tool.name} to ones that it does not take")
        if not approval.token:
            yield lambda: self._write(run, "over", why="no_token")
            raise AlreadyDone(run.name, approval.execution) if approval.execution not in ("", "none") else HoldpointError(
                f"{approval.id} is approved, but there is no token: its time to run is over, or the key is not its agent's"
            )
        body, key = redeem_body(approval.token, run.call.tool, arguments, run.call.preconditions), new_key()
        run.redeem_keys.add(key)
        yield lambda: self._write(run, "redeeming", approval=approval.id, key=key, body=body)
        return (yield from self._spend(run, body, key))

    def _spend(self, run: Run, body: str, key: str, again: bool = False, others: bool = False) -> Steps[Optional[Redemption]]:
        """None when the token was not spent and is not good any more: it takes a fresh one.

        Raises _OtherKey when it was spent under another key, and there are others to try.
        """
        try:
            redeemed: Redemption = yield lambda: self._requests.redeem_body(body, key)
            return redeemed
        except Problem as problem:
            verdict = verdict_of(problem)
            if verdict == "again" and again and problem.status < 500:
                # Perhaps a former answer, which is kept with its key, although the reason for it has gone.
                approval: Approval = yield lambda: self._requests.get(run.approval_id)
                verdict = "fresh" if approval.execution == "none" else verdict
            if verdict == "fresh":
                return None
            if others and problem.code == "token_used":
                raise _OtherKey() from problem
            if verdict == "done" and self._spent_elsewhere(run):
                raise AlreadyDone(run.name, "") from problem  # whoever redeemed it goes on with the call
            if verdict in ("done", "refused"):
                code = problem.code
                yield lambda: self._write(run, "over", why=code)
            if verdict == "done":
                raise AlreadyDone(run.name, "") from problem
            raise

    def _spent_elsewhere(self, run: Run) -> bool:
        """Whether another process redeems, or has redeemed, this call of the journal meanwhile."""
        entry = self._journal.entry(run.name) if self._journal else None
        return entry is not None and not run.redeem_keys.issuperset(entry.redeem_keys)

    def _give_up(self, run: Run, redeemed: bool) -> None:
        """What is permitted is not run after all."""
        if redeemed:
            self._requests.report(run.approval_id, "failed")
        self._write(run, "over", why="constraints")

    # --- from the run

    def _inputs(self, run: Run) -> Dict[str, Any]:
        inputs = dict(run.arguments if run.arguments is not None else run.call.arguments)
        if run.tool.constraints:
            inputs[run.tool.constraints] = dict(run.limits or {})
        return inputs

    def _finish(self, run: Run, outcome: str, began: float, value: Any, error: Optional[BaseException]) -> None:
        milliseconds = int((time.monotonic() - began) * 1000)
        try:
            entry = Entry(run.name, approval=run.approval_id)
            settle(self._requests, self._journal, entry, outcome, milliseconds, write=True)
        except Exception as unreported:
            raise Unreported(run.approval_id, value, error) from unreported

    def _write(self, run: Run, step: str, **more: Any) -> None:
        if self._journal:
            self._journal.write(run.name, step, **more)


def _as_proposed(call: Call, entry: Entry) -> Call:
    """The call with what was proposed: that is what runs, and what it depends on."""
    preconditions = json.loads(entry.headers.get(PRECONDITIONS, "{}"))
    return replace(call, arguments=json.loads(entry.body)["proposed_arguments"], preconditions=preconditions)


def say_what_waits(approval: Approval) -> None:
    """Tell whoever looks at the program that a call waits, for whom, and where that is decided: on standard error."""
    needs: List[str] = []
    for r in approval.requirements:
        if r.get("status") in ("waiting", "queued"):
            needs.append(f"{r.get('kind')} by {r.get('needed')} × {r.get('role')}" if r.get("role") else str(r.get("kind")))
    _say(f"holdpoint: {approval.tool_name} waits for {', then '.join(needs) or 'people'}{approval.review and ': ' + approval.review}")


def say_what_is_asked(approval: Approval) -> None:
    """Tell whoever looks at the program what a reviewer wants to know, and who answers: on standard error."""
    _say(
        f"holdpoint: a reviewer of {approval.tool_name} asks: “{approval.question}” It waits for the answer: "
        f"of the program, by inform, or of the agent's owner{approval.review and ': ' + approval.review}"
    )


def _say(text: str) -> None:
    if sys.stderr is None:
        return
    try:
        print("".join(c if c.isprintable() else "?" for c in text), file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass  # nobody looks


def settle(requests: Requests, journal: Optional[Journal], entry: Entry, outcome: str, milliseconds: int, write: bool = False) -> None:
    """Put on record what became of a call: in the journal, and with the server."""
    why = "reported"
    try:
        if journal and write:
            journal.write(entry.call, "ran", outcome=outcome, ms=milliseconds)
    finally:
        if entry.approval:
            key = f"{entry.approval}:report:{outcome}"
            try:
                requests.report(entry.approval, outcome, seconds=milliseconds / 1000, idempotency_key=key)
            except Problem as problem:
                # Late, but on record; or, on going on, said before, or nobody takes it any more: there is nothing to wait for.
                if problem.code != "lease_ended":
                    if not entry.step or verdict_of(problem) == "again":
                        raise
                    why = problem.code
    if journal:
        journal.write(entry.call, "over", why=why)


class _OtherKey(Exception):
    """The token was spent under another key, of which there are more."""


def verdict_of(problem: Problem) -> str:
    """What an error of a redemption means for a call that has not begun.

    again: the same request may be answered otherwise later. fresh: not spent, and the token is not good any
    more. done: it ran, or was spent by somebody else. refused: this call does not run.
    """
    if problem.code in ("token_expired", "token_invalid"):
        return "fresh"
    if problem.code in ("already_reported", "token_used"):
        return "done"
    if problem.retryable or problem.status in (401, 423):
        return "again"
    if problem.status // 100 != 4 or problem.code.startswith("http_"):
        return "again"  # not the server's own word: something went wrong, or stands in between
    return "refused"


def take_back(requests: Requests, approval_id: str) -> None:
    """Cancel what nobody waits for. That it is over by itself is as good."""
    try:
        requests.cancel(approval_id)
    except Problem as problem:
        if problem.status not in (409, 410):
            raise


def not_run(requests: Requests, entry: Entry) -> None:
    """Say that a call did not run whose token was spent by a redemption of this journal.

    Another program of the agent may have spent it as well, and be running the call.
    """
    for key, body in reversed(list(zip(entry.redeem_keys, entry.redeem_bodies))):
        try:
            requests.redeem_body(body, key)
        except Problem as problem:
            if problem.code == "token_used":
                continue
            if verdict_of(problem) == "again" and requests.get(entry.approval).execution != "none":
                raise
            return
        try:
            requests.report(entry.approval, "failed")
        except Problem as problem:
            if verdict_of(problem) == "again":
                raise  # else nobody takes it any more, which is as good
        return


def _outcome(error: BaseException) -> str:
    """What a tool's error says of its effect: only an ordinary error says that there was none."""
    if isinstance(error, (Uncertain, TimeoutError, asyncio.TimeoutError)) or not isinstance(error, Exception):
        return "unknown"
    return "failed"


def _send(steps: Steps[None], value: Any) -> Optional[Callable[[], Any]]:
    try:
        return steps.send(value)
    except StopIteration:
        return None


def _throw(steps: Steps[None], error: BaseException) -> Optional[Callable[[], Any]]:
    try:
        return steps.throw(error)
    except StopIteration:
        return None


async def in_thread(step: Callable[[], T], stop: Optional[Stop] = None) -> T:
    """Do what blocks in a thread of its own.

    A task that is cancelled meanwhile still waits for the end of the step, which stop hastens; then it
    is cancelled.
    """
    loop = asyncio.get_running_loop()
    done: "asyncio.Future[T]" = loop.create_future()

    def deliver(set_: Callable[[Any], None], value: Any) -> None:
        if not done.done():
            set_(value)

    def work() -> None:
        result: Union[T, BaseException]
        try:
            result, set_ = step(), done.set_result
        except BaseException as error:
            result, set_ = error, done.set_exception  # type: ignore[assignment]
        try:
            loop.call_soon_threadsafe(deliver, set_, result)
        except RuntimeError:
            pass  # the loop is closed: nobody waits

    threading.Thread(target=work, name="holdpoint", daemon=True).start()
    cancelled: Optional[asyncio.CancelledError] = None
    while not done.done():
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError as error:
            if done.done():
                break
            cancelled = error
            if stop:
                stop.set()
        except BaseException:
            break
    if cancelled:
        done.exception()  # it is taken note of
        raise cancelled
    return done.result()

