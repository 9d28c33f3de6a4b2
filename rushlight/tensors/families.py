"""The families of functions, in the order in which later ones may replace names of earlier ones.

Gives FUNCTIONS (the torch namespace) and METHODS (the Tensor class), with the forms of `forms.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from rushlight.tensors import (
    functions_copies,
    functions_factor,
    functions_linalg,
    functions_math,
    functions_matrix,
    functions_reduce,
    functions_select,
    functions_shape,
    functions_special,
    functions_view,
    random,
)
from rushlight.tensors.forms import in_place_form, with_out

FAMILIES = (
    functions_view, functions_math, functions_select, functions_reduce, functions_shape,
    functions_linalg, functions_factor, functions_matrix, functions_copies, functions_special, random,
)  # fmt: skip
FUNCTIONS: dict[str, Callable] = {}
METHODS: dict[str, Callable] = {}
for _family in FAMILIES:
    FUNCTIONS.update(_family.FUNCTIONS)
    METHODS.update(_family.METHODS)

# What PyTorch gives an `out=`, where the function itself has none.
WITH_OUT = """""".split()
# What PyTorch has in place, where no family says how.
IN_PLACE = """""".split()
for _name in WITH_OUT:
    FUNCTIONS[_name] = with_out(FUNCTIONS[_name])
for _name in IN_PLACE:
    METHODS.setdefault(f"{_name}_", in_place_form(FUNCTIONS[_name], f"{_name}_"))
