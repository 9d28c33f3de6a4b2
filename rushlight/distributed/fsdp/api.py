"""The records and choices of FSDP: what programs pass and read."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import rushlight as torch
from rushlight.names import getattr_of as _getattr_of

__getattr__ = _getattr_of(__name__)

__all__ = [
    "BackwardPrefetch", "CPUOffload", "FullOptimStateDictConfig", "FullStateDictConfig",
    "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision", "OptimStateDictConfig",
    "ShardedOptimStateDictConfig", "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig",
    "StateDictSettings", "StateDictType",
]  # fmt: skip


class ShardingStrategy(enum.Enum):
    """What is cut into parts. In a group of one nothing is: all become NO_SHARD."""

    FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD, _HYBRID_SHARD_ZERO2 = 1, 2, 3, 4, 5


class BackwardPrefetch(enum.Enum):
    """When the next parameters are brought together; nothing is sent in a group of one."""

    BACKWARD_PRE, BACKWARD_POST = 1, 2


class StateDictType(enum.Enum):
    """How state dicts look: whole tensors, or parts."""

    FULL_STATE_DICT, LOCAL_STATE_DICT, SHARDED_STATE_DICT = 1, 2, 3


class OptimStateKeyType(enum.Enum):
    """What the states of an optimizer are keyed by."""

    PARAM_NAME, PARAM_ID = 1, 2


@dataclass
class MixedPrecision:
    """The dtypes of parameters in forward and backward, of gradients on the way, of buffers."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type] = field(
        default_factory=lambda: (torch.nn.modules.batchnorm._BatchNorm,)
    )


@dataclass
class CPUOffload:
    """Are parameters kept on the CPU? They are."""

    offload_params: bool = False


@dataclass
class StateDictConfig:
    """How a state dict is made."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Whole tensors; on process 0 only with `rank0_only`."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """This process's parts."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Parts that know their place."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """How an optimizer's state dict is made."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Whole tensors; on process 0 only with `rank0_only`."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """This process's parts."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Parts that know their place."""

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """The kind of state dict with the settings of both."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The dtypes of `fully_shard`: of parameters, of gradients on the way, of results."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Nothing is offloaded."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parts are kept on the CPU, where all is."""

    pin_memory: bool = True


@dataclass(frozen=True)
class DataParallelMeshDims:
    """The names of the mesh's axes along which data differ."""

    shard: Any = None
    replicate: Any = None
