"""Named results: `torch.max(x, 0)` gives a tuple with `.values` and `.indices`."""

from __future__ import annotations

from typing import Any

CLASSES: dict[str, type] = {}  # all of them, by name: what torch.return_types has


def result_class(name: str, fields: tuple[str, ...]) -> type:
    """A tuple class whose fields have names; prints as torch.return_types.<name>."""

    def text(self: Any) -> str:
        body = ",\n".join(f"{f}={value!r}" for f, value in zip(fields, self, strict=True))
        return f"torch.return_types.{name}(\n{body})"

    members: dict[str, Any] = {
        field: property(lambda self, i=i: self[i]) for i, field in enumerate(fields)
    }
    members.update(__repr__=text, __slots__=(), __module__="torch.return_types")
    return CLASSES.setdefault(name, type(name, (tuple,), members))
