"""What of PyTorch is not supported on purpose or not yet, and what to use in its place.

`REFUSED`: a name, or a module whose names cannot be had. `STAND_INS`: modules that packages import
long before they need them; there each name is a stand-in that can be named, subclassed and asked
about (`isinstance` says no), and raises when it is called.
"""

from __future__ import annotations

REFUSED: dict[str, str] = {
    "torch.nested": "there are no nested tensors; use torch.nn.utils.rnn.pad_sequence and masks, "
    "or flex_attention with a document mask",
    "torch.export": "programs are not exported yet; torch.fx.symbolic_trace gives a graph of "
    "calls, torch.compile runs a program as one",
}
_QUANTIZED = "there are no quantized dtypes"
_ONE_PROCESS = "programs run as one process; groups of more are not there yet"
# A module, for all modules below it too -> the reason.
STAND_INS: dict[str, str] = {
    "torch.ao": _QUANTIZED,
    "torch.quantization": _QUANTIZED,
    "torch.nn.quantized": _QUANTIZED,
    "torch.nn.intrinsic": _QUANTIZED,
    "torch.distributed": _ONE_PROCESS,
    "torch._subclasses": "no tensor is fake: use the device 'meta' for tensors without data",
}


def stand_in_reason(module: str) -> str:
    """Why the names of a module of PyTorch's are stand-ins; "" if they are not."""
    while module:
        if module in STAND_INS:
            return STAND_INS[module]
        module = module.rpartition(".")[0]
    return ""
