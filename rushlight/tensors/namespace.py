"""The functions and objects of the `rushlight` (torch) namespace that belong to tensors."""

from __future__ import annotations

import math
import warnings
from typing import Any

from rushlight.autograd.mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)  # fmt: skip
from rushlight.base.config import config
from rushlight.base.devices import current_device, device, set_default_device
from rushlight.base.dtypes import (
    DType,
    bfloat16,
    bool_,
    complex32,
    complex64,
    complex128,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)  # fmt: skip
from rushlight.base.errors import OutOfMemoryError
from rushlight.engine.realize import flush
from rushlight.engine.watch import change_family
from rushlight.ops.aten import Aten
from rushlight.tensors import (
    autocast,
    convert,
    families,
    functional_act,
    functions_math,
    methods,
)  # fmt: skip
from rushlight.tensors.argument_names import (
    LISTS,
    OVERLOADS,
    takes_dtype,
    with_other_names,
    with_python_types,
)
from rushlight.tensors.aten import finder
from rushlight.tensors.creation import (
    arange,
    default_dtype,
    empty,
    empty_like,
    empty_strided,
    eye,
    full,
    full_like,
    linspace,
    logspace,
    meshgrid,
    ones,
    ones_like,
    range_,
    set_default_dtype,
    zeros,
    zeros_like,
)
from rushlight.tensors.from_data import (
    as_tensor,
    asarray,
    from_dlpack,
    from_numpy,
    frombuffer,
    tensor,
)
from rushlight.tensors.functions_math import can_cast, cast_result_type, promote_dtypes
from rushlight.tensors.generator import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)  # fmt: skip
from rushlight.tensors.info import finfo, iinfo
from rushlight.tensors.layouts import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    preserve_format,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from rushlight.tensors.old_classes import OLD_CLASSES
from rushlight.tensors.printing import set_printoptions
from rushlight.tensors.size import Size
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor
from rushlight.tensors.type_names import TYPE_NAMES


def is_tensor(obj: Any) -> bool:
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> bool:
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    return input.is_complex()


def is_nonzero(input: Tensor) -> bool:
    return bool(input)


def is_storage(obj: Any) -> bool:
    return False


def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    return convert.clone(input, memory_format=memory_format)


def detach(input: Tensor) -> Tensor:
    return input.detach()


class _Flags:
    """Process-wide switches that change nothing here, but are remembered."""

    deterministic = False
    warn_only = False


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Accepted: results are always deterministic."""
    _Flags.deterministic, _Flags.warn_only = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    return _Flags.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    return _Flags.warn_only


MODES = ("default", "warn", "error")


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """0 or "default", 1 or "warn", 2 or "error": accepted, results are always deterministic."""
    mode = MODES.index(debug_mode) if debug_mode in MODES else debug_mode
    if mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected one of {MODES} or 0, 1, 2, but "
                           f"got {debug_mode}")  # fmt: skip
    use_deterministic_algorithms(mode != 0, warn_only=mode == 1)


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2: see `set_deterministic_debug_mode`."""
    return 0 if not _Flags.deterministic else 1 if _Flags.warn_only else 2


PRECISIONS = ("highest", "high", "medium")


def set_float32_matmul_precision(precision: str) -> None:
    """How exact matrix products of float32 are, from here on, on CPUs with AMX: "highest"
    (float32), "high" (each operand as two bfloat16) or "medium" (rounded to one). Sums are of
    float32 always. Convolutions that are computed as matrix products are meant too. Elsewhere
    float32 products are float32, which is as fast.

    Example:
        >>> torch.set_float32_matmul_precision("high")
        >>> torch.get_float32_matmul_precision()
        'high'
        >>> torch.set_float32_matmul_precision("highest")
    """
    if not isinstance(precision, str):
        raise RuntimeError(
            f"set_float32_matmul_precision expects a str, but got {type(precision).__name__}"
        )
    if precision not in PRECISIONS:
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current"
            "setFloat32MatmulPrecision call has no effect.",
            stacklevel=2,
        )
        return
    if precision == config.float32_products:
        return
    flush()  # what was recorded before has the old precision
    config.tell("float32_products", lambda: precision)
    change_family(0 if precision == config.outside("float32_products") else precision)


