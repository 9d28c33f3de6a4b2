"""`torch.library`: operators that users make, found again as `torch.ops.space.name`."""

from rushlight import names as _names
from rushlight.library.check import OpCheckError, opcheck
from rushlight.library.define import (
    CustomOpDef,
    Library,
    custom_op,
    define,
    fallthrough_kernel,
    impl,
    impl_abstract,
    register_autocast,
    register_autograd,
    register_fake,
    register_kernel,
    register_vmap,
    triton_op,
    wrap_triton,
)
from rushlight.library.schema import infer_schema

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "CustomOpDef", "Library", "OpCheckError", "custom_op", "define", "fallthrough_kernel", "impl",
    "impl_abstract", "infer_schema", "opcheck", "register_autocast", "register_autograd",
    "register_fake", "register_kernel", "register_vmap", "triton_op", "wrap_triton",
]  # fmt: skip
