"""FSDP in a group of one: a wrapped model trains as the plain one does."""

import copy
import functools
import warnings

import pytest

import rushlight as torch
from rushlight.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    CheckpointWrapper,
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from rushlight.distributed.fsdp import (
    FSDPModule,
    FullStateDictConfig,
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    StateDictType,
    fully_shard,
)
from rushlight.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from rushlight.distributed.fsdp.wrap import (
    CustomPolicy,
    ModuleWrapPolicy,
    enable_wrap,
    lambda_auto_wrap_policy,
    size_based_auto_wrap_policy,
    transformer_auto_wrap_policy,
    wrap,
)
from rushlight.distributed.optim import ZeroRedundancyOptimizer
from rushlight.distributed.tensor import DTensor, Shard


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(2)])
        self.out = torch.nn.Linear(4, 2)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return self.out(x)


@pytest.fixture
def nets(group):
    torch.manual_seed(0)
    first = Net()
    return first, copy.deepcopy(first), torch.randn(3, 4)


def train(model, x, steps=3, optimizer=torch.optim.AdamW):
    step = optimizer(model.parameters(), lr=0.05)
    for _ in range(steps):
        loss = model(x).float().square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        step.step()
        step.zero_grad()
    return loss.item()


def shard_all(model, **settings):
    for layer in model.layers:
        fully_shard(layer, **settings)
    return fully_shard(model, **settings)


def test_fully_shard_trains_as_the_plain_model(nets):
    model, plain, x = nets
    shard_all(model)
    assert type(model).__name__ == "FSDPNet" and isinstance(model, Net)
    assert isinstance(model.layers[0], FSDPModule)
    for param in model.parameters():
        assert isinstance(param, DTensor) and isinstance(param, torch.nn.Parameter)
        assert param.placements == (Shard(0),)
    assert train(model, x) == train(plain, x)
    for key, value in plain.state_dict().items():
        assert torch.equal(model.state_dict()[key].full_tensor(), value)
    assert isinstance(next(model.parameters()), DTensor)
    model.unshard()
    assert not isinstance(model.out.weight, DTensor)
    model.reshard()
    assert isinstance(model.out.weight, DTensor)


def test_fully_shard_after_an_error_and_with_checkpointing(nets):
    model, plain, x = nets
    apply_activation_checkpointing(model, check_fn=lambda m: m in list(model.layers))
    for layer in model.layers:
        fully_shard(layer)  # the checkpoint is inside: its second run has laid out parameters
    fully_shard(model)
    with pytest.raises(RuntimeError):
        model(torch.randn(3, 5))
    assert isinstance(model.out.weight, DTensor)
    assert train(model, x) == train(plain, x)


def test_mixed_precision_casts_on_the_way(nets):
    model, plain, x = nets
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32, output_dtype=torch.float32)
    fully_shard(model, mp_policy=policy)
    seen = []
    model.out.register_forward_hook(lambda m, a, y: seen.append((a[0].dtype, y.dtype)))
    y = model(x)
    y.sum().backward()
    assert seen == [(torch.bfloat16, torch.bfloat16)] and y.dtype == torch.float32
    assert model.out.weight.grad.dtype == torch.float32
    wrapped = FullyShardedDataParallel(
        plain, mixed_precision=MixedPrecision(param_dtype=torch.bfloat16),
        sharding_strategy=ShardingStrategy.NO_SHARD,
    )  # fmt: skip
    assert wrapped(x).dtype == torch.bfloat16 and plain.out.weight.dtype == torch.float32


def test_refusals(nets):
    model, _, _ = nets
    fully_shard(model)
    with pytest.raises(ValueError, match="already been applied"):
        fully_shard(model)
    with pytest.raises(ValueError, match="do not implement forward"):
        fully_shard(torch.nn.ModuleList([torch.nn.Linear(1, 1)]))


