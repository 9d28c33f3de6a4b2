"""`torch.distributed.fsdp`: parameters that lie over the processes of a group; see ../README.md."""

from rushlight import names as _names
from rushlight.distributed.fsdp.api import (
    BackwardPrefetch,
    CPUOffload,
    CPUOffloadPolicy,
    DataParallelMeshDims,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    MixedPrecisionPolicy,
    OffloadPolicy,
    OptimStateDictConfig,
    OptimStateKeyType,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from rushlight.distributed.fsdp.fully_shard import (
    FSDPModule,
    UnshardHandle,
    fully_shard,
    register_fsdp_forward_method,
    share_comm_ctx,
)
from rushlight.distributed.fsdp.fully_sharded_data_parallel import FullyShardedDataParallel

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "BackwardPrefetch", "CPUOffload", "CPUOffloadPolicy", "DataParallelMeshDims", "FSDPModule",
    "FullOptimStateDictConfig", "FullStateDictConfig", "FullyShardedDataParallel",
    "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision", "MixedPrecisionPolicy",
    "OffloadPolicy", "OptimStateDictConfig", "OptimStateKeyType", "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig", "StateDictSettings",
    "StateDictType", "UnshardHandle", "fully_shard", "register_fsdp_forward_method",
    "share_comm_ctx",
]  # fmt: skip
