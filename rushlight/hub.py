"""torch.hub: models from a folder with a `hubconf.py`, and files by URL, kept in one folder.

A repository on GitHub is not fetched: clone it and give its folder with `source="local"`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
import tempfile
import urllib.request
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlparse

from tqdm import tqdm

import rushlight as torch
from rushlight import names as _names
from rushlight.base.config import config

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url",
    "set_dir",
]  # fmt: skip

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
READ_BLOCK = 1 << 17


class _Folder:
    chosen: str | None = None


def _get_torch_home() -> str:
    """The folder that everything is kept below."""
    return str(Path(config.torch_home).expanduser())


def get_dir() -> str:
    """Where `load_state_dict_from_url` keeps what it gets."""
    return _Folder.chosen or str(Path(_get_torch_home()) / "hub")


def set_dir(d: Any) -> None:
    """Keep it elsewhere from now on."""
    _Folder.chosen = str(Path(d).expanduser())


def _hubconf(repo_or_dir: Any, source: str) -> ModuleType:
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        raise NotImplementedError(
            f"torch.hub does not fetch repositories ({repo_or_dir!r}): clone it, and give its "
            'folder with source="local".'
        )
    folder = Path(repo_or_dir).resolve()
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location("hubconf", folder / "hubconf.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    missing = [name for name in getattr(module, "dependencies", ())
               if importlib.util.find_spec(name) is None]  # fmt: skip
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    return module


def list(github: Any, force_reload: bool = False, *, source: str = "local", **_: Any) -> Any:  # noqa: A001
    """The names of the models that a folder's hubconf.py offers."""
    module = _hubconf(github, source)
    return [name for name, value in vars(module).items()
            if callable(value) and not name.startswith("_")]  # fmt: skip


def _entry(module: ModuleType, model: str) -> Any:
    found = getattr(module, model, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return found


def help(github: Any, model: str, *, source: str = "local", **_: Any) -> str | None:  # noqa: A001
    """The docstring of a model's function."""
    return _entry(_hubconf(github, source), model).__doc__


def load(
    repo_or_dir: Any, model: str, *args: Any, source: str = "github", trust_repo: Any = None,
    force_reload: bool = False, verbose: bool = True, skip_validation: bool = False, **kwargs: Any,
) -> Any:  # fmt: skip
    """What the function `model` of the folder's hubconf.py gives for these arguments.

    It runs the folder's code. Only `source="local"`.
    """
    return _entry(_hubconf(repo_or_dir, source), model)(*args, **kwargs)


def download_url_to_file(
    url: str, dst: Any, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Get a URL into a file, whole or not at all; `hash_prefix` is the start of its SHA-256."""
    target = Path(dst).expanduser()
    digest = hashlib.sha256()
    request = urllib.request.Request(url, headers={"User-Agent": "torch.hub"})
    with urllib.request.urlopen(request) as reply, tempfile.NamedTemporaryFile(
        dir=target.parent, prefix=f"{target.name}.", suffix=".partial", delete=False
    ) as part:  # fmt: skip
        try:
            size = reply.headers.get("Content-Length")
            bar = tqdm(total=int(size) if size else None, disable=not progress, unit="B",
                       unit_scale=True, unit_divisor=1024)  # fmt: skip
            with bar:
                while block := reply.read(READ_BLOCK):
                    part.write(block)
                    digest.update(block)
                    bar.update(len(block))
            part.close()
            found = digest.hexdigest()
            if hash_prefix and not found.startswith(hash_prefix):
                raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found}")')
            Path(part.name).replace(target)
        finally:
            Path(part.name).unlink(missing_ok=True)


def load_state_dict_from_url(
    url: str, model_dir: Any = None, map_location: Any = None, progress: bool = True,
    check_hash: bool = False, file_name: str | None = None, weights_only: bool = True,
) -> Any:  # fmt: skip
    """Load what is at a URL; the file is kept, and found there the next time.

    `check_hash`: the file's name must hold the start of its SHA-256 (`name-0123abcd.pth`).
    """
    folder = Path(model_dir) if model_dir is not None else Path(get_dir()) / "checkpoints"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (file_name or Path(urlparse(url).path).name)
    if not path.exists():
        print(f'Downloading: "{url}" to {path}', file=sys.stderr)
        found = HASH_REGEX.search(path.name) if check_hash else None
        download_url_to_file(url, path, found.group(1) if found else None, progress)
    return torch.load(path, map_location=map_location, weights_only=weights_only)
