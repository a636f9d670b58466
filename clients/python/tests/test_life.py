"""The life of guarded calls, against a stand-in for the server."""

import asyncio
import contextlib
import io
import json
import os
import tempfile
import threading
import unittest
from unittest import mock

import holdpoint
from holdpoint.guard import say_what_waits
from standin import ACCEPTED, APPROVED, DENIED, EDITED, PENDING, REDEEMED, REFUSED, WAITING, Server, hangs_up, message, problem, says, streams

OK = says(200, {})


class Life(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.journal = os.path.join(self.dir.name, "journal")
        self.ran = []
        pauses = mock.patch("holdpoint.transport.FIRST_PAUSE", 0.01)
        pauses.start()
        self.addCleanup(pauses.stop)

    def server(self, *steps):
        server = Server(*steps)
        self.addCleanup(server.close)
        return server

    def client(self, server, **more):
        return holdpoint.Client(server.url, "hp_test", **{"on_wait": None, **more})

    def tool(self, hp, does=None, **options):
        @hp.guard(tool="pay", category="write", **options)
        def pay(amount):
            self.ran.append(amount)
            return does() if does else "paid"

        return pay

    def test_accepted(self):
        server = self.server(says(200, ACCEPTED))
        self.assertEqual(self.tool(self.client(server))(1), "paid")
        line, headers, body = server.seen[0]
        self.assertEqual(line, "POST /v1/pre-tool-check")
        self.assertEqual(headers["Authorization"], "Bearer hp_test")
        self.assertTrue(headers["Idempotency-Key"])
        self.assertEqual(json.loads(body)["proposed_arguments"], {"amount": 1})
        self.assertEqual(len(server.seen), 1)

    def test_refused(self):
        with self.assertRaisesRegex(holdpoint.Refused, "pay was refused: runtime_refusal"):
            self.tool(self.client(self.server(says(200, REFUSED))))(1)
        self.assertEqual(self.ran, [])

    def test_approved(self):
        server = self.server(says(202, WAITING), streams(message(PENDING), message(APPROVED)), says(200, REDEEMED), OK)
        self.assertEqual(self.tool(self.client(server))(amount=1), "paid")
        lines = ["POST /v1/pre-tool-check", "GET /v1/approvals/apr_1/events", "POST /v1/tokens/redeem", "POST /v1/executions"]
        self.assertEqual(server.lines(), lines)
        self.assertEqual(json.loads(server.seen[2][2]), {"token": "TOKEN", "tool_name": "pay", "arguments": {"amount": 1}})
        self.assertEqual(json.loads(server.seen[3][2])["outcome"], "succeeded")

    def test_denied(self):
        with self.assertRaisesRegex(holdpoint.NotApproved, r'pay was not approved: denied \(never\) "no"'):
            self.tool(self.client(self.server(says(202, WAITING), streams(message(DENIED)))))(1)
        self.assertEqual(self.ran, [])

    def test_edited_arguments_run_as_approved(self):
        server = self.server(says(202, WAITING), streams(message(EDITED)), says(200, REDEEMED), OK)
        self.tool(self.client(server))(1)
        self.assertEqual(self.ran, [2])
        self.assertEqual(json.loads(server.seen[2][2])["arguments"], {"amount": 2})

    def test_edit_that_the_tool_does_not_take(self):
        edited = {**APPROVED, "edited": {"arguments": {"other": 2}}}
        server = self.server(says(202, WAITING), streams(message(edited)))
        with self.assertRaises(holdpoint.EditNotUsable):
            self.tool(self.client(server))(1)
        self.assertEqual((self.ran, len(server.seen)), ([], 2))

    def test_constraints(self):
        limited = says(200, {**REDEEMED, "constraints": {"max": 1}})
        server = self.server(says(202, WAITING), streams(message(APPROVED)), limited, OK)
        with self.assertRaises(holdpoint.ConstraintsNotKept):
            self.tool(self.client(server))(1)
        self.assertEqual(self.ran, [])
        self.assertEqual(json.loads(server.seen[3][2])["outcome"], "failed")
        with self.assertRaises(holdpoint.ConstraintsNotKept):
            self.tool(self.client(self.server(says(200, {**ACCEPTED, "constraints": {"max": 1}}))))(1)
        self.assertEqual(self.ran, [])
        server = self.server(says(202, WAITING), streams(message(APPROVED)), limited, OK)
        got = []

        @self.client(server).guard(tool="pay", constraints="limits")
        def pay(amount, limits):
            got.append((amount, limits))

        pay(1)
        self.assertEqual(got, [(1, {"max": 1})])
        self.assertEqual(json.loads(server.seen[0][2])["proposed_arguments"], {"amount": 1})

    def test_outcomes(self):
        def fails(error):
            def does():
                raise error

            return does

        for error, outcome in (
            (ValueError("x"), "failed"),
            (holdpoint.Uncertain("x"), "unknown"),
            (TimeoutError("x"), "unknown"),
            (KeyboardInterrupt(), "unknown"),
        ):
            server = self.server(says(202, WAITING), streams(message(APPROVED)), says(200, REDEEMED), OK)
            with self.subTest(repr(error)), self.assertRaises(type(error)):
                self.tool(self.client(server), fails(error))(1)
            self.assertEqual(json.loads(server.seen[3][2])["outcome"], outcome)

    def test_report_that_is_lost(self):
        server = self.server(says(202, WAITING), streams(message(APPROVED)), says(200, REDEEMED), problem(409, "already_reported"))
        with self.assertRaises(holdpoint.Unreported) as raised:
            self.tool(self.client(server))(1)
        self.assertEqual((raised.exception.value, raised.exception.approval_id), ("paid", "apr_1"))

    def test_fails_closed(self):
        page = says(200, "<html>", Content_Type="text/html")
        for step, error in (
            (hangs_up, holdpoint.Unreachable),
            (problem(503, "event_store_unavailable"), holdpoint.Problem),
            (problem(423, "kill_switch"), holdpoint.Problem),
            (page, holdpoint.HoldpointError),
            (says(200, []), holdpoint.HoldpointError),
            (says(200, {}), holdpoint.Refused),
            (says(302, "", Location="http://127.0.0.1:1/"), holdpoint.Problem),
        ):
            with self.subTest(error.__name__), self.assertRaises(error):
                self.tool(self.client(self.server(step)))(1)
        nobody = self.server(OK)
        nobody.close()
        with self.assertRaises(holdpoint.Unreachable):
            self.tool(self.client(nobody))(1)
        for redeemed in (problem(409, "token_used"), says(200, {}), problem(423, "kill_switch"), hangs_up):
            with self.assertRaises(holdpoint.HoldpointError):
                self.tool(self.client(self.server(says(202, WAITING), streams(message(APPROVED)), redeemed)))(1)
        self.assertEqual(self.ran, [])

    def test_post_is_repeated_under_its_key(self):
        server = self.server(hangs_up, problem(503, "event_store_unavailable"), says(200, ACCEPTED))
        self.tool(self.client(server))(1)
        self.assertEqual(len({headers["Idempotency-Key"] for _, headers, _ in server.seen}), 1)
        self.assertEqual(len(server.seen), 3)
        server = self.server(problem(429, "RATE_LIMIT_AGENT", Retry_After="7"))
        with self.assertRaises(holdpoint.Problem) as raised:
            self.tool(self.client(server))(1)
        self.assertEqual((raised.exception.retryable, raised.exception.retry_after, len(server.seen)), (True, 7, 1))

    def test_wait_through_breaks(self):
        server = self.server(streams(message(PENDING)), hangs_up, streams("event: approval\ndata: {\"status\":\"app"), streams(message(APPROVED)))
        self.assertEqual(self.client(server).wait("apr_1").status, "approved")
        self.assertEqual(len(server.seen), 4)

    def test_wait_falls_back_to_asking(self):
        page = says(200, "<html>", Content_Type="text/html")
        pending = says(200, PENDING, ETag='"r1"', Retry_After="0")
        server = self.server(page, page, pending, says(304, "", ETag='"r1"', Retry_After="0"), hangs_up, says(200, APPROVED, ETag='"r2"'))
        self.assertEqual(self.client(server).wait("apr_1").status, "approved")
        self.assertEqual(server.lines()[2:], ["GET /v1/approvals/apr_1?wait=25"] * 4)
        self.assertEqual([headers.get("If-None-Match") for _, headers, _ in server.seen[2:]], [None, '"r1"', '"r1"', '"r1"'])

    def test_wait_that_is_of_no_use(self):
        for step in (problem(404, "not_found"), problem(401, "unauthenticated")):
            with self.assertRaises(holdpoint.Problem):
                self.client(self.server(step)).wait("apr_1")

    def test_stopped_wait_leaves_the_approval(self):
        never = threading.Event()
        self.addCleanup(never.set)
        server = self.server(says(202, WAITING), streams(message(PENDING), then=never))
        with self.assertRaises(holdpoint.Stopped):
            self.tool(self.client(server), timeout=0.3)(1)
        self.assertEqual(len(server.seen), 2)
        server = self.server(says(202, WAITING), streams(message(PENDING), then=never), says(200, PENDING))
        with self.assertRaises(holdpoint.Stopped):
            self.tool(self.client(server), timeout=0.3, cancel_when_stopped=True)(1)
        self.assertEqual(server.lines()[2], "POST /v1/approvals/apr_1/cancel")
        stop = holdpoint.Stop()
        server = self.server(streams(message(PENDING), then=never))
        threading.Timer(0.2, stop.set).start()
        with self.assertRaises(holdpoint.Stopped):
            self.client(server).wait("apr_1", stop=stop)

    def test_list(self):
        server = self.server(says(200, {"approvals": [PENDING], "next_cursor": "c/1"}), says(200, {"approvals": [APPROVED]}))
        got = [a.status for a in self.client(server).list(status="pending", tool_name="pay")]
        self.assertEqual(got, ["pending", "approved"])
        self.assertEqual(server.lines()[1], "GET /v1/approvals?status=pending&tool_name=pay&cursor=c%2F1")

    def test_own_key_takes_a_token(self):
        approved = {**ACCEPTED, "approval": APPROVED}
        server = self.server(says(200, approved), says(200, REDEEMED), OK)
        hp = self.client(server)
        pay = self.tool(hp)
        self.assertEqual(hp.call(pay, {"amount": 1}, key="invoice:1"), "paid")
        self.assertEqual(server.seen[0][1]["Idempotency-Key"], "invoice:1")
        self.assertIs(json.loads(server.seen[0][2])["want_token"], True)
        server = self.server(says(200, approved), problem(409, "token_used"))
        hp = self.client(server)
        with self.assertRaises(holdpoint.AlreadyDone):
            hp.call(self.tool(hp), {"amount": 1}, key="invoice:1")
        self.assertEqual(self.ran, [1])

    def test_arguments_have_names(self):
        hp = self.client(self.server(OK))
        for bad in (lambda *a: 0, eval("lambda a, /: 0")):
            with self.assertRaises(TypeError):
                hp.guard(tool="t")(bad)
        with self.assertRaises(TypeError):
            hp.guard(tool="t", constraints="limits")(lambda a: 0)
        with self.assertRaises(TypeError):
            self.tool(hp)(1, 2)

    def test_nothing_secret_is_said(self):
        server = self.server(says(202, WAITING), streams(message(APPROVED)), problem(409, "token_used"))
        with self.assertRaises(holdpoint.HoldpointError) as raised:
            self.tool(self.client(server))("4711")
        said = repr(raised.exception) + str(raised.exception) + repr(holdpoint.Approval(APPROVED))
        for secret in ("TOKEN", "hp_test", "4711"):
            self.assertNotIn(secret, said)

    # --- with a journal

    def crash(self, *lines):
        """A journal as a killed process left it: a proposed call and these lines."""
        body = json.dumps(
            {
                "tool_name": "pay",
                "tool_category": "write",
                "authorization_state": "none",
                "evidence_refs": [],
                "risk_domain": "unknown",
                "proposed_arguments": {"amount": 1},
                "recommended_route": "accept",
            }
        )
        first = {"call": "c", "step": "proposed", "tool": "pay", "key": "c", "body": body, "headers": {}}
        with open(self.journal, "w") as file:
            for line in (first, *lines):
                file.write("\n" + json.dumps({"call": "c", **line}) + "\n")

    WAITS = {"step": "waiting", "approval": "apr_1"}
    REDEEMS = {"step": "redeeming", "approval": "apr_1", "key": "k", "body": '{"token":"OLD","tool_name":"pay","arguments":{"amount":5}}'}

    def resume(self, server):
        hp = self.client(server, journal=self.journal)
        self.tool(hp)
        (left,) = hp.unfinished()
        return hp, left

    # --- the same call again, without a key

    def again(self, *steps, **more):
        server = self.server(*steps)
        hp = self.client(server, journal=self.journal, **more)
        return server, hp, self.tool(hp)

    def test_the_same_call_goes_on_with_what_was_approved_meanwhile(self):
        self.crash(self.WAITS)
        server, hp, pay = self.again(says(200, APPROVED), says(200, REDEEMED), OK, says(202, WAITING), streams(message(DENIED)))
        self.assertEqual(pay(1), "paid")
        self.assertEqual((self.ran, hp.unfinished()), ([1], []))
        self.assertEqual(server.lines()[0], "GET /v1/approvals/apr_1")
        with self.assertRaises(holdpoint.NotApproved):
            pay(1)  # the first is finished: this is another
        self.assertEqual(server.lines()[3], "POST /v1/pre-tool-check")
        self.assertEqual(self.ran, [1])

    def test_the_same_call_goes_on_waiting(self):
        self.crash(self.WAITS)
        told = []
        server, _, pay = self.again(says(200, PENDING), streams(message(APPROVED)), says(200, REDEEMED), OK, on_wait=told.append)
        self.assertEqual((pay(1), self.ran, [a.id for a in told]), ("paid", [1], ["apr_1"]))

    def test_another_call_is_another(self):
        self.crash(self.WAITS)
        server, hp, pay = self.again(says(200, ACCEPTED))
        pay(2)
        self.assertEqual(server.lines(), ["POST /v1/pre-tool-check"])
        self.assertEqual([left.approval_id for left in hp.unfinished()], ["apr_1"])

    def test_the_same_call_that_had_begun_is_refused(self):
        self.crash(self.WAITS, self.REDEEMS, {"step": "begun", "by": "x"})
        server, hp, pay = self.again(OK, says(200, ACCEPTED))
        with self.assertRaisesRegex(holdpoint.OutcomeUnknown, "settle it"):
            pay(1)
        self.assertEqual((self.ran, server.seen), ([], []))
        hp.unfinished()[0].settle("failed")
        self.assertEqual(pay(1), "paid")

    def test_the_same_call_that_ran_is_reported(self):
        self.crash(self.WAITS, self.REDEEMS, {"step": "begun", "by": "x"}, {"step": "ran", "outcome": "succeeded", "ms": 7})
        server, hp, pay = self.again(OK)
        with self.assertRaises(holdpoint.AlreadyDone):
            pay(1)
        self.assertEqual((self.ran, server.lines(), hp.unfinished()), ([], ["POST /v1/executions"], []))

    def test_a_report_that_nobody_takes_any_more_ends_the_call(self):
        for refused in (problem(404, "not_found"), problem(409, "not_redeemed"), problem(403, "forbidden")):
            self.crash(self.WAITS, self.REDEEMS, {"step": "begun", "by": "x"}, {"step": "ran", "outcome": "succeeded", "ms": 7})
            _, hp, pay = self.again(refused)
            with self.assertRaises(holdpoint.AlreadyDone):
                pay(1)
            self.assertEqual((self.ran, hp.unfinished()), ([], []))
        self.crash(self.WAITS, self.REDEEMS, {"step": "begun", "by": "x"}, {"step": "ran", "outcome": "succeeded", "ms": 7})
        _, hp, pay = self.again(problem(401, "unauthenticated"))
        with self.assertRaises(holdpoint.Problem):
            pay(1)
        self.assertEqual([u.state for u in hp.unfinished()], ["ran"])  # it may be said later

    def test_what_is_judged_otherwise_now_is_another_call(self):
        self.crash()
        server, hp, _ = self.again(says(200, REFUSED))
        pay = self.tool(hp, route="refuse")
        with self.assertRaises(holdpoint.Refused):
            pay(1)
        self.assertEqual((self.ran, json.loads(server.seen[0][2])["recommended_route"]), ([], "refuse"))
        self.assertNotEqual(server.seen[0][1]["Idempotency-Key"], "c")

    def test_what_ended_without_a_no_is_proposed_anew(self):
        never = {**PENDING, "status": "approved", "execution": "none"}  # its time to run is over
        for ended in (says(200, {**PENDING, "status": "expired"}), says(200, {**PENDING, "status": "cancelled"}), says(200, never), problem(404, "not_found")):
            self.crash(self.WAITS)
            self.ran = []
            server, hp, pay = self.again(ended, says(200, ACCEPTED))
            self.assertEqual((pay(1), self.ran, hp.unfinished()), ("paid", [1], []))
            self.assertNotEqual(server.seen[1][1]["Idempotency-Key"], "c")

    def test_a_no_is_told(self):
        self.crash(self.WAITS)
        _, hp, pay = self.again(says(200, DENIED))
        with self.assertRaises(holdpoint.NotApproved):
            pay(1)
        self.assertEqual((self.ran, hp.unfinished()), ([], []))

    def test_two_equal_calls_at_once_are_two(self):
        self.crash(self.WAITS)
        server, hp, pay = self.again()
        waits, go_on = threading.Event(), threading.Event()

        def first(h):
            waits.set()
            go_on.wait(30)
            says(200, APPROVED)(h)

        server.steps[:] = [first, says(200, ACCEPTED), says(200, REDEEMED), OK]
        thread = threading.Thread(target=pay, args=(1,))
        thread.start()
        waits.wait(30)
        pay(1)  # not the one that is on its way
        go_on.set()
        thread.join(30)
        self.assertEqual((self.ran, hp.unfinished()), ([1, 1], []))
        self.assertEqual(server.lines(), ["GET /v1/approvals/apr_1", "POST /v1/pre-tool-check", "POST /v1/tokens/redeem", "POST /v1/executions"])

    def test_what_another_process_redeems_stays_its_own(self):
        self.crash(self.WAITS)
        other = self.client(self.server(), journal=self.journal)

        def redeemed_meanwhile(h):
            other._journal.write("c", "redeeming", **{name: self.REDEEMS[name] for name in ("approval", "key", "body")})
            problem(409, "token_used")(h)

        _, hp, pay = self.again(says(200, APPROVED), redeemed_meanwhile)
        with self.assertRaises(holdpoint.AlreadyDone):
            pay(1)
        self.assertEqual(self.ran, [])
        self.assertTrue(other._journal.begin("c"))

    def test_says_what_waits(self):
        review = {"links": {"review": "http://h/approvals/apr_1"}, "resumption_token": "TOKEN"}
        needs = [{"kind": "review", "role": "finance", "needed": 2, "status": "waiting"}, {"kind": "human", "needed": 1, "status": "queued"}]
        for steps, first in (((), says(202, {**WAITING, "approval": {**PENDING, **review, "requirements": needs}})), ((self.WAITS,), says(200, {**PENDING, **review, "requirements": needs}))):
            if steps:
                self.crash(*steps)
            _, _, pay = self.again(first, streams(message(APPROVED)), says(200, REDEEMED), OK, on_wait=say_what_waits)
            with contextlib.redirect_stderr(io.StringIO()) as told, contextlib.redirect_stdout(io.StringIO()) as out:
                pay(1)
            self.assertEqual(told.getvalue(), "holdpoint: pay waits for review by 2 × finance, then human: http://h/approvals/apr_1\n")
            self.assertEqual(out.getvalue(), "")

    def test_nothing_is_said(self):
        _, _, pay = self.again(says(202, WAITING), streams(message(APPROVED)), says(200, REDEEMED), OK)
        with contextlib.redirect_stderr(io.StringIO()) as told:
            pay(1)
        self.assertEqual(told.getvalue(), "")

    def test_without_a_key(self):
        with mock.patch.dict(os.environ, {"HOLDPOINT_URL": "http://127.0.0.1:1"}, clear=True):
            with self.assertRaisesRegex(holdpoint.HoldpointError, "^HOLDPOINT_API_KEY is not set .*dev.json, as agent_key"):
                holdpoint.Client()
            holdpoint.Client(key="")
        with mock.patch.dict(os.environ, {}, clear=True):
            with self.assertRaisesRegex(holdpoint.HoldpointError, "^HOLDPOINT_URL is not set .*dev.json, as url"):
                holdpoint.Client()

    # --- the journal

    def test_journal_of_a_whole_life(self):
        server = self.server(says(202, WAITING), streams(message(APPROVED)), says(200, REDEEMED), OK)
        hp = self.client(server, journal=self.journal)
        steps = []

        def look():
            with open(self.journal) as file:
                steps.extend(json.loads(line)["step"] for line in file if line.strip())

        pay = self.tool(hp, look)
        pay(1)
        self.assertEqual(steps, ["proposed", "waiting", "redeeming", "begun"])
        self.assertEqual(hp.unfinished(), [])
        self.assertEqual(os.stat(self.journal).st_mode & 0o777, 0o600)

    def test_resume_proposed(self):
        self.crash()
        server = self.server(says(202, WAITING), streams(message(APPROVED)), says(200, REDEEMED), OK)
        hp, left = self.resume(server)
        self.assertEqual((left.state, left.arguments), ("proposed", {"amount": 1}))
        self.assertEqual(left.resume(), "paid")
        self.assertEqual(server.seen[0][1]["Idempotency-Key"], "c")
        self.assertEqual(hp.unfinished(), [])

    def test_resume_waiting(self):
        self.crash(self.WAITS)
        server = self.server(streams(message(EDITED)), says(200, REDEEMED), OK)
        _, left = self.resume(server)
        left.resume()
        self.assertEqual(self.ran, [2])

    def test_resume_redeeming(self):
        self.crash(self.WAITS, self.REDEEMS)
        server = self.server(says(200, {**REDEEMED, "replayed": True}), OK)
        _, left = self.resume(server)
        left.resume()
        self.assertEqual(self.ran, [5])
        self.assertEqual((server.seen[0][1]["Idempotency-Key"], server.seen[0][2]), ("k", self.REDEEMS["body"]))

    def test_resume_redeeming_with_a_fresh_token(self):
        self.crash(self.WAITS, self.REDEEMS)
        server = self.server(problem(401, "token_expired"), streams(message(APPROVED)), says(200, REDEEMED), OK)
        _, left = self.resume(server)
        left.resume()
        self.assertEqual(self.ran, [1])
        self.assertNotEqual(server.seen[2][1]["Idempotency-Key"], "k")

    def test_resume_redeeming_that_was_done(self):
        for code in ("already_reported", "token_used"):
            self.crash(self.WAITS, self.REDEEMS)
            hp, left = self.resume(self.server(problem(409, code)))
            with self.assertRaises(holdpoint.AlreadyDone):
                left.resume()
            self.assertEqual((self.ran, hp.unfinished()), ([], []))

    def test_kill_switch_can_be_waited_out(self):
        self.crash(self.WAITS, self.REDEEMS)
        stopped, approved = problem(423, "kill_switch"), streams(message(APPROVED))
        server = self.server(stopped, says(200, APPROVED), approved, stopped, stopped, says(200, APPROVED), approved, says(200, REDEEMED), OK)
        hp, left = self.resume(server)
        with self.assertRaises(holdpoint.Problem):
            left.resume()
        (left,) = hp.unfinished()
        left.resume()
        self.assertEqual(self.ran, [1])

    def test_kill_switch_after_the_token_is_spent(self):
        self.crash(self.WAITS, self.REDEEMS)
        stopped = problem(423, "kill_switch")
        server = self.server(stopped, says(200, {**APPROVED, "execution": "redeemed"}), says(200, {**REDEEMED, "replayed": True}), OK)
        hp, left = self.resume(server)
        with self.assertRaises(holdpoint.Problem):
            left.resume()
        hp.unfinished()[0].resume()
        self.assertEqual(self.ran, [5])
        self.assertEqual(server.seen[2][1]["Idempotency-Key"], "k")

    def test_begun_is_unknown(self):
        self.crash(self.WAITS, self.REDEEMS, {"step": "begun", "by": "x"})
        server = self.server(OK)
        hp, left = self.resume(server)
        self.assertEqual(left.state, "begun")
        with self.assertRaises(holdpoint.OutcomeUnknown):
            left.resume()
        with self.assertRaises(holdpoint.HoldpointError):
            left.drop()
        self.assertEqual((self.ran, server.seen), ([], []))
        left.settle("succeeded")
        self.assertEqual(json.loads(server.seen[0][2])["outcome"], "succeeded")
        self.assertEqual(hp.unfinished(), [])

    def test_ran_is_reported(self):
        self.crash(self.WAITS, self.REDEEMS, {"step": "begun", "by": "x"}, {"step": "ran", "outcome": "failed", "ms": 7})
        server = self.server(OK)
        hp, left = self.resume(server)
        with self.assertRaises(holdpoint.AlreadyDone) as raised:
            left.resume()
        self.assertEqual(raised.exception.outcome, "failed")
        self.assertEqual(json.loads(server.seen[0][2]), {"approval_id": "apr_1", "outcome": "failed", "duration_ms": 7})
        self.assertEqual((self.ran, hp.unfinished()), ([], []))

    def test_own_key_with_a_journal(self):
        server = self.server(says(200, {**ACCEPTED, "approval": APPROVED}), says(200, REDEEMED), OK)
        hp = self.client(server, journal=self.journal)
        pay = self.tool(hp)
        hp.call(pay, {"amount": 1}, key="invoice:1")
        again = self.client(self.server(problem(500, "not asked")), journal=self.journal)
        with self.assertRaises(holdpoint.AlreadyDone) as raised:
            again.call(self.tool(again), {"amount": 1}, key="invoice:1")
        self.assertEqual((raised.exception.outcome, self.ran), ("succeeded", [1]))

    def test_own_key_twice_at_once(self):
        hp = self.client(self.server(says(200, {**ACCEPTED, "approval": APPROVED}), says(200, REDEEMED), OK))

        def again():
            with self.assertRaisesRegex(holdpoint.HoldpointError, "on its way"):
                hp.call(pay, {"amount": 1}, key="invoice:1")

        pay = self.tool(hp, again)
        hp.call(pay, {"amount": 1}, key="invoice:1")
        self.assertEqual(self.ran, [1])

    def test_own_key_of_another_call(self):
        self.crash(self.WAITS)
        hp = self.client(self.server(OK), journal=self.journal)
        with self.assertRaises(holdpoint.JournalError):
            hp.call(self.tool(hp), {"amount": 9}, key="c")

    def test_two_that_resume_at_once_run_it_once(self):
        self.crash(self.WAITS, self.REDEEMS)
        one, first = self.resume(self.server(says(200, {**REDEEMED, "replayed": True}), OK))
        two, second = self.resume(self.server(says(200, {**REDEEMED, "replayed": True}), OK))
        outcomes = []

        def go(left):
            try:
                outcomes.append(left.resume())
            except holdpoint.OutcomeUnknown:
                outcomes.append("unknown")

        threads = [threading.Thread(target=go, args=(left,)) for left in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        self.assertEqual(sorted(outcomes), ["paid", "unknown"])
        self.assertEqual(self.ran, [5])

    def test_drop(self):
        self.crash(self.WAITS)
        server = self.server(problem(409, "already_denied"))
        hp, left = self.resume(server)
        left.drop()
        self.assertEqual((server.lines(), hp.unfinished()), (["POST /v1/approvals/apr_1/cancel"], []))

    def test_drop_of_what_has_begun_meanwhile(self):
        for lines, steps in (
            ((self.WAITS,), (streams(message(APPROVED)), says(200, REDEEMED), OK)),
            ((self.WAITS, self.REDEEMS), (says(200, REDEEMED), OK)),
        ):
            self.crash(*lines)
            self.ran = []
            asked = self.server()
            dropping = self.client(asked, journal=self.journal)
            (stale,) = dropping.unfinished()
            hp = self.client(self.server(*steps), journal=self.journal)

            def drop():
                with self.assertRaises(holdpoint.HoldpointError):
                    stale.drop()

            self.tool(hp, does=drop)
            (left,) = hp.unfinished()
            left.resume()
            self.assertEqual((len(self.ran), asked.seen), (1, []))
            entry = dropping._journal.entry("c")
            self.assertEqual((entry.step, entry.outcome), ("over", "succeeded"))
            drop()
            self.tool(dropping)
            with self.assertRaises(holdpoint.AlreadyDone):
                stale.resume()
            self.assertEqual(len(self.ran), 1)

    def test_drop_of_what_is_redeemed(self):
        stopped = problem(423, "agent_stopped")
        for name, steps, reported, drops in (
            ("by this journal", [says(200, REDEEMED), OK], True, True),
            ("reported already", [says(200, REDEEMED), problem(409, "already_reported")], True, True),
            ("by another program", [problem(409, "token_used")], False, True),
            ("too late", [problem(410, "token_expired")], False, True),
            ("stopped, not redeemed", [stopped, says(200, {**APPROVED, "execution": "none"})], False, True),
            ("stopped, redeemed", [stopped, says(200, {**APPROVED, "execution": "redeemed"})], False, False),
        ):
            with self.subTest(name):
                self.setUp()
                self.crash(self.WAITS)
                server = self.server(*steps)
                hp, left = self.resume(server)
                hp._journal.write("c", "redeeming", approval="apr_1", key="k", body=self.REDEEMS["body"])
                for _ in range(2):
                    if drops:
                        left.drop()
                    else:
                        self.assertRaises(holdpoint.HoldpointError, left.drop)
                self.assertEqual(len(server.seen), len(steps))
                self.assertEqual("failed" in str(server.seen[-1][2]), reported)
                self.assertEqual(hp._journal.begin("c"), "")
                self.assertEqual(len(hp.unfinished()), 0 if drops else 1)

    def test_journal_that_cannot_be_written(self):
        server = self.server(says(200, ACCEPTED))
        hp = self.client(server, journal=self.journal)
        hp._journal.close()
        with self.assertRaises(holdpoint.JournalError):
            self.tool(hp)(1)
        self.assertEqual((self.ran, server.seen), ([], []))

    # --- with asyncio

    def test_async(self):
        server = self.server(says(202, WAITING), streams(message(EDITED)), says(200, REDEEMED), OK)
        hp = self.client(server, journal=self.journal)

        @hp.guard(tool="pay")
        async def pay(amount):
            await asyncio.sleep(0)
            self.ran.append(amount)
            return "paid"

        self.assertEqual(asyncio.run(pay(1)), "paid")
        self.assertEqual(self.ran, [2])
        self.assertEqual(json.loads(server.seen[3][2])["outcome"], "succeeded")

    def test_async_errors(self):
        hp = self.client(self.server(says(200, REFUSED)))

        @hp.guard(tool="pay")
        async def pay(amount):
            self.ran.append(amount)

        with self.assertRaises(holdpoint.Refused):
            asyncio.run(pay(1))
        self.assertEqual(self.ran, [])

    def test_async_cancelled_while_it_waits(self):
        never, asked = threading.Event(), threading.Event()
        self.addCleanup(never.set)

        def stream(h):
            asked.set()
            streams(message(PENDING), then=never)(h)

        server = self.server(says(202, WAITING), stream)
        hp = self.client(server, journal=self.journal)

        @hp.guard(tool="pay")
        async def pay(amount):
            self.ran.append(amount)

        async def main():
            task = asyncio.create_task(pay(1))
            await asyncio.to_thread(asked.wait, 30)
            task.cancel()
            await task

        with self.assertRaises(asyncio.CancelledError):
            asyncio.run(main())
        self.assertEqual((self.ran, len(server.seen)), ([], 2))
        self.assertEqual([left.state for left in hp.unfinished()], ["waiting"])

    def test_async_cancelled_while_it_runs(self):
        server = self.server(says(202, WAITING), streams(message(APPROVED)), says(200, REDEEMED), OK)
        hp = self.client(server)

        async def main():
            begun = asyncio.Event()

            @hp.guard(tool="pay")
            async def pay(amount):
                begun.set()
                await asyncio.Event().wait()

            task = asyncio.create_task(pay(1))
            await begun.wait()
            task.cancel()
            await task

        with self.assertRaises(asyncio.CancelledError):
            asyncio.run(main())
        self.assertEqual(json.loads(server.seen[3][2])["outcome"], "unknown")

    def test_async_client(self):
        server = self.server(streams(message(APPROVED)), says(200, {"approvals": [PENDING]}))
        client = holdpoint.AsyncClient(self.client(server))

        async def main():
            approval = await client.wait("apr_1")
            return approval.status, len(await client.list())

        self.assertEqual(asyncio.run(main()), ("approved", 1))


if __name__ == "__main__":
    unittest.main()
