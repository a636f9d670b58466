"""What the tests of guarded calls share."""

import json
import os
import tempfile
import unittest
from unittest import mock

import holdpoint
from standin import Server, says

OK = says(200, {})


class GuardedCalls(unittest.TestCase):
    """A journal, a server that answers in steps, and a guarded tool."""

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

    def again(self, *steps, **more):
        server = self.server(*steps)
        hp = self.client(server, journal=self.journal, **more)
        return server, hp, self.tool(hp)
