"""Guarded calls with a journal, against a stand-in for the server."""

import json
import os
import threading
import unittest

import holdpoint
from guarding import GuardedCalls, OK
from standin import ACCEPTED, APPROVED, DENIED, EDITED, PENDING, REDEEMED, REFUSED, WAITING, message, problem, says, streams


class Journal(GuardedCalls):
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

    def test_what_an_earlier_start_left_waiting_says_so_once_while_it_does(self):
        for states, want in (([PENDING, PENDING, APPROVED], ["pending"]), ([APPROVED], [])):
            for resumed in (False, True):
                told = []
                server = self.server(says(202, WAITING), says(200, PENDING), problem(403, "no_more"), streams(*map(message, states)), says(200, REDEEMED), OK)
                hp = self.client(server, journal=self.journal, on_wait=told.append)
                pay = self.tool(hp)
                with self.assertRaises(holdpoint.Problem):
                    hp.call(pay, {"amount": 1}, key="c")
                told.clear()
                if resumed:
                    hp.unfinished()[0].resume()
                else:
                    hp.call(pay, {"amount": 1}, key="c")
                self.assertEqual([a.status for a in told], want)
                os.remove(self.journal)

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
        server = self.server(says(202, WAITING), says(200, PENDING), streams(message(APPROVED)), says(200, REDEEMED), OK)
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


if __name__ == "__main__":
    unittest.main()
