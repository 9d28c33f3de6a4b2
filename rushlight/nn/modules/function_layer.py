"""Layers that are one function with settings, each declared as the list of its settings.

In: a class whose annotated fields are the arguments of its constructor. Out: that constructor, a
`forward` that hands the fields to the function by name, and the printed form. So a setting is
written once:

    @layer(F.elu)
    class ELU(FunctionLayer):
        alpha: float = 1.0
        inplace: bool = False
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform

import rushlight as torch
from rushlight.nn.modules.module import Module

Layer = TypeVar("Layer", bound=type[Module])


@dataclass_transform(eq_default=False)
def layer(function: Callable[..., Any] | None = None) -> Callable[[Layer], Layer]:
    """Make the constructor of a class from its fields; `forward` calls `function`."""

    def declare(cls: Layer) -> Layer:
        dataclass(eq=False, repr=False, match_args=False)(cls)
        cls.settings = tuple(field.name for field in fields(cls))  # type: ignore[arg-type]
        if cls.settings:
            cls.__init__ = _constructor(cls)
        else:
            del cls.__init__
        _drop_class_defaults(cls)
        if function is not None:
            cls.function = staticmethod(function)
        return cls

    return declare


def _constructor(cls: type) -> Callable[..., None]:
    """First Module's constructor, then that of the dataclass."""
    assign = cls.__init__
    # A caller sees what it may give; whoever reads the text elsewhere does not know InitVar.
    hints = assign.__annotations__
    hints.update((key, _inner(text)) for key, text in hints.items() if isinstance(text, str))

    @functools.wraps(assign)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        Module.__init__(self)
        assign(self, *args, **kwargs)

    return __init__


def _inner(text: str) -> str:
    return text[len("InitVar[") : -1] if text.startswith("InitVar[") else text


def _drop_class_defaults(cls: type) -> None:
    """The constructor knows the defaults; as class attributes they would stand for buffers."""
    annotations = cls.__dict__.get("__annotations__", {})
    for name, kind in list(annotations.items()):
        if "ClassVar" not in str(kind) and name in cls.__dict__:
            delattr(cls, name)
        if str(kind).startswith("InitVar["):  # an argument, no attribute
            del annotations[name]


class FunctionLayer(Module):
    """`function(input, **settings)`.

    Example:
        >>> @layer(torch.mul)
        ... class Times(FunctionLayer):
        ...     other: float = 2.0
        >>> Times(3.0)(torch.ones(1)), Times()
        (tensor([3.]), Times(other=2.0))
    """

    function: ClassVar[Callable[..., Any]]
    settings: ClassVar[tuple[str, ...]] = ()
    shown: ClassVar[tuple[str, ...] | None] = None  # what is printed, if not all settings

    def given(self) -> dict[str, Any]:
        """The settings by name."""
        return {name: getattr(self, name) for name in self.settings}

    def forward(self, input: torch.Tensor) -> Any:
        return self.function(input, **self.given())

    def extra_repr(self) -> str:
        names = self.settings if self.shown is None else self.shown
        values = {name: getattr(self, name) for name in names}
        if values.get("inplace") is False:
            del values["inplace"]
        return ", ".join(
            f"{name}={value!r}" if isinstance(value, str) else f"{name}={value}"
            for name, value in values.items()
        )
