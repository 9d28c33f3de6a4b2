"""FullyShardedDataParallel: the wrapper whose parameters lie over the processes of a group.

In a group of one nothing is cut, as in PyTorch (NO_SHARD). Parameters stay the module's own: they
are not joined into one flat tensor, so `use_orig_params` has no effect.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import rushlight as torch
from rushlight import names as _names
from rushlight.distributed.fsdp import optim_state
from rushlight.distributed.fsdp.api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    OptimStateKeyType,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictSettings,
    StateDictType,
)
from rushlight.distributed.fsdp.unit import Unit, cast_tensors
from rushlight.distributed.fsdp.wrap import wrap_below
from rushlight.distributed.group import require_group
from rushlight.distributed.prefixes import FSDP_WRAPPED, hide_in_state_dict, without
from rushlight.nn.modules.module import Module

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "FullyShardedDataParallel", "OptimStateKeyType", "BackwardPrefetch", "CPUOffload",
    "MixedPrecision", "ShardingStrategy", "StateDictType", "FullStateDictConfig",
]  # fmt: skip

_CONFIGS = {
    StateDictType.FULL_STATE_DICT: (FullStateDictConfig, FullOptimStateDictConfig),
    StateDictType.LOCAL_STATE_DICT: (LocalStateDictConfig, LocalOptimStateDictConfig),
    StateDictType.SHARDED_STATE_DICT: (ShardedStateDictConfig, ShardedOptimStateDictConfig),
}


class FullyShardedDataParallel(Module):
    """The module under the name `_fsdp_wrapped_module`; its attributes can be had from the wrapper.

    auto_wrap_policy: which modules below become units of their own (`wrap.py`). mixed_precision:
    dtypes while it runs. Raises ValueError without a process group.

    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> strategy = dist.fsdp.ShardingStrategy.NO_SHARD
    >>> model = FullyShardedDataParallel(torch.nn.Linear(3, 2), sharding_strategy=strategy)
    >>> model(torch.ones(1, 3)).shape
    torch.Size([1, 2])
    >>> dist.destroy_process_group()
    """

    def __init__(
        self, module: Module, process_group: Any = None,
        sharding_strategy: ShardingStrategy | None = None, cpu_offload: CPUOffload | None = None,
        auto_wrap_policy: Callable[..., Any] | None = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None, ignored_modules: Any = None,
        param_init_fn: Callable[[Module], None] | None = None, device_id: Any = None,
        sync_module_states: bool = False, forward_prefetch: bool = False,
        limit_all_gathers: bool = True, use_orig_params: bool = False, ignored_states: Any = None,
        device_mesh: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.process_group = require_group(process_group)
        wanted = sharding_strategy or ShardingStrategy.FULL_SHARD
        if wanted is not ShardingStrategy.NO_SHARD:
            warnings.warn(
                f"FSDP is switching to use `NO_SHARD` instead of {wanted} since the world size is "
                "1.",
                stacklevel=2,
            )
        self.sharding_strategy, self.training_state = ShardingStrategy.NO_SHARD, None
        self.mixed_precision = mixed_precision or MixedPrecision()
        self.cpu_offload = cpu_offload or CPUOffload()
        self._settings = StateDictSettings(
            StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig()
        )
        ignored = [m for m in (*(ignored_modules or ()), *(ignored_states or ()))
                   if isinstance(m, Module)]  # fmt: skip
        if param_init_fn is not None:
            for inner in module.modules():
                if any(t.is_meta for t in inner.parameters(recurse=False)):
                    param_init_fn(inner)
        if auto_wrap_policy is not None:
            self._wrap_below(module, auto_wrap_policy, ignored, locals())
        self._fsdp_wrapped_module = module
        skipped = {id(p) for inner in ignored for p in inner.parameters()}
        skipped |= {id(p) for p in ignored_states or () if not isinstance(p, Module)}
        self._unit = self._make_unit(module, frozenset(skipped))
        self._cast_buffers(module)
        hide_in_state_dict(self, FSDP_WRAPPED)

    @staticmethod
    def _wrap_below(module: Any, policy: Any, ignored: list[Any], settings: dict) -> None:
        passed = {key: settings[key] for key in (
            "process_group", "cpu_offload", "backward_prefetch", "mixed_precision",
            "ignored_modules", "param_init_fn", "device_id", "forward_prefetch",
            "limit_all_gathers", "use_orig_params")}  # fmt: skip

        def make(inner: Any, **more: Any) -> Any:
            with warnings.catch_warnings():  # once, for the whole
                warnings.simplefilter("ignore")
                return FullyShardedDataParallel(inner, **{**passed, **more})

        wrap_below(module, policy, make, ignored)

    def _make_unit(self, module: Any, skipped: frozenset[int]) -> Unit:
        own: list[Any] = []
        waiting = [module]
        while waiting:
            inner = waiting.pop()
            if not isinstance(inner, FullyShardedDataParallel) and inner not in own:
                own.append(inner)
                waiting += [child for child in inner._modules.values() if child is not None]
        kept = tuple(self.mixed_precision._module_classes_to_ignore)
        cast = [inner for inner in own if not isinstance(inner, kept)]
        return Unit(
            cast, self.mixed_precision.param_dtype, self.mixed_precision.reduce_dtype, skipped
        )

    def _cast_buffers(self, module: Any) -> None:
        if self.mixed_precision.buffer_dtype is not None:
            for inner in module.modules():
                inner._buffers.update(
                    cast_tensors(dict(inner._buffers), self.mixed_precision.buffer_dtype)
                )

    # Calling ------------------------------------------------------------------------------

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module; parameters and inputs have the dtypes of `mixed_precision`."""
        if not self._unit.changes:
            return self._fsdp_wrapped_module(*args, **kwargs)
        policy = self.mixed_precision
        if policy.cast_root_forward_inputs or policy.cast_forward_inputs:
            args = cast_tensors(args, policy.param_dtype)
            kwargs = cast_tensors(kwargs, policy.param_dtype)
        with self._unit.together():
            return self._fsdp_wrapped_module(*args, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, gradients are added up without being sent."""
        yield

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Any:
        """Scale the gradients of all parameters; gives their norm before."""
        return torch.nn.utils.clip_grad_norm_(self.parameters(), max_norm, norm_type)

    def register_comm_hook(self, state: Any, hook: Callable[..., Any]) -> None:
        """Accepted: no gradient is sent, so no hook is called."""
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")

    # The tree -----------------------------------------------------------------------------

    @property
    def module(self) -> Module:
        """The module that is wrapped."""
        inner = self._modules["_fsdp_wrapped_module"]
        return getattr(inner, "_checkpoint_wrapped_module", inner)

    def __getattr__(self, name: str) -> Any:
        """Of the wrapper, else of the module."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_fsdp_wrapped_module"), name)

    def __getitem__(self, key: Any) -> Any:
        """Of the module: a Sequential."""
        return self.module[key]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """As of every module; without the wrappers' parts inside `summon_full_params`."""
        named = super().named_parameters(*args, **kwargs)
        return without(FSDP_WRAPPED, named) if self.training_state == "summon" else named

    def check_is_root(self) -> bool:
        """Is this no part of another unit? True: units do not know what holds them."""
        return True

    @staticmethod
    def fsdp_modules(module: Any, root_only: bool = False) -> list[FullyShardedDataParallel]:
        """The units in a tree of modules."""
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        if not root_only:
            return found
        inner = {id(m) for unit in found for m in unit.modules() if m is not unit}
        return [unit for unit in found if id(unit) not in inner]

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(
        module: Any, recurse: bool = True, writeback: bool = True, rank0_only: bool = False,
        offload_to_cpu: bool = False, with_grads: bool = False,
    ) -> Iterator[None]:  # fmt: skip
        """Inside, parameters are whole (they are) and have the module's names."""
        units = FullyShardedDataParallel.fsdp_modules(module)
        for unit in units:
            unit.training_state = "summon"
        try:
            yield
        finally:
            for unit in units:
                unit.training_state = None

    # State dicts --------------------------------------------------------------------------

    @staticmethod
    def get_state_dict_type(module: Any) -> StateDictSettings:
        """The kind of state dict that is set."""
        units = FullyShardedDataParallel.fsdp_modules(module)
        if units:
            return units[0]._settings
        kind = StateDictType.FULL_STATE_DICT
        return StateDictSettings(kind, FullStateDictConfig(), FullOptimStateDictConfig())

    @staticmethod
    def set_state_dict_type(
        module: Any, state_dict_type: StateDictType, state_dict_config: Any = None,
        optim_state_dict_config: Any = None,
    ) -> StateDictSettings:  # fmt: skip
        """Set the kind of state dict; gives the settings before. All kinds are whole here."""
        before = FullyShardedDataParallel.get_state_dict_type(module)
        kinds = _CONFIGS[state_dict_type]
        given = (state_dict_config or kinds[0](), optim_state_dict_config or kinds[1]())
        for config, kind in zip(given, kinds, strict=True):
            if type(config) is not kind:
                raise RuntimeError(
                    f"Expected state_dict_config of type {kind} but got {type(config)}"
                )
        for unit in FullyShardedDataParallel.fsdp_modules(module):
            unit._settings = StateDictSettings(state_dict_type, *given)
        return before

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(
        module: Any, state_dict_type: StateDictType, state_dict_config: Any = None,
        optim_state_dict_config: Any = None,
    ) -> Iterator[None]:  # fmt: skip
        """Inside, state dicts are of this kind."""
        before = FullyShardedDataParallel.set_state_dict_type(
            module, state_dict_type, state_dict_config, optim_state_dict_config
        )
        try:
            yield
        finally:
            FullyShardedDataParallel.set_state_dict_type(
                module, before.state_dict_type, before.state_dict_config,
                before.optim_state_dict_config,
            )  # fmt: skip

    @staticmethod
    def optim_state_dict(
        model: Any, optim: Any, optim_state_dict: Any = None, group: Any = None
    ) -> dict[str, Any]:
        """The optimizer's state by names of parameters."""
        return optim_state.by_name(model, optim, optim_state_dict)

    @staticmethod
    def full_optim_state_dict(
        model: Any, optim: Any, optim_input: Any = None, rank0_only: bool = True, group: Any = None
    ) -> dict[str, Any]:
        """The optimizer's state by names of parameters."""
        return optim_state.by_name(model, optim)

    sharded_optim_state_dict = full_optim_state_dict

    @staticmethod
    def optim_state_dict_to_load(
        model: Any, optim: Any, optim_state_dict: dict[str, Any], is_named_optimizer: bool = False,
        load_directly: bool = False, group: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
        """What `optim.load_state_dict` takes, of a state by names."""
        made = optim_state.by_number(model, optim, optim_state_dict)
        if load_directly:
            optim.load_state_dict(made)
        return made

    @staticmethod
    def flatten_sharded_optim_state_dict(
        sharded_optim_state_dict: dict[str, Any], model: Any, optim: Any
    ) -> dict[str, Any]:
        """What `optim.load_state_dict` takes, of a state by names."""
        return optim_state.by_number(model, optim, sharded_optim_state_dict)

    @staticmethod
    def shard_full_optim_state_dict(
        full_optim_state_dict: dict[str, Any], model: Any, optim_input: Any = None,
        optim: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
        """What `optim.load_state_dict` takes, of a state by names."""
        if optim is None:
            raise ValueError("shard_full_optim_state_dict: give optim")
        return optim_state.by_number(model, optim, full_optim_state_dict)

    scatter_full_optim_state_dict = shard_full_optim_state_dict

    @staticmethod
    def rekey_optim_state_dict(
        optim_state_dict: dict[str, Any], optim_state_key_type: OptimStateKeyType, model: Any,
        optim_input: Any = None, optim: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
        """The state by names or by numbers, as wanted."""
        if optim is None:
            optim = torch.optim.SGD(optim_input or model.parameters(), lr=0.1)
        if optim_state_key_type is OptimStateKeyType.PARAM_NAME:
            return optim_state.by_name(model, optim, optim_state_dict)
        return optim_state.by_number(model, optim, optim_state_dict)
