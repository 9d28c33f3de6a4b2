"""`torch.optim.lr_scheduler`: learning rate schedules."""

from rushlight import names as _names
from rushlight.optim.lr_scheduler.base import LRScheduler
from rushlight.optim.lr_scheduler.base import _LRScheduler as _LRScheduler
from rushlight.optim.lr_scheduler.compose import ChainedScheduler, SequentialLR
from rushlight.optim.lr_scheduler.cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from rushlight.optim.lr_scheduler.cycles import CyclicLR, OneCycleLR
from rushlight.optim.lr_scheduler.factors import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from rushlight.optim.lr_scheduler.plateau import ReduceLROnPlateau

__getattr__ = _names.getattr_of(__name__)

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]
