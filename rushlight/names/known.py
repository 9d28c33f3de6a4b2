"""The public names of PyTorch 2.13, by module, from `torch_names.txt`.

One line is `module: name name ...`; `torch.Tensor` is a line too. Read when first asked for.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

LIST = Path(__file__).with_name("torch_names.txt")
INNER = Path(__file__).with_name("inner_names.txt")


@cache
def known_names() -> dict[str, frozenset[str]]:
    """PyTorch's module ("torch.nn") -> its public names."""
    return _read(LIST)


@cache
def stand_in_names() -> dict[str, frozenset[str]]:
    """The same, and for the modules of parts that are not there also what is inside of them:
    packages import from there too."""
    inner, public = _read(INNER), known_names()
    return public | {name: names | public.get(name, frozenset()) for name, names in inner.items()}


def _read(path: Path) -> dict[str, frozenset[str]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    pairs = (line.split(":", 1) for line in lines if not line.startswith("#"))
    return {module: frozenset(names.split()) for module, names in pairs}


def is_known(module: str, name: str) -> bool:
    """Has PyTorch a public name, or a module, `name` in its module `module`?"""
    known = known_names()
    return name in known.get(module, ()) or f"{module}.{name}" in known
