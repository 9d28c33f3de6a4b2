"""Schemas of operators: `space::name(Tensor x, int n=1, *, float s=0.5) -> Tensor`.

`infer_schema` makes the text from a function's type hints; `parse_schema` reads it.
"""

from __future__ import annotations

import collections.abc
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import rushlight as torch

_PLAIN: dict[Any, str] = {
    torch.Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str",
    torch.dtype: "ScalarType", torch.device: "Device", complex: "complex",
}  # fmt: skip


@dataclass(frozen=True)
class Arg:
    """One argument. `default` is the text of it, None if there is none."""

    name: str
    type: str
    default: str | None = None
    kwarg_only: bool = False
    is_write: bool = False

    def __str__(self) -> str:
        text = f"{self.type} {self.name}"
        return text if self.default is None else f"{text}={self.default}"

    @property
    def is_tensor(self) -> bool:
        return self.type.startswith("Tensor")


@dataclass(frozen=True)
class Schema:
    """The signature of an operator."""

    name: str
    arguments: tuple[Arg, ...]
    returns: tuple[str, ...]
    overload: str = ""

    def __str__(self) -> str:
        parts: list[str] = []
        for arg in self.arguments:
            if arg.kwarg_only and "*" not in parts:
                parts.append("*")
            parts.append(str(arg))
        back = self.returns[0] if len(self.returns) == 1 else f"({', '.join(self.returns)})"
        overload = f".{self.overload}" if self.overload else ""
        return f"{self.name}{overload}({', '.join(parts)}) -> {back}"

    @property
    def is_mutable(self) -> bool:
        return any(arg.is_write for arg in self.arguments)


def _type_text(hint: Any) -> str:
    """The schema's word for a type hint; KeyError if there is none."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        rest = [part for part in inner if part is not type(None)]
        if len(rest) == 1 and len(rest) < len(inner):
            return _type_text(rest[0]) + "?"
        if set(rest) <= {int, float, bool}:
            return "Scalar" + ("?" if len(rest) < len(inner) else "")
        raise KeyError(hint)
    if origin in (list, collections.abc.Sequence):
        return _type_text(inner[0]) + "[]"
    if origin is tuple and len(inner) == 2 and inner[1] is Ellipsis:
        return _type_text(inner[0]) + "[]"
    return _PLAIN[hint]


def _returns_text(hint: Any) -> str:
    if hint is None or hint is type(None):
        return "()"
    if typing.get_origin(hint) is tuple:
        return f"({', '.join(map(_type_text, typing.get_args(hint)))})"
    return {"SymInt": "SymInt"}.get(_type_text(hint), _type_text(hint))


def _default_text(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, torch.dtype | torch.device):
        return str(value).removeprefix("torch.")
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(str, value))}]"
    return str(value)


def infer_schema(
    prototype_function: Callable[..., Any], /, *, mutates_args: str | Iterable[str],
    op_name: str | None = None, tags: Any = (),
) -> str:  # fmt: skip
    """The schema of a function, from its type hints.

    >>> import rushlight as torch
    >>> def scaled(x: torch.Tensor, by: float = 2.0) -> torch.Tensor: ...
    >>> torch.library.infer_schema(scaled, mutates_args=())
    '(Tensor x, float by=2.0) -> Tensor'
    """
    signature = inspect.signature(prototype_function)
    hints = typing.get_type_hints(prototype_function)
    written = set() if mutates_args == "unknown" else {*_listed(mutates_args)}
    args: list[Arg] = []
    for number, (name, param) in enumerate(signature.parameters.items()):
        _check_parameter(name, param, hints, signature)
        try:
            kind = _type_text(hints[name])
        except KeyError:
            raise ValueError(
                f"infer_schema(func): Parameter {name} has unsupported type {hints[name]}. Got "
                f"func with signature {signature})"
            ) from None
        if name in written or (mutates_args == "unknown" and kind.startswith("Tensor")):
            kind = kind.replace("Tensor", f"Tensor(a{number}!)", 1)
        has_default = param.default is not inspect.Parameter.empty
        args.append(Arg(
            name, kind, _default_text(param.default) if has_default else None,
            param.kind is inspect.Parameter.KEYWORD_ONLY, "!" in kind,
        ))  # fmt: skip
    unknown = written - set(signature.parameters)
    if unknown:
        raise ValueError(
            f"infer_schema(func): {sorted(unknown)} in mutates_args were not found in the custom "
            f"op's signature. mutates_args should contain the names of all args that the custom op "
            f"mutates, or just the string 'unknown' if you don't know."
        )
    if "return" not in hints:
        raise ValueError(
            f"infer_schema(func): No return type annotation was provided. Got func with signature "
            f"{signature}). Please add one."
        )
    return str(Schema(op_name or "", tuple(args), (_returns_text(hints["return"]),)))


def _listed(names: str | Iterable[str]) -> Iterable[str]:
    return (names,) if isinstance(names, str) else names


def _check_parameter(name: str, param: Any, hints: dict[str, Any], signature: Any) -> None:
    if param.kind in (param.VAR_POSITIONAL, param.VAR_KEYWORD):
        raise ValueError("infer_schema(func): We do not support *args or **kwargs in the schema.")
    if name not in hints:
        raise ValueError(
            f"infer_schema(func): Parameter {name} must have a type annotation. Got func with "
            f"signature {signature})"
        )


_SCHEMA = re.compile(
    r"(?P<name>[\w:]*)(?:\.(?P<overload>\w+))?\((?P<args>.*)\)\s*->\s*(?P<back>.*)"
)
_ARG = re.compile(
    r"(?P<type>[\w\[\]()!?]+(?:\(\w+!?\))?[\[\]?\d]*)\s+(?P<name>\w+)(?:=(?P<default>.*))?"
)


def _split(text: str) -> list[str]:
    """Parts between the commas that are in no brackets."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def parse_schema(text: str) -> Schema:
    """Read a schema; ValueError if it is none."""
    found = _SCHEMA.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"schema: got {text!r}, expected 'name(Tensor x, ...) -> Tensor'")
    args: list[Arg] = []
    kwarg_only = False
    for part in _split(found["args"]):
        if part == "*":
            kwarg_only = True
            continue
        piece = _ARG.fullmatch(part)
        if piece is None:
            raise ValueError(f"schema: cannot read the argument {part!r} of {text!r}")
        kind = piece["type"]
        args.append(Arg(piece["name"], kind, piece["default"], kwarg_only, "!" in kind))
    back = found["back"].strip()
    returns = _split(back[1:-1]) if back.startswith("(") else [back]
    return Schema(found["name"], tuple(args), tuple(returns), found["overload"] or "")


def default_value(text: str) -> Any:
    """The value of a default's text."""
    words = {"None": None, "True": True, "False": False, "true": True, "false": False}
    if text in words:
        return words[text]
    if text.startswith(("'", '"')):
        return text[1:-1]
    if text.startswith("["):
        return [default_value(part) for part in _split(text[1:-1])]
    try:
        return float(text) if re.search(r"[.e]|inf|nan", text) else int(text)
    except ValueError:
        return getattr(torch, text, text)
