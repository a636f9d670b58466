"""Guarded calls with asyncio, against a stand-in for the server."""

import asyncio
import json
import threading
import unittest

import holdpoint
from guarding import GuardedCalls, OK
from standin import APPROVED, EDITED, PENDING, REDEEMED, REFUSED, WAITING, message, says, streams


class Async(GuardedCalls):
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


if __name__ == "__main__":
    unittest.main()
