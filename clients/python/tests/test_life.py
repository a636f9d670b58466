"""The life of guarded calls, against a stand-in for the server."""

import contextlib
import io
import json
import os
import threading
import unittest
from unittest import mock

import holdpoint
from guarding import GuardedCalls, OK
from holdpoint.guard import say_what_waits
from standin import ACCEPTED, APPROVED, DENIED, EDITED, PENDING, REDEEMED, REFUSED, WAITING, hangs_up, message, problem, says, streams


class Life(GuardedCalls):
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
        with self.assertRaisesRegex(holdpoint.Stopped, "^the time was over while apr_1 was waited for; it was taken back$"):
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

    def test_says_that_a_call_under_a_key_of_its_own_waits_only_while_it_does(self):
        for steps, want in (
            ((says(200, PENDING), streams(message(APPROVED))), ["pending"]),
            ((says(200, APPROVED),), []),
            ((says(500, {}), streams(message(APPROVED))), []),
        ):
            told = []
            hp = self.client(self.server(says(202, WAITING), *steps, says(200, REDEEMED), OK), on_wait=lambda approval: told.append(approval.status))
            self.assertEqual(hp.call(self.tool(hp), {"amount": 1}, key="invoice:1"), "paid")
            self.assertEqual(told, want)

    def test_tells_what_a_reviewer_asks(self):
        def asks(text, at):
            return {**PENDING, "question": {"text": text, "at": at}, "links": {"review": "http://h/approvals/apr_1"}}

        first, same, third = asks("Which\u202e invoice?", "1"), asks("Which\u202e invoice?", "2"), asks("Why?", "3")
        line = "holdpoint: a reviewer of pay asks: “%s” It waits for the answer: of the program, by inform, or of the agent's owner: http://h/approvals/apr_1\n"
        for steps in (
            (streams(*map(message, (PENDING, first, first, PENDING, same))), streams(*map(message, (same, third, APPROVED)))),
            (says(200, {}), says(200, {}), says(200, first, ETag="1"), says(200, first, ETag="2"), says(304, "", ETag="2"), says(200, same, ETag="3"), says(200, third, ETag="4"), says(200, APPROVED)),
        ):
            pay = self.tool(self.client(self.server(says(202, WAITING), *steps, says(200, REDEEMED), OK)))
            with contextlib.redirect_stderr(io.StringIO()) as told:
                pay(1)
            self.assertEqual(told.getvalue(), line % "Which? invoice?" * 2 + line % "Why?")
            silent = self.tool(self.client(self.server(says(202, WAITING), *steps, says(200, REDEEMED), OK), on_question=None))
            with contextlib.redirect_stderr(io.StringIO()) as told:
                silent(1)
            self.assertEqual(told.getvalue(), "")

    def test_what_a_question_s_function_raises_ends_the_wait(self):
        for error in (ValueError("no answer"), holdpoint.Unreachable("u"), holdpoint.HoldpointError("h")):
            def fails(_, error=error):
                raise error

            server = self.server(says(202, WAITING), streams(message({**PENDING, "question": {"text": "Why?", "at": "1"}})), says(500, {}))
            pay = self.tool(self.client(server, on_question=fails))
            with self.assertRaises(type(error)) as raised:
                pay(1)
            self.assertIs(raised.exception, error)
            self.assertEqual((self.ran, len(server.seen)), ([], 2))

    def test_silence_is_told_by_how_long_it_was(self):
        release = threading.Event()
        self.addCleanup(release.set)
        server = self.server(lambda h: release.wait(30))
        hp = self.client(server)
        with mock.patch("holdpoint.requests.ANSWER_WITHIN", 0.02), mock.patch("holdpoint.requests.TRIES", 1):
            with self.assertRaisesRegex(holdpoint.Unreachable, "^the server at " + server.url.rstrip("/") + r" gave no answer in \d+\.\d seconds$"):
                hp.check(holdpoint.Call("pay"))

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

    def test_what_is_wrong_with_a_proposal_is_told(self):
        decision = holdpoint.Decision({"hard_blockers": ["schema_validation_failed"], "validation_errors": [
            {"path": "$.tool_category", "message": "The field is required."}, {"path": "$.risk_domain", "message": "It has to be one of a, b."}]})
        self.assertEqual(str(holdpoint.Refused("pay", decision)),
                         "pay was refused: schema_validation_failed ($.tool_category: The field is required.; $.risk_domain: It has to be one of a, b.)")

    def test_a_wrong_address_or_key(self):
        for url in "127.0.0.1:8080", "localhost:8080", "http:/127.0.0.1:8080", "htp://127.0.0.1", "http://127.0.0.1:8o8o", "hp_secret", "https://h/?key=hp_secret":
            with self.subTest(url), self.assertRaisesRegex(ValueError, "HOLDPOINT_URL.*like http://127.0.0.1:8080") as raised:
                holdpoint.Client(url, "hp_x")
            self.assertNotIn("hp_secret", str(raised.exception))
        for key in "hp_se\ncret", "hp se", "hp_ü":
            with self.subTest(key), self.assertRaisesRegex(ValueError, "HOLDPOINT_API_KEY.*no API key") as raised:
                holdpoint.Client("http://127.0.0.1:1", key)
            self.assertNotIn(key, str(raised.exception))
        with self.assertRaisesRegex(holdpoint.Unreachable, "the server at http://127.0.0.1:1 cannot be reached: Connection refused"):
            holdpoint.Client(" http://u:p@127.0.0.1:1/x/ ", "hp_x\n").get("apr_1")


if __name__ == "__main__":
    unittest.main()
