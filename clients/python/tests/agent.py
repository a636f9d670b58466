"""An agent for the end-to-end tests (tests/clients_agents_test.go), which drive it as a process and kill it.

    agent.py call TOOL ARGUMENTS [key=K] [timeout=SECONDS] [cancel] [hang] [separate] [async]
    agent.py resume TOOL
    agent.py settle OUTCOME
    agent.py list TOOL

HOLDPOINT_URL and HOLDPOINT_API_KEY say where the server is, JOURNAL and RUNS name files. Each run of the
tool is a line of RUNS. What happened is one line of JSON on standard output.
"""

import asyncio
import json
import os
import sys

import holdpoint

command, first, *rest = sys.argv[1:]
options = dict(word.partition("=")[::2] for word in rest)
hp = holdpoint.Client(journal=os.environ.get("JOURNAL"), on_wait=None)


def say(**what):
    print(json.dumps(what), flush=True)


def run(arguments, limits):
    with open(os.environ["RUNS"], "a") as file:
        file.write(json.dumps({"arguments": arguments, "constraints": limits}) + "\n")
    say(running=True)
    if "hang" in options:
        sys.stdin.read()
    if arguments.get("fail"):
        raise ValueError("it did not work")
    return "done"


guard = hp.guard(
    tool=first,
    category="public_read",
    risk_domain="research",
    route=options.get("route", "defer"),
    constraints="limits",
    timeout=float(options["timeout"]) if "timeout" in options else None,
    cancel_when_stopped="cancel" in options,
)

if "async" in options:

    @guard
    async def tool(limits, **arguments):
        return await asyncio.to_thread(run, arguments, limits)

else:

    @guard
    def tool(limits, **arguments):
        return run(arguments, limits)


def outcome(do):
    """What a call came to, in the words that the clients of all languages use."""
    try:
        value = do()
        return {"value": asyncio.run(value) if asyncio.iscoroutine(value) else value}
    except (holdpoint.HoldpointError, ValueError) as e:
        told = {"error": type(e).__name__, "code": getattr(e, "code", ""), "text": str(e)}
        approval = getattr(e, "approval", None)
        if approval:
            told["status"] = approval.status
        return told


if command == "call":
    arguments = json.loads(rest[0])
    say(**outcome(lambda: hp.call(tool, arguments, key=options.get("key", ""), separate="separate" in options)))
elif command == "resume":
    say(resumed=[{"state": left.state, **outcome(left.resume)} for left in hp.unfinished()])
elif command == "settle":
    say(settled=[outcome(lambda: left.settle(first)) for left in hp.unfinished()])
elif command == "list":
    say(list=[{"id": a.id, "status": a.status, "execution": a.execution, "digest": a.digest} for a in hp.list(tool_name=first)], digest=holdpoint.digest(first, {"n": 1}))