def get_float32_matmul_precision() -> str:
    return config.float32_products


def get_default_device() -> Any:
    return current_device()


def set_default_tensor_type(t: Any) -> None:
    name = t.rpartition(".")[2] if isinstance(t, str) else t.__name__
    set_default_dtype(TYPE_NAMES[name])


def get_default_dtype() -> DType:
    return default_dtype()


TABLE: dict[str, Any] = dict(methods.PUBLIC)
TABLE.update(families.FUNCTIONS)
TABLE.update(
    {alias: TABLE[name] for alias, name in functions_math.ALIASES.items() if name in TABLE}
)
# A sparse matrix by a dense one, which `mm` does too; they are no methods.
TABLE.update(spmm=TABLE["mm"], dsmm=TABLE["mm"])
TABLE.update(OLD_CLASSES)
TABLE.update(autocast.FUNCTIONS)
TABLE.update(by_name(
    is_tensor, is_floating_point, is_complex, is_nonzero, is_storage, clone, detach,
    use_deterministic_algorithms, are_deterministic_algorithms_enabled,
    is_deterministic_algorithms_warn_only_enabled, set_float32_matmul_precision,
    set_deterministic_debug_mode, get_deterministic_debug_mode,
    get_float32_matmul_precision, set_default_device, get_default_device, set_default_tensor_type,
    get_default_dtype, set_default_dtype, arange, as_tensor, asarray, empty, empty_strided, eye,
    frombuffer, from_dlpack, from_numpy, full, full_like, linspace, logspace, meshgrid, ones,
    ones_like, tensor, zeros, zeros_like, Generator, get_rng_state, initial_seed, manual_seed, seed,
    set_rng_state, finfo, iinfo, set_printoptions, Size, Tensor, enable_grad, inference_mode,
    is_grad_enabled, is_inference_mode_enabled, no_grad, set_grad_enabled, device,
    can_cast, flush,
))  # fmt: skip
TABLE.update({dtype.name: dtype for dtype in (
    bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
    complex32, complex64, complex128,
    float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz, float8_e8m0fnu,
)})  # fmt: skip
TABLE.update(by_name(
    functional_act.relu, functional_act.selu, functional_act.celu, functional_act.prelu,
    functional_act.rms_norm, functional_act.cosine_similarity, functional_act.pairwise_distance,
))  # fmt: skip
TABLE.update(
    empty_like=empty_like, default_generator=default_generator, strided=strided,
    sparse_coo=sparse_coo, sparse_csr=sparse_csr, sparse_csc=sparse_csc, sparse_bsr=sparse_bsr,
    sparse_bsc=sparse_bsc,
    channels_last=channels_last, channels_last_3d=channels_last_3d,
    contiguous_format=contiguous_format, preserve_format=preserve_format,
    range=range_, result_type=cast_result_type, promote_types=promote_dtypes, dtype=DType,
    bool=bool_, float=float32,
    double=float64, half=float16, cfloat=complex64,
    cdouble=complex128, chalf=complex32, long=int64, int=int32, short=int16, layout=type(strided),
    memory_format=type(contiguous_format), inf=float("inf"), nan=float("nan"),
    pi=math.pi, e=math.e, newaxis=None, OutOfMemoryError=OutOfMemoryError,
)  # fmt: skip
TABLE.update({
    name: with_python_types(value) for name, value in TABLE.items() if takes_dtype(value)
})  # fmt: skip
Aten.find = staticmethod(finder(TABLE))  # type: ignore[method-assign]
TABLE.update({
    name: with_other_names(TABLE[name], name) for name in (*OVERLOADS, *LISTS) if name in TABLE
})  # fmt: skip
