"""Every function of nn.functional, from its families."""

from rushlight.tensors import (
    functional_act,
    functional_attention,
    functional_embedding,
    functional_image,
    functional_loss,
    functional_more,
    functional_resize,
    functional_sample,
    functions_copies,
    functions_grouped,
)
from rushlight.tensors.functional_act import *  # noqa: F403
from rushlight.tensors.functional_act import masked_softmax as masked_softmax
from rushlight.tensors.functional_attention import *  # noqa: F403
from rushlight.tensors.functional_embedding import *  # noqa: F403
from rushlight.tensors.functional_image import *  # noqa: F403
from rushlight.tensors.functional_loss import *  # noqa: F403
from rushlight.tensors.functional_more import *  # noqa: F403
from rushlight.tensors.functional_resize import *  # noqa: F403
from rushlight.tensors.functional_sample import *  # noqa: F403

channel_shuffle = functions_copies.channel_shuffle
grouped_mm = functions_grouped.grouped_mm
__all__ = sorted({
    "grouped_mm",
    *functional_act.__all__, *functional_attention.__all__, *functional_embedding.__all__,
    *functional_image.__all__,
    *functional_loss.__all__, *functional_more.__all__, *functional_resize.__all__,
    *functional_sample.__all__,
    "channel_shuffle",
})  # fmt: skip
