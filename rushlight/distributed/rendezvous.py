"""How a process learns its number, how many there are, and where they meet.

In: `init_method` (env://, tcp://host:port, file:///path), and what the program gave. Out: store,
rank, number of processes. A group of one meets nobody, so no port is opened for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

from rushlight.base.config import child_environment
from rushlight.base.errors import NotSupportedError
from rushlight.distributed.store import FileStore, HashStore, Store
from rushlight.distributed.tcp_store import TCPStore
from rushlight.names import getattr_of as _getattr_of

__getattr__ = _getattr_of(__name__)

Meeting = tuple[Store, int, int]
_HANDLERS: dict[str, Callable[..., Iterator[Meeting]]] = {}


def _error(scheme: str, what: str) -> ValueError:
    return ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: {what}")


def _from_launcher(name: str) -> str:
    value = child_environment().get(name)
    if value is None:
        raise _error("env", f"environment variable {name} expected, but not set")
    return value


def _env(parts: Any, query: dict[str, int], rank: int, world_size: int) -> Meeting:
    rank = query.get("rank", rank)
    rank = int(_from_launcher("RANK")) if rank < 0 else rank
    world_size = query.get("world_size", world_size)
    world_size = int(_from_launcher("WORLD_SIZE")) if world_size < 0 else world_size
    host, port = _from_launcher("MASTER_ADDR"), int(_from_launcher("MASTER_PORT"))
    return _store_at(host, port, rank, world_size), rank, world_size


def _tcp(parts: Any, query: dict[str, int], rank: int, world_size: int) -> Meeting:
    if parts.port is None:
        raise _error("tcp", "port number missing")
    rank, world_size = query.get("rank", rank), query.get("world_size", world_size)
    if rank < 0:
        raise _error("tcp", "rank parameter missing")
    if world_size < 0:
        raise _error("tcp", "world size parameter missing")
    return _store_at(parts.hostname, parts.port, rank, world_size), rank, world_size


def _file(parts: Any, query: dict[str, int], rank: int, world_size: int) -> Meeting:
    rank, world_size = query.get("rank", rank), query.get("world_size", world_size)
    if not parts.path:
        raise _error("file", "path missing")
    if rank < 0:
        raise _error("file", "rank parameter missing")
    if world_size < 0:
        raise _error("file", "world size parameter missing")
    return FileStore(parts.path, world_size), rank, world_size


def _store_at(host: str, port: int, rank: int, world_size: int) -> Store:
    if world_size == 1:
        return HashStore()
    refuse_several(rank, world_size)
    return TCPStore(host, port, world_size, rank == 0)


def refuse_several(rank: int, world_size: int) -> None:
    """Stores reach other processes, tensors do not yet."""
    if world_size > 1 or rank > 0:
        raise NotSupportedError(
            f"torch.distributed.init_process_group: world_size={world_size}, rank={rank}: groups "
            "of more than one process need a transport that sends tensors, which is not there "
            "yet; start the program as one process (WORLD_SIZE=1)"
        )


_SCHEMES = {"env": _env, "tcp": _tcp, "file": _file}


def register_rendezvous_handler(scheme: str, handler: Callable[..., Iterator[Meeting]]) -> None:
    """`handler(url, **kwargs)` yields store, rank and number of processes for urls of `scheme`."""
    if scheme in _HANDLERS or scheme in _SCHEMES:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _HANDLERS[scheme] = handler


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs: Any) -> Iterator[Meeting]:
    """Yields store, rank and number of processes.

    >>> next(rendezvous("tcp://localhost:29500", rank=0, world_size=1))[1:]
    (0, 1)
    """
    if not isinstance(url, str | bytes):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    parts = urlsplit(url if isinstance(url, str) else url.decode())
    if parts.scheme in _HANDLERS:
        yield from _HANDLERS[parts.scheme](url, **kwargs)
    elif parts.scheme in _SCHEMES:
        query = {key: int(values[-1]) for key, values in parse_qs(parts.query).items()
                 if key in ("rank", "world_size")}  # fmt: skip
        yield _SCHEMES[parts.scheme](parts, query, rank, world_size)
    else:
        raise RuntimeError(f"No rendezvous handler for {parts.scheme}://")
