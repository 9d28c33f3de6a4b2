"""What `compile` may be asked for by name: a backend, a mode, options.

In: the arguments of a call of `compile`. Out: an error for what PyTorch refuses too, and the
settings under which the function is compiled. Always true: a maker of products that nobody knows is
an error on every device, also where no GPU is that would ask it.
"""

from __future__ import annotations

from typing import Any

from rushlight.base.config import BY_FIELD, Value, config
from rushlight.tensors.compile_options import MAKERS, check_options

# PyTorch's names for "compile it" and "only run it"; all are this compiler, which gives the same.
BACKENDS = ("rushlight", "inductor", "eager", "aot_eager")
# PyTorch's names for how long to search: those with "max-autotune" measure schedules of products.
MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


def check_choices(backend: Any, mode: str | None, options: Any) -> None:
    """RuntimeError, with PyTorch's words, for what is not one of them."""
    if isinstance(backend, str) and backend not in BACKENDS:
        raise RuntimeError(f"Invalid backend: {backend!r}; known are {', '.join(BACKENDS)}")
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if backend in (None, "rushlight", "inductor") and mode not in (None, *MODES):
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
    if backend in (None, "rushlight", "inductor"):
        check_options(options)


def check_region(name: Any, recompile_limit: Any, shapes_spec: Any) -> None:
    """TypeError for arguments of another type than PyTorch's; NotImplementedError for sizes that
    are said to be symbolic: they become so by themselves."""
    if name is not None and not isinstance(name, str):
        raise TypeError(f"compile: name must be a str or None, got {type(name).__name__}")
    is_number = isinstance(recompile_limit, int) and not isinstance(recompile_limit, bool)
    if recompile_limit is not None and not is_number:
        kind = type(recompile_limit).__name__
        raise TypeError(f"compile: recompile_limit must be an int or None, got {kind}")
    if shapes_spec is not None and shapes_spec != {}:
        if not isinstance(shapes_spec, dict):
            kind = type(shapes_spec).__name__
            raise TypeError(f"shapes_spec must be ParamsSpec, dict, or None, got {kind}")
        raise NotImplementedError(
            "compile: shapes_spec is not supported; sizes become symbolic where they vary"
        )


def settings_of(mode: str | None, options: Any) -> dict[str, Value]:
    """Overrides of `base/config.py` for compiling; {}: none. Options that PyTorch's compiler does
    not know are for a backend of another name, and change nothing."""
    given = check_options(options, any_name=True)
    settings: dict[str, Value] = {}
    asked = given.get("max_autotune") or given.get("max_autotune_gemm")
    if asked or "max-autotune" in (mode or ""):
        settings["max_autotune"] = True
    if MAKERS in given:
        settings[MAKERS] = BY_FIELD[MAKERS].check(given[MAKERS].upper(), "the options of compile")
    else:
        getattr(config, MAKERS)  # it is checked as it is read
    return settings
