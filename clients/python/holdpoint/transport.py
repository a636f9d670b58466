"""One HTTP request at a time, on a connection of its own, that another thread can stop."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
import urllib.parse
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Set

from .errors import HoldpointError, Problem, Stopped, Unreachable, problem_of

MAX_ANSWER = 8 << 20
CONNECT_WITHIN = 15.0
VERSION = "0.1.0"


class Stop:
    """Ends waits from another thread, or from a signal's handler: set() it. It stays set."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._open: Set[socket.socket] = set()

    def set(self) -> None:
        """End every wait that was given this Stop."""
        self._event.set()
        with self._lock:
            for sock in self._open:
                try:
                    sock.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads from it
                except OSError:
                    pass

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    def sleep(self, seconds: float) -> None:
        """Wait, no longer than until set."""
        self._event.wait(max(seconds, 0.0))

    def _enter(self, sock: socket.socket) -> None:
        with self._lock:
            self._open.add(sock)
        if self.is_set:
            self.set()

    def _leave(self, sock: socket.socket) -> None:
        with self._lock:
            self._open.discard(sock)


class Answer:
    """An open answer. Close it."""

    def __init__(self, connection: http.client.HTTPConnection, sock: socket.socket, stop: Optional[Stop]) -> None:
        self._connection, self._socket, self._stop = connection, sock, stop
        self._response = response = connection.getresponse()
        self.status = response.status
        self.headers: Dict[str, str] = {name.lower(): value for name, value in response.getheaders()}

    def read(self) -> bytes:
        """The whole body."""
        try:
            body = self._response.read(MAX_ANSWER + 1)
        except (OSError, http.client.HTTPException, ValueError) as e:
            raise Unreachable(f"the server's answer broke off: {e}") from None
        if len(body) > MAX_ANSWER:
            raise HoldpointError("the answer is too large")
        length = self.headers.get("content-length", "")
        if length.isdigit() and len(body) < int(length):
            raise Unreachable("the server's answer broke off")
        return body

    def chunks(self, within: Callable[[], float]) -> Iterator[bytes]:
        """The body as it comes. It ends when the connection does, in whatever way, and after a
        silence of as many seconds as within says before it."""
        while True:
            try:
                self._socket.settimeout(within())
                chunk = self._response.read1(64 << 10)
            except (OSError, http.client.HTTPException, ValueError):
                return
            if not chunk:
                return
            yield chunk

    def close(self) -> None:
        if self._stop:
            self._stop._leave(self._socket)
        self._response.close()
        self._connection.close()


# Neither says what there is instead: that may be the other one, or hold a secret.
NO_URL = "the URL (HOLDPOINT_URL) is no address of a server: it is like http://127.0.0.1:8080 or https://holdpoint.example.com"
NO_KEY = "the key (HOLDPOINT_API_KEY) is no API key: it has a blank, a line break or another character that no key has"


class Transport:
    """Where the server is, and the key. It follows no redirect and uses no proxy."""

    def __init__(self, url: str, key: str, context: Optional[ssl.SSLContext]) -> None:
        try:
            parts = urllib.parse.urlsplit(url.strip())
            port = parts.port
        except ValueError:  # a port that is none
            raise ValueError(NO_URL) from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(NO_URL)
        key = key.strip()  # a file's last line ends
        if any(not "!" <= c <= "~" for c in key):
            raise ValueError(NO_KEY)
        self._tls, self._host, self._port = parts.scheme == "https", parts.hostname, port
        self._address = parts.scheme + "://" + parts.netloc.rpartition("@")[2]
        self._base = parts.path.rstrip("/")
        self._key = key
        self._context = context or (ssl.create_default_context() if self._tls else None)

    def open(
        self,
        method: str,
        path: str,
        *,
        headers: Optional[Mapping[str, str]] = None,
        body: Optional[bytes] = None,
        timeout: float = CONNECT_WITHIN,
        stop: Optional[Stop] = None,
    ) -> Answer:
        """Send a request. timeout bounds each silence, not the whole. Raises Unreachable."""
        connection: http.client.HTTPConnection
        if self._tls:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=CONNECT_WITHIN, context=self._context)
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=CONNECT_WITHIN)
        sock: Optional[socket.socket] = None
        began = time.monotonic()
        try:
            connection.connect()
            sock = connection.sock
            if stop:
                stop._enter(sock)
            sock.settimeout(timeout)
            sent = {"Accept": "application/json, application/problem+json", "User-Agent": f"holdpoint-python/{VERSION}"}
            if self._key:
                sent["Authorization"] = "Bearer " + self._key
            sent.update(headers or {})
            connection.request(method, self._base + path, body=body, headers=sent)
            return Answer(connection, sock, stop)
        except (OSError, http.client.HTTPException) as e:
            if stop and sock:
                stop._leave(sock)
            connection.close()
            if isinstance(e, socket.timeout):
                raise Unreachable(f"the server at {self._address} gave no answer in {time.monotonic() - began:.1f} seconds") from None
            why = getattr(e, "strerror", None) or str(e) or type(e).__name__
            raise Unreachable(f"the server at {self._address} cannot be reached: {why}") from None

    def ask(self, method: str, path: str, **how: Any) -> "tuple[int, Dict[str, str], Any]":
        """Send a request and read its JSON. Raises Unreachable and Problem; 304 has no body."""
        answer = self.open(method, path, **how)
        try:
            body = answer.read()
        finally:
            answer.close()
        if answer.status == 304:
            return answer.status, answer.headers, None
        if answer.status // 100 != 2:
            raise problem_of(answer.status, answer.headers, body)
        try:
            return answer.status, answer.headers, json.loads(body)
        except (ValueError, RecursionError):
            raise HoldpointError("the server's answer is not JSON") from None


FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0


class Patience:
    """The pauses between tries: doubled each time, and as long as the server asks for."""

    def __init__(self, deadline: Optional[float], stop: Optional[Stop], approval_id: str = "") -> None:
        self._deadline, self._stop, self._approval_id = deadline, stop or Stop(), approval_id
        self._pause = FIRST_PAUSE

    def left(self) -> float:
        """Seconds until the deadline. Raises Stopped when the wait is over."""
        if self._stop.is_set:
            raise Stopped(self._approval_id, "stopped")
        left = float("inf") if self._deadline is None else self._deadline - time.monotonic()
        if left <= 0:
            raise Stopped(self._approval_id, "the time was over")
        return left

    def again(self) -> None:
        """Something went well: the next pause is short."""
        self._pause = FIRST_PAUSE

    def pause(self, asked: float = 0.0) -> None:
        """Wait before the next try. Raises Stopped."""
        self._stop.sleep(min(max(self._pause, asked), self.left()))
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        self.left()

    def sleep(self, seconds: float) -> None:
        self._stop.sleep(min(seconds, self.left()))
        self.left()


def temporary(error: HoldpointError) -> bool:
    """Whether trying a POST again at once may help, under its key."""
    return isinstance(error, Unreachable) or isinstance(error, Problem) and error.status in (502, 503, 504)
