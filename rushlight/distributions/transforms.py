"""`torch.distributions.transforms`: maps with the logarithm of their Jacobian."""

from rushlight import names as _names
from rushlight.distributions.transforms_base import (
    ComposeTransform,
    Transform,
    _InverseTransform,
    identity_transform,
)
from rushlight.distributions.transforms_combine import (
    CatTransform,
    IndependentTransform,
    ReshapeTransform,
    StackTransform,
)
from rushlight.distributions.transforms_elementwise import (
    AbsTransform,
    AffineTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
)
from rushlight.distributions.transforms_elementwise import clipped_sigmoid as _clipped_sigmoid
from rushlight.distributions.transforms_matrix import (
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SoftmaxTransform,
    StickBreakingTransform,
)

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform",
    "LowerCholeskyTransform", "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform",
    "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StackTransform",
    "StickBreakingTransform", "TanhTransform", "Transform", "_InverseTransform",
    "_clipped_sigmoid", "identity_transform",
]  # fmt: skip
