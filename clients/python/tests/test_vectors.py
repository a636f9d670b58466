"""The vectors that the clients of all languages share (clients/testdata)."""

import json
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import holdpoint
from holdpoint.errors import problem_of
from holdpoint.guard import verdict_of
from holdpoint.journal import Journal
from holdpoint.sse import messages
from holdpoint.wire import Decision, identity, redemption_of

try:
    import cryptography  # noqa: F401

    HAS_CRYPTOGRAPHY = True
except ImportError:
    HAS_CRYPTOGRAPHY = False


def vectors(name):
    with open(Path(__file__).parents[2] / "testdata" / name, encoding="utf-8") as file:
        return json.load(file)


class Vectors(unittest.TestCase):
    def test_digests(self):
        for case in vectors("digests.json")["cases"]:
            with self.subTest(case["name"]):
                self.assertEqual(holdpoint.canonical(case["arguments"]), case["canonical"])
                self.assertEqual(holdpoint.digest(case["tool"], case["arguments"]), case["digest"])

    def test_digests_of_what_is_not_read(self):
        for value in (float("nan"), float("inf"), -0.0, 2**53 + 1, 10**400, "\0", "\ud800", {1: 2}, {"\ud800": 1}, object()):
            with self.subTest(repr(value)[:20]), self.assertRaises(ValueError):
                holdpoint.digest("t", {"a": value})

    def test_streams(self):
        for case in vectors("streams.json")["cases"]:
            chunks = [chunk.encode() for chunk in case["chunks"]]
            want = [(m["event"], m["id"], m["data"]) for m in case["messages"]]
            for way, each in (("as they come", chunks), ("byte by byte", [bytes([b]) for b in b"".join(chunks)])):
                with self.subTest(case["name"] + ", " + way):
                    self.assertEqual([(m.event, m.id, m.data) for m in messages(each)], want)

    def test_problems(self):
        file = vectors("problems.json")
        for case in file["cases"]:
            with self.subTest(case["name"]):
                problem = problem_of(case["status"], case["headers"], case["body"].encode(), file["now"])
                for name, want in case["want"].items():
                    self.assertEqual(getattr(problem, name), want, name)
                self.assertEqual(problem.status, case["status"])

    def test_redemptions(self):
        file = vectors("redeem.json")
        for case in file["answers"]:
            with self.subTest(case["name"]):
                self.assertEqual(redemption_of(case["body"]) is not None, case["verdict"] == "run")
        for case in file["problems"]:
            with self.subTest(case["name"]):
                self.assertEqual(verdict_of(holdpoint.Problem(case["status"], {"code": case["code"]})), case["verdict"])

    def test_decisions(self):
        for case in vectors("decisions.json")["cases"]:
            with self.subTest(case["name"]):
                self.assertIs(Decision(case["decision"]).accepted, case["accepted"])

    def test_journals(self):
        for case in vectors("journals.json")["cases"]:
            with self.subTest(case["name"]), tempfile.TemporaryDirectory() as dir:
                path = os.path.join(dir, "journal")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(case["text"])
                journal = Journal(path)
                got = {e.call: e for e in journal._entries.values()}
                self.assertEqual(set(got), set(case["want"]))
                for call, want in case["want"].items():
                    self.assertEqual({name: getattr(got[call], name) for name in want}, want)
                journal.close()


    def test_goes_on(self):
        for case in vectors("goes_on.json")["cases"]:
            with self.subTest(case["name"]), tempfile.TemporaryDirectory() as dir:
                path = os.path.join(dir, "journal")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(case["text"])
                journal = Journal(path)
                sought = identity(case["body"], case["headers"])
                found = [e.call for e in journal.unfinished() if e.call not in case["live"] and sought and e.goes_on_as(sought)]
                self.assertEqual(found[0] if found else "", case["want"])
                journal.close()


class Tokens(unittest.TestCase):
    def setUp(self):
        self.file = vectors("tokens.json")

    def verify(self, case):
        expect = case.get("expect") or self.file["expect"]
        token = case["token"]
        if isinstance(token, dict):
            token = self.file["good"][0]["token"] + "A" * token["good_and_letters"]
        return holdpoint.verify_token(case.get("jwks_text", self.file["jwks_text"]), token, now=self.file["now"], **expect)

    @unittest.skipUnless(HAS_CRYPTOGRAPHY or os.environ.get("CI"), "cryptography is not installed")
    def test_good(self):
        for case in self.file["good"]:
            with self.subTest(case["name"]):
                claims = self.verify(case)
                for name, want in case["claims"].items():
                    self.assertEqual(getattr(claims, name), want, name)

    @unittest.skipUnless(HAS_CRYPTOGRAPHY or os.environ.get("CI"), "cryptography is not installed")
    def test_bad(self):
        for case in self.file["bad"]:
            with self.subTest(case["name"]), self.assertRaises((holdpoint.InvalidToken, ValueError)) as raised:
                self.verify(case)
            if isinstance(case["token"], str) and len(case["token"]) > 10:
                self.assertNotIn(case["token"], str(raised.exception))

    def test_without_cryptography_nothing_is_believed(self):
        with mock.patch.dict("sys.modules", {"cryptography": None, "cryptography.exceptions": None}):
            with self.assertRaisesRegex(holdpoint.HoldpointError, "cryptography"):
                self.verify(self.file["good"][0])


class Webhooks(unittest.TestCase):
    def setUp(self):
        self.file = vectors("webhooks.json")

    def verify(self, case, body):
        return holdpoint.verify_webhook(case.get("secret", self.file["secret"]), case["headers"], body, now=self.file["now"])

    def test_good(self):
        for case in self.file["good"]:
            for body in (case["body"], case["body"].encode()):
                with self.subTest(case["name"]):
                    said = self.verify(case, body)
                    self.assertEqual({name: getattr(said, name) for name in case["want"]}, case["want"])
                    self.assertEqual(said.id, case["headers"]["webhook-id"])

    def test_bad(self):
        for case in self.file["bad"]:
            with self.subTest(case["name"]), self.assertRaises(holdpoint.InvalidWebhook):
                self.verify(case, case["body"].encode())

    def test_a_header_twice(self):
        case = self.file["good"][0]
        headers = dict(case["headers"], **{"Webhook-Id": "ntf_2"})
        with self.assertRaises(holdpoint.InvalidWebhook):
            holdpoint.verify_webhook(self.file["secret"], headers, case["body"], now=self.file["now"])


if __name__ == "__main__":
    unittest.main()
