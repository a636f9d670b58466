"""A stand-in for a server: each request is answered by the next step of a script, the last one for good."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server:
    def __init__(self, *steps):
        self.steps, self.seen, self.lock = list(steps), [], threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                with outer.lock:
                    outer.seen.append((self.command + " " + self.path, dict(self.headers), body))
                    step = outer.steps[min(len(outer.seen), len(outer.steps)) - 1]
                step(self)

            do_GET = do_POST = answer

            def log_message(self, *_):
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass

        self.http = Quiet(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d/" % self.http.server_address[1]
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def lines(self):
        return [line for line, _, _ in self.seen]

    def close(self):
        self.http.shutdown()
        self.http.server_close()


def says(status, body, **headers):
    """A step that answers."""

    def step(h):
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        h.send_response(status)
        sent = {"Content-Type": "application/problem+json" if status >= 400 else "application/json", **headers}
        for name, value in sent.items():
            h.send_header(name.replace("_", "-"), value)
        h.send_header("Content-Length", str(len(data)))
        h.end_headers()
        h.wfile.write(data)

    return step


def problem(status, code, **headers):
    return says(status, {"code": code, "title": "T", "detail": "d"}, **headers)


def hangs_up(h):
    h.close_connection = True
    h.connection.close()


def streams(*texts, then=None):
    """A step that sends these pieces of an event stream, and then ends it, or waits for then."""

    def step(h):
        h.send_response(200)
        h.send_header("Content-Type", "text/event-stream")
        h.send_header("Connection", "close")
        h.end_headers()
        for text in texts:
            h.wfile.write(text.encode())
            h.wfile.flush()
        if then:
            then.wait(30)
        h.close_connection = True

    return step


def message(approval):
    return f"id: 1\nevent: approval\ndata: {json.dumps(approval)}\n\n"


ACCEPTED = {
    "gate_decision": "pass",
    "recommended_action": "accept",
    "hard_blockers": [],
    "aix": {"hard_blockers": []},
    "architecture_decision": {"route": "accept"},
    "execution_policy": {"execution_allowed": True},
}
REFUSED = {**ACCEPTED, "gate_decision": "fail", "recommended_action": "refuse", "hard_blockers": ["runtime_refusal"]}
PENDING = {"id": "apr_1", "status": "pending", "tool_name": "pay"}
WAITING = {**REFUSED, "recommended_action": "defer", "approval": PENDING}
APPROVED = {**PENDING, "status": "approved", "resumption_token": "TOKEN", "execution": "none"}
DENIED = {**PENDING, "status": "denied", "denial": {"kind": "never", "comment": "no"}}
EDITED = {**APPROVED, "edited": {"arguments": {"amount": 2}}}
REDEEMED = {"redeemed": True, "approval_id": "apr_1", "constraints": {}}
