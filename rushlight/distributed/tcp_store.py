"""A key-value store over TCP: one process serves it, all ask it.

A request is a packet: the operation, the seconds to wait (empty: do not wait), its arguments. The
answer is a packet of one part, of none for "not there", or of two, a mark and what was wrong with
the request.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from datetime import timedelta

from rushlight.distributed.errors import DistNetworkError, DistStoreError
from rushlight.distributed.store import DEFAULT_TIMEOUT, Store
from rushlight.distributed.store_table import StoreTable, pack, unpack

RETRY_SECONDS = 0.05
WORKERS = "init/"
WRONG = b"wrong"
OPERATIONS = frozenset(
    "set get add append compare_set delete count keys check push take waiting".split()
)


def _receive(link: socket.socket, size: int) -> bytes:
    parts, left = [], size
    while left:
        part = link.recv(min(left, 1 << 20))
        if not part:
            raise EOFError("the other side has ended")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


class StoreServer:
    """Answers requests for one table, a thread for each process that asks."""

    def __init__(self, host: str, port: int) -> None:
        self.table = StoreTable()
        self._links: set[socket.socket] = set()
        try:
            self._socket = socket.create_server((host, port), backlog=512)
        except OSError as error:
            raise DistNetworkError(
                f"The server socket has failed to listen on any local network address. port: "
                f"{port}: {error}"
            ) from error
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self._socket.accept()
            except OSError:  # closed
                return
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._links.add(link)
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: socket.socket) -> None:
        try:
            while True:
                name, seconds, *parts = unpack(lambda size: _receive(link, size))
                link.sendall(pack(self._answer(name.decode(), seconds, parts)))
        except (OSError, EOFError, ValueError, TypeError):  # gone, or no client of ours
            pass
        finally:
            self._links.discard(link)
            link.close()

    def _answer(self, name: str, seconds: bytes, parts: list[bytes]) -> list[bytes]:
        if name not in OPERATIONS:
            raise ValueError(f"no operation of a store: {name}")
        try:
            if seconds:
                found = self.table.wait_until(name, parts, float(seconds))
            else:
                found = self.table.run(name, *parts)
        except ValueError as error:  # `add` to what is no number: the asker's fault, told to it
            return [WRONG, str(error).encode()]
        return [] if found is None else [found]

    def close(self) -> None:
        self._socket.close()
        for link in list(self._links):
            link.close()


class TCPStore(Store):
    """A store that the process with `is_master` serves at `host_name`:`port` (0: a free one).

    world_size: how many processes will ask; the master waits for them unless `wait_for_workers` is
    False. Raises DistNetworkError when nobody serves it in time.

    >>> store = TCPStore("127.0.0.1", 0, 1, is_master=True)
    >>> store.set("a", "1")
    >>> store.get("a")
    b'1'
    """

    def __init__(
        self, host_name: str, port: int, world_size: int | None = None, is_master: bool = False,
        timeout: timedelta = DEFAULT_TIMEOUT, wait_for_workers: bool = True,
        multi_tenant: bool = False, master_listen_fd: int | None = None, use_libuv: bool = True,
    ) -> None:  # fmt: skip
        self.timeout, self.host, self.world_size = timeout, host_name, world_size
        self._server = StoreServer("", port) if is_master else None
        self.port = self._server.port if self._server else port
        self._lock = threading.Lock()
        self._link = self._connect(timeout.total_seconds())
        here = self.add(WORKERS, 1)
        if wait_for_workers and is_master and world_size is not None:
            self._wait_for_workers(here, world_size)

    def _connect(self, seconds: float) -> socket.socket:
        end = time.monotonic() + seconds
        while True:
            try:
                left = max(end - time.monotonic(), RETRY_SECONDS)
                link = socket.create_connection((self.host, self.port), timeout=left)
                break
            except OSError as error:
                if time.monotonic() + RETRY_SECONDS < end:
                    time.sleep(RETRY_SECONDS)
                    continue
                raise DistNetworkError(
                    f"The client socket has timed out after {round(seconds * 1000)}ms while trying "
                    f"to connect to ({self.host}, {self.port})."
                ) from error
        link.settimeout(None)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return link

    def _wait_for_workers(self, here: int, world_size: int) -> None:
        end = time.monotonic() + self.timeout.total_seconds()
        while here < world_size:
            if time.monotonic() > end:
                raise DistStoreError(
                    f"Timed out after {round(self.timeout.total_seconds()) + 1} seconds waiting "
                    f"for clients. {here}/{world_size} clients joined."
                )
            time.sleep(RETRY_SECONDS)
            here = self.add(WORKERS, 0)

    def _ask(self, name: str, seconds: bytes, parts: Sequence[bytes]) -> bytes | None:
        with self._lock:
            try:
                self._link.sendall(pack([name.encode(), seconds, *parts]))
                answer = unpack(lambda size: _receive(self._link, size))
            except (OSError, EOFError) as error:
                raise DistNetworkError(
                    f"the store at {self.host}:{self.port} does not answer: {error}"
                ) from error
        if len(answer) > 1:
            raise ValueError(answer[1].decode())
        return answer[0] if answer else None

    def _run(self, name: str, *parts: bytes) -> bytes | None:
        return self._ask(name, b"", parts)

    def _wait(self, name: str, parts: Sequence[bytes], seconds: float) -> bytes | None:
        return self._ask(name, f"{seconds}".encode(), parts)

    def _timed_out(self, keys: Sequence[str], seconds: float) -> DistStoreError:
        names = ", ".join(f"/{key}" for key in keys)
        return DistStoreError(f"wait timeout after {round(seconds * 1000)}ms, keys: {names}")

    def __repr__(self) -> str:
        return f"TCPStore({self.host}:{self.port})"

    def __del__(self) -> None:
        for part in (getattr(self, "_link", None), getattr(self, "_server", None)):
            if part is not None:
                part.close()
