"""What of PyTorch is not supported on purpose, and what to use in its place.

A key is a name of PyTorch, or a module: then it holds for all names in it.
"""

from __future__ import annotations

REFUSED: dict[str, str] = {
    "torch.nested": "there are no nested tensors; use torch.nn.utils.rnn.pad_sequence and masks, "
    "or flex_attention with a document mask",
    "torch.onnx": "models are not exported to ONNX",
}
