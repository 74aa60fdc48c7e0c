"""Stands between a client and a node, so that the connection can be cut as a network would: without a word."""

from __future__ import annotations

import socket
import threading
from urllib.parse import urlsplit


class Relay:
    """Passes connections on to a node until it is cut."""

    def __init__(self, target: str) -> None:
        self._target: str | None = target
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        #: How many connections were let through.
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Cuts all connections, and every new one until `mend`."""
        with self._lock:
            self._target = None
            sockets, self._sockets = self._sockets, set()
        for one in sockets:
            _close(one)

    def mend(self, target: str) -> None:
        """Lets connections through again, to another node if you like."""
        with self._lock:
            self._target = target

    def stop(self) -> None:
        """Ends it."""
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                target = self._target
            if target is None:
                _close(near)
                continue
            node = urlsplit(target)
            try:
                far = socket.create_connection((node.hostname or "", node.port or 80), timeout=10)
            except OSError:
                _close(near)
                continue
            far.settimeout(None)
            with self._lock:
                self.connections += 1
                self._sockets |= {near, far}
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=_pass_on, args=(source, sink), daemon=True).start()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    _close(source)
    _close(sink)


def _close(one: socket.socket) -> None:
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    one.close()
