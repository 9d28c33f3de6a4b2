"""`torch.distributed` in a program that runs as one process; see README.md."""

from rushlight import names as _names
from rushlight.distributed.collectives import (
    P2POp,
    all_gather,
    all_gather_coalesced,
    all_gather_into_tensor,
    all_gather_object,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    batch_isend_irecv,
    broadcast,
    broadcast_object_list,
    gather,
    gather_object,
    irecv,
    isend,
    monitored_barrier,
    recv,
    recv_object_list,
    reduce,
    reduce_scatter,
    reduce_scatter_tensor,
    scatter,
    scatter_object_list,
    send,
    send_object_list,
)
from rushlight.distributed.debug import (
    DebugLevel,
    get_debug_level,
    set_debug_level,
    set_debug_level_from_env,
)
from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh
from rushlight.distributed.errors import (
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    QueueEmptyError,
)
from rushlight.distributed.group import (
    GroupMember,
    default_pg_timeout,
    destroy_process_group,
    get_backend,
    get_backend_config,
    get_default_backend_for_device,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_available,
    is_backend_available,
    is_gloo_available,
    is_initialized,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    is_ucc_available,
    is_xccl_available,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
    record_comm,
    split_group,
    supports_complex,
)
from rushlight.distributed.process_group import Backend, ProcessGroup, ReduceOp, Work
from rushlight.distributed.rendezvous import register_rendezvous_handler, rendezvous
from rushlight.distributed.store import FileStore, HashStore, PrefixStore, Store
from rushlight.distributed.tcp_store import TCPStore

__getattr__ = _names.getattr_of(__name__)
_all_gather_base, _reduce_scatter_base = all_gather_into_tensor, reduce_scatter_tensor
all_gather_single, reduce_scatter_single = all_gather_into_tensor, reduce_scatter_tensor
reduce_op = ReduceOp
__all__ = [
    "Backend", "DebugLevel", "DeviceMesh", "DistBackendError", "DistError", "DistNetworkError",
    "DistStoreError", "FileStore", "GroupMember", "HashStore", "P2POp", "PrefixStore",
    "ProcessGroup", "QueueEmptyError", "ReduceOp", "Store", "TCPStore", "Work", "_all_gather_base",
    "_reduce_scatter_base", "all_gather", "all_gather_coalesced", "all_gather_into_tensor",
    "all_gather_object", "all_gather_single", "all_reduce", "all_reduce_coalesced", "all_to_all",
    "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast", "broadcast_object_list",
    "default_pg_timeout", "destroy_process_group", "gather", "gather_object", "get_backend",
    "get_backend_config", "get_debug_level", "get_default_backend_for_device", "get_global_rank",
    "get_group_rank", "get_node_local_rank", "get_pg_count", "get_process_group_ranks", "get_rank",
    "get_world_size", "group", "init_device_mesh", "init_process_group", "irecv", "is_available",
    "is_backend_available", "is_gloo_available", "is_initialized", "is_mpi_available",
    "is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "is_xccl_available",
    "isend", "monitored_barrier", "new_group", "new_subgroups", "new_subgroups_by_enumeration",
    "record_comm", "recv", "recv_object_list", "reduce", "reduce_op", "reduce_scatter",
    "reduce_scatter_single", "reduce_scatter_tensor", "register_rendezvous_handler", "rendezvous",
    "scatter", "scatter_object_list", "send", "send_object_list", "set_debug_level",
    "set_debug_level_from_env", "split_group", "supports_complex",
]  # fmt: skip
