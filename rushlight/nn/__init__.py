"""`torch.nn`: modules, layers, losses, initialization."""

from rushlight import names as _names
from rushlight.losses import LinearCrossEntropyOptions
from rushlight.nn import functional, init, utils
from rushlight.nn.activation import (
    GELU,
    GLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    Sigmoid,
    SiLU,
    Softmax,
    Softmax2d,
    Softmin,
    Softplus,
    Softsign,
    Tanh,
    Tanhshrink,
)
from rushlight.nn.batchnorm import BatchNorm1d, BatchNorm2d
from rushlight.nn.containers import ModuleDict, ModuleList, Sequential
from rushlight.nn.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from rushlight.nn.distance import CosineSimilarity, PairwiseDistance
from rushlight.nn.dropout import Dropout, Dropout1d, Dropout2d, Dropout3d
from rushlight.nn.embedding import Embedding
from rushlight.nn.flatten import Flatten, Unflatten
from rushlight.nn.linear import Bilinear, Identity, Linear
from rushlight.nn.linear_cross_entropy import LinearCrossEntropyLoss
from rushlight.nn.loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,
)
from rushlight.nn.module import Module
from rushlight.nn.multihead_attention import MultiheadAttention
from rushlight.nn.normalization import GroupNorm, LayerNorm, RMSNorm
from rushlight.nn.padding import ConstantPad2d, PixelShuffle, ZeroPad2d
from rushlight.nn.parameter import Buffer, Parameter
from rushlight.nn.parameter_containers import ParameterDict, ParameterList
from rushlight.nn.pooling import AdaptiveAvgPool2d, AvgPool2d, MaxPool2d
from rushlight.nn.rectifiers import (
    CELU,
    ELU,
    SELU,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    PReLU,
    ReLU,
    ReLU6,
    RReLU,
    Softshrink,
    Threshold,
)

__getattr__ = _names.getattr_of(__name__)

__all__ = [
    "AdaptiveAvgPool2d",
    "AvgPool2d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "Bilinear",
    "Buffer",
    "CELU",
    "ConstantPad2d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "ELU",
    "Embedding",
    "Flatten",
    "GELU",
    "GLU",
    "GroupNorm",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "HuberLoss",
    "Identity",
    "KLDivLoss",
    "L1Loss",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LinearCrossEntropyLoss",
    "LinearCrossEntropyOptions",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MaxPool2d",
    "Mish",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiheadAttention",
    "NLLLoss",
    "PReLU",
    "PairwiseDistance",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "PixelShuffle",
    "RMSNorm",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SELU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
    "Unflatten",
    "ZeroPad2d",
    "functional",
    "init",
    "utils",
]
