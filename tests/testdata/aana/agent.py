"""A program whose tools are guarded by AANA's own Python SDK, unmodified, with Holdpoint's
address and key. AANA's guard runs what is accepted. What it blocks and people may
approve goes on with Holdpoint's client, as docs/seeds.md says. Each line of standard
input is a call; what came of it is a line of standard output."""

import json
import os
import signal
import sys

from aana.middleware import AANAToolExecutionBlocked, guard_tool_function
from aana.sdk import AANAClient, AANAClientError

import holdpoint

# What docs/seeds.md shows.
client = AANAClient(base_url=os.environ["HOLDPOINT_URL"], token=os.environ["HOLDPOINT_API_KEY"])
runs = []


def go_on(hp, approval, name, arguments, run):
    approval = hp.wait(approval["id"], timeout=60)
    if approval.status != "approved":
        return {"error": approval.status}
    if approval.is_edited:
        arguments = approval.edited_arguments
    try:
        hp.redeem(approval.token, name, arguments)
    except holdpoint.Problem as problem:
        return {"error": problem.code}
    run(**arguments)
    hp.report(approval.id, "succeeded")
    return {}


def call(order):
    url, key, name = order.get("url") or os.environ["HOLDPOINT_URL"], os.environ["HOLDPOINT_API_KEY"], order["tool"]
    asked = client
    if "url" in order or "shadow" in order:
        asked = AANAClient(base_url=url, token=key, shadow_mode=order.get("shadow", False))

    def run(**arguments):
        runs.append(arguments)
        with open(os.environ["RUNS"], "a") as f:
            f.write(json.dumps({"arguments": arguments}) + "\n")
        if order.get("dies"):
            os.kill(os.getpid(), signal.SIGKILL)

    if order.get("ask"):
        try:
            return {"said": getattr(asked, order["ask"])(*order.get("with", []))}
        except AANAClientError as error:
            return {"error": str(error)}
    try:
        guard_tool_function(run, tool_name=name, client=asked, metadata=order["metadata"])(**order["arguments"])
    except AANAToolExecutionBlocked as blocked:
        approval = blocked.result.get("approval")
        if not approval or approval["status"] != "pending":
            return {"error": "blocked"}
        print(json.dumps({"waits": approval["id"]}), flush=True)
        return go_on(holdpoint.Client(url, key), approval, name, order["arguments"], run)
    return {}


for line in sys.stdin:
    print(json.dumps({**call(json.loads(line)), "runs": runs}), flush=True)
