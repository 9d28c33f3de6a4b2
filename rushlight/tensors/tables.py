"""Tables of public functions: name -> function. `families` puts them together."""

from __future__ import annotations

from collections.abc import Callable


def by_name(*functions: Callable) -> dict[str, Callable]:
    """A table of functions that are public under their own names.

    >>> by_name(abs, min)
    {'abs': <built-in function abs>, 'min': <built-in function min>}
    """
    return {function.__name__: function for function in functions}
