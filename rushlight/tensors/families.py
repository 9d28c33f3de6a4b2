"""The families of functions; a name belongs to one of them.

Gives FUNCTIONS (the torch namespace) and METHODS (the Tensor class), with the forms of `forms.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from rushlight.tensors import (
    functional_sample,
    functional_torch,
    functions_checks,
    functions_complex,
    functions_copies,
    functions_einsum,
    functions_factor,
    functions_foreach,
    functions_grouped,
    functions_integrals,
    functions_layers,
    functions_linalg,
    functions_math,
    functions_matrix,
    functions_native,
    functions_order,
    functions_quantize,
    functions_reduce,
    functions_rnn,
    functions_sampling,
    functions_select,
    functions_shape,
    functions_slices,
    functions_solve,
    functions_special,
    functions_spectral,
    functions_stats,
    functions_turned,
    functions_unique,
    functions_vander,
    functions_view,
    functions_windows,
    odd_methods,
    random,
    untyped,
)
from rushlight.tensors.argument_names import with_other_names
from rushlight.tensors.autocast_rules import follow
from rushlight.tensors.forms import in_place_form, with_out
from rushlight.tensors.old_order import takes_old_order
from rushlight.tensors.operands import checked

FAMILIES = (
    functions_view, functions_slices, functions_math, functions_select, functions_unique,
    functions_reduce, functions_shape, functions_linalg, functions_solve, functions_factor,
    functions_matrix, functions_copies, functions_special, functions_stats, functions_integrals,
    functions_native, functions_rnn, functions_turned, functions_complex, functions_spectral,
    functional_sample, functional_torch, functions_windows, functions_foreach, functions_checks,
    odd_methods, untyped, functions_sampling, functions_layers, functions_quantize, random,
    functions_einsum, functions_order, functions_vander, functions_grouped,
)  # fmt: skip
FUNCTIONS: dict[str, Callable] = {}
METHODS: dict[str, Callable] = {}
for _family in FAMILIES:
    FUNCTIONS.update({n: follow(checked(f, n), n) for n, f in _family.FUNCTIONS.items()})
    METHODS.update({n: follow(checked(f, n), n) for n, f in _family.METHODS.items()})

_FACTORS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("add", "sub"), ("alpha",)),
    **dict.fromkeys(("addmm", "addmv", "addr", "baddbmm", "addbmm"), ("beta", "alpha")),
    **dict.fromkeys(("addcmul", "addcdiv"), ("value",)),
}
for _table in (FUNCTIONS, METHODS):
    for _name, _factors in _FACTORS.items():
        for _form in {_name, f"{_name}_"} & _table.keys():
            _table[_form] = takes_old_order(_table[_form], _name, _factors)

# What PyTorch gives an `out=`, where the function itself has none.
WITH_OUT = """addbmm addmm addmv addr argmax argmin baddbmm bucketize clamp_max clamp_min
column_stack cross diag diff dot dstack float_power histc hstack index_add index_copy inner kron
log_softmax
logcumsumexp logit logsumexp msort mv nanmean nansum outer scatter scatter_add scatter_reduce
searchsorted slice_scatter softmax take take_along_dim tensordot tril triu vdot vstack row_stack
ger det nonzero_static hash_tensor bmm mm cov sort topk kthvalue mode cummax cummin aminmax
count_nonzero argsort roll prod masked_select norm std var triangular_solve lu_unpack frexp
cumulative_trapezoid trapezoid unsafe_split _int_mm""".split()
# Those whose `out` must have the dtype of the result.
EXACT = frozenset(
    """addbmm addmm addmv baddbmm bmm mm dot argmax argmin sort topk kthvalue mode cummax
    cummin aminmax argsort take _int_mm""".split()
)
# What PyTorch has in place, where no family says how.
IN_PLACE = (
    """i0 igamma igammac ldexp mvlgamma renorm index_reduce conj_physical polygamma""".split()
)
for _table in (FUNCTIONS, METHODS):
    _table.update({n: with_other_names(f, n) for n, f in _table.items() if callable(f)})
for _name in WITH_OUT:
    FUNCTIONS[_name] = with_out(FUNCTIONS[_name], _name in EXACT)
for _name in IN_PLACE:
    METHODS.setdefault(f"{_name}_", in_place_form(FUNCTIONS[_name], f"{_name}_"))