def wrap_all(model, policy, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return FullyShardedDataParallel(model, auto_wrap_policy=policy, **settings)


def test_wrapper_trains_and_hides_in_names(nets):
    model, plain, x = nets
    with pytest.warns(UserWarning, match="NO_SHARD"):
        FullyShardedDataParallel(torch.nn.Linear(1, 1))
    policy = functools.partial(
        transformer_auto_wrap_policy, transformer_layer_cls={torch.nn.Linear}
    )
    wrapped = wrap_all(model, policy)
    assert wrapped.module is model and len(FullyShardedDataParallel.fsdp_modules(wrapped)) == 4
    assert train(wrapped, x) == train(plain, x)
    assert list(wrapped.state_dict()) == list(plain.state_dict())
    wrapped.load_state_dict(plain.state_dict())
    config = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
    kind = FullyShardedDataParallel.state_dict_type
    with kind(wrapped, StateDictType.FULL_STATE_DICT, config):
        assert FullyShardedDataParallel.get_state_dict_type(wrapped).state_dict_config is config
    with FullyShardedDataParallel.summon_full_params(wrapped):
        names = [name for name, _ in wrapped.named_parameters()]
    assert names == [name for name, _ in plain.named_parameters()]


def test_optimizer_state_by_names(nets):
    model, _, x = nets
    wrapped = wrap_all(model, ModuleWrapPolicy({torch.nn.Linear}))
    step = torch.optim.Adam(wrapped.parameters(), lr=0.1)
    wrapped(x).sum().backward()
    step.step()
    named = FullyShardedDataParallel.optim_state_dict(wrapped, step)
    assert named["state"]["layers.0.weight"]["exp_avg"].shape == (4, 4)
    back = FullyShardedDataParallel.optim_state_dict_to_load(wrapped, step, named)
    assert back["param_groups"] == step.state_dict()["param_groups"]
    step.load_state_dict(back)


@pytest.mark.parametrize(
    ("policy", "units"),
    [
        (ModuleWrapPolicy({torch.nn.Linear}), 4),
        (functools.partial(size_based_auto_wrap_policy, min_num_params=15), 3),
        (functools.partial(lambda_auto_wrap_policy, lambda_fn=lambda m: False), 1),
        (CustomPolicy(lambda m: isinstance(m, torch.nn.Linear) and m.out_features == 2), 2),
    ],
)
def test_policies(nets, policy, units):
    assert len(FullyShardedDataParallel.fsdp_modules(wrap_all(nets[0], policy))) == units


def test_enable_wrap(group):
    with enable_wrap(wrapper_cls=checkpoint_wrapper, checkpoint_impl=CheckpointImpl.REENTRANT):
        assert isinstance(wrap(torch.nn.Linear(1, 1)), CheckpointWrapper)
    assert isinstance(wrap(torch.nn.Linear(1, 1)), torch.nn.Linear)


@pytest.mark.parametrize("impl", list(CheckpointImpl))
def test_checkpoint_wrappers_compute_again(nets, impl):
    model, plain, x = nets
    make = functools.partial(checkpoint_wrapper, checkpoint_impl=impl)
    apply_activation_checkpointing(model, make, lambda m: isinstance(m, torch.nn.Linear))
    calls = []
    model.out.register_forward_hook(lambda *_: None)
    model.out._checkpoint_wrapped_module.register_forward_hook(lambda *_: calls.append(1))
    assert list(model.state_dict()) == list(plain.state_dict())
    model.load_state_dict(plain.state_dict())
    x = x.requires_grad_()
    model(x).sum().backward()
    assert len(calls) == 2
    plain(x).sum().backward()
    assert torch.equal(model.out.weight.grad, plain.out.weight.grad)


def test_zero_redundancy_optimizer(nets):
    model, plain, x = nets
    make = functools.partial(ZeroRedundancyOptimizer, optimizer_class=torch.optim.AdamW)
    assert train(model, x, optimizer=make) == train(plain, x)


def test_sharded_grad_scaler(group):
    scaler = ShardedGradScaler("cpu", init_scale=4.0)
    assert scaler.scale(torch.ones(())).item() == 4


def test_compiled_sharded_model(nets):
    model, plain, x = nets
    shard_all(model)
    compiled = torch.compile(model)
    for _ in range(4):
        assert torch.equal(compiled(x), plain(x))
