"""Every function of nn.functional, from its three families."""

from rushlight.tensors import functional_act, functional_image, functional_loss
from rushlight.tensors.functional_act import *  # noqa: F403
from rushlight.tensors.functional_act import masked_softmax as masked_softmax
from rushlight.tensors.functional_image import *  # noqa: F403
from rushlight.tensors.functional_loss import *  # noqa: F403

__all__ = [*functional_act.__all__, *functional_image.__all__, *functional_loss.__all__]
