"""A relay between a client and a node that can cut connections abruptly, like a failing network."""

from __future__ import annotations

import socket
import threading
from urllib.parse import urlsplit


class Relay:
    """Forwards connections to a node until they are cut."""

    def __init__(self, target: str) -> None:
        self._target: str | None = target
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        #: The number of forwarded connections.
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Close all connections, and new ones until `restore`."""
        with self._lock:
            self._target = None
            sockets, self._sockets = self._sockets, set()
        for one in sockets:
            _close(one)

    def restore(self, target: str) -> None:
        """Forward new connections to a node."""
        with self._lock:
            self._target = target

    def stop(self) -> None:
        """Stop listening and close all connections."""
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
                threading.Thread(target=_forward, args=(source, sink), daemon=True).start()


def _forward(source: socket.socket, sink: socket.socket) -> None:
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
