"""What of PyTorch is not supported on purpose or not yet, and what to use in its place.

`REFUSED`: a name, or a module whose names cannot be had. `STAND_INS`: modules that packages import
long before they need them; there each name is a stand-in that can be named, subclassed and asked
about (`isinstance` says no), and raises when it is called.
"""

from __future__ import annotations

REFUSED: dict[str, str] = {
    "torch.nested": "there are no nested tensors; use torch.nn.utils.rnn.pad_sequence and masks, "
    "or flex_attention with a document mask",
}
_QUANTIZED = "there are no quantized dtypes"
_ONE_PROCESS = "it is for several processes, and groups of more than one are not there yet"
# A module, for all modules below it too -> the reason.
STAND_INS: dict[str, str] = {
    "torch.utils.cpp_extension": "tensors have no C++ classes; torch.library.custom_op makes an "
    "operator of a Python function",
    "torch.ao": _QUANTIZED,
    "torch.quantization": _QUANTIZED,
    "torch.nn.quantized": _QUANTIZED,
    "torch.nn.intrinsic": _QUANTIZED,
    "torch.distributed": _ONE_PROCESS,
    "torch.fx.experimental": "graphs are made by torch.fx.symbolic_trace",
    "torch.fx.passes": "graphs are made by torch.fx.symbolic_trace; a pass is your own function",
    "torch._subclasses": "no tensor is fake: use the device 'meta' for tensors without data",
}
# Single names that are compared with and looked up in tables, long before they are needed.
STAND_IN_NAMES: dict[str, str] = {
    **dict.fromkeys(
        (f"torch.{name}" for name in """qint8 quint8 qint32 quint4x2 quint2x4 per_tensor_affine
        per_channel_affine per_tensor_symmetric per_channel_symmetric""".split()), _QUANTIZED
    ),
    **dict.fromkeys(
        (f"torch.{sign}int{bits}" for sign in ("u", "") for bits in range(1, 8)),
        "integers have 8 bits or more",
    ),
    "torch.jagged": REFUSED["torch.nested"],
    **dict.fromkeys((f"torch.{name}" for name in """AliasDb AnyType Argument ArgumentSpec AwaitType
        Block BoolType Capsule ClassType Code CompilationUnit ComplexType DeviceObjType DictType
        EnumType FloatType FunctionSchema FutureType InferredType IntType InterfaceType ListType
        LiteScriptModule NoneType NumberType OptionalType PyObjectType RRefType ScriptClass
        ScriptDict ScriptList ScriptObject StreamObjType StringType SymBoolType SymIntType
        TensorType TupleType UnionType Use Value""".split()), "there is no TorchScript"),
    "torch.PyTorchFileReader": "torch.load reads files",
    "torch.PyTorchFileWriter": "torch.save writes files",
}  # fmt: skip
# Questions about parts that are not there, which are asked before they are used.
ANSWERS = {"is_available": False, "is_initialized": False, "get_proxy_mode": None}
# Decorators that packages put on their functions when they are imported: what is decorated refuses.
DECORATORS = frozenset(("_require_initialized",))


def stand_in_reason(module: str) -> str:
    """Why the names of a module of PyTorch's are stand-ins; "" if they are not."""
    while module:
        if module in STAND_INS:
            return STAND_INS[module]
        module = module.rpartition(".")[0]
    return ""
