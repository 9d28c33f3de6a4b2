"""Inner names that packages import from modules of PyTorch where they are not at home."""

import importlib

import pytest

import rushlight as torch
from rushlight.utils.data.dataloader import DataLoader

NAMES = {
    "nn.modules.rnn": "LSTMCell RNNCellBase Tensor",
    "nn.modules.dropout": "Module",
    "nn.modules.conv": "_pair _single _ConvTransposeMixin _ConvTransposeNd LazyConv2d",
    "nn.modules.pooling": "_MaxPoolNd _AvgPoolNd _AdaptiveAvgPoolNd _AdaptiveMaxPoolNd _triple",
    "nn.modules.transformer": "xavier_uniform_ MultiheadAttention",
    "nn.parameter": "_ParameterMeta",
    "nn._reduction": "get_enum legacy_get_string legacy_get_enum",
    "optim.adam": "Optimizer Tensor _get_value _dispatch_sqrt",
    "optim.optimizer": """_use_grad_for_differentiable _default_to_fused_or_foreach
        _stack_if_compiling _disable_dynamo_if_unsupported _to_scalar _get_scalar_dtype
        _view_as_real required""",
    "distributions.multivariate_normal": """_batch_mahalanobis _batch_mv _precision_to_scale_tril
        MultivariateNormal _standard_normal""",
    "distributions.normal": "broadcast_all Tensor",
    "distributions.transforms": "_clipped_sigmoid",
    "utils.data.dataloader": "_DatasetKind _MultiProcessingDataLoaderIter",
    "utils.data._utils.pin_memory": "pin_memory",
    "cuda.amp.grad_scaler": "OptState GradScaler",
    "cuda.memory": "memory_allocated",
    "nn.modules.padding": "_ConstantPadNd _CircularPadNd _pair",
}


@pytest.mark.parametrize("module", NAMES)
def test_names_are_found(module):
    found = importlib.import_module(f"rushlight.{module}")
    missing = [name for name in NAMES[module].split() if not hasattr(found, name)]
    assert not missing
    assert not hasattr(found, "no_such_name")


def test_types_of_torchscript_can_be_named():
    def annotated(x: torch.TensorType | None = None) -> None:
        """Packages do this."""

    assert not isinstance(1, torch.DictType)
    with pytest.raises(NotImplementedError, match="TorchScript"):
        torch.TensorType()


def test_an_optimizer_made_of_helpers():
    helpers = importlib.import_module("rushlight.optim.optimizer")

    class Own(torch.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 0.1, "differentiable": False})

        @helpers._use_grad_for_differentiable
        def step(self):
            assert not torch.is_grad_enabled()
            for param in self.param_groups[0]["params"]:
                param.sub_(param.grad / helpers._dispatch_sqrt(torch.tensor(4.0)))

    weight = torch.ones(2, requires_grad=True)
    weight.sum().backward()
    Own([weight]).step()
    assert weight.tolist() == [0.5, 0.5]
    assert helpers._get_value(torch.tensor(2)) == 2 and helpers._dispatch_sqrt(9) == 3
    assert helpers._default_to_fused_or_foreach([weight], False) == (False, False)
    assert helpers._to_scalar(torch.ones(1)).dim() == 0
    parts = [torch.tensor([1 + 2j])]
    helpers._view_as_real(parts)
    assert parts[0].tolist() == [[1.0, 2.0]]
    reduction = importlib.import_module("rushlight.nn._reduction")
    assert reduction.legacy_get_string(False, True, emit_warning=False) == "sum"
    assert reduction.legacy_get_enum(None, False, False) == 0 and reduction.get_enum("mean") == 1


class Loader:
    """What fastai gives to the iterators of a DataLoader."""

    timeout, pin_memory, generator, prefetch_factor, worker_init_fn = 0, False, None, 2, None
    _auto_collation, drop_last, collate_fn = False, False, staticmethod(lambda batch: batch)
    secret = 7

    def __init__(self, num_workers):
        self.num_workers, self.dataset = num_workers, self
        self._dataset_kind = torch.utils.data.dataloader._DatasetKind.Iterable

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        assert info is None or info.dataset.secret == 7
        step, start = (1, 0) if info is None else (info.num_workers, info.id)
        return iter([torch.full((2,), i) for i in range(start, 5, step)])


@pytest.mark.parametrize("workers", [0, 2])
def test_loaders_of_other_packages_can_be_iterated(workers):
    module = importlib.import_module("rushlight.utils.data.dataloader")
    kind = (module._SingleProcessDataLoaderIter, module._MultiProcessingDataLoaderIter)[workers > 0]
    found = [batch[0].item() for batch in kind(Loader(workers))]
    assert sorted(found) == [0, 1, 2, 3, 4]
    assert isinstance(iter(DataLoader([1], num_workers=workers)), kind)


def test_fetchers():
    kinds = torch.utils.data.dataloader._DatasetKind
    read = kinds.create_fetcher(kinds.Map, [5, 6, 7], True, list, False)
    assert read.fetch([0, 2]) == [5, 7]
    one = kinds.create_fetcher(kinds.Map, [5, 6], False, lambda x: x, False)
    assert one.fetch(1) == 6
    stream = kinds.create_fetcher(kinds.Iterable, [1, 2, 3], True, list, True)
    assert stream.fetch([0, 1]) == [1, 2]
    with pytest.raises(StopIteration):
        stream.fetch([2, 3])


def test_a_compiled_module_knows_the_module():
    model = torch.nn.Linear(2, 2)
    assert torch.compile(model)._orig_mod is model


def test_switches_and_small_functions():
    torch.set_deterministic_debug_mode("warn")
    assert torch.get_deterministic_debug_mode() == 1
    torch.set_deterministic_debug_mode(0)
    assert not torch.are_deterministic_algorithms_enabled()
    with pytest.raises(RuntimeError, match="debug_mode"):
        torch.set_deterministic_debug_mode(3)
    assert torch.cond(torch.tensor(True), torch.neg, torch.abs, (torch.tensor(2.0),)) == -2
    assert torch.cond(False, torch.neg, torch.abs, (torch.tensor(-2.0),)) == 2
    with pytest.raises(RuntimeError, match="pred"):
        torch.cond(torch.ones(2), torch.neg, torch.abs, ())
    contexts = torch.utils.checkpoint.create_selective_checkpoint_contexts([torch.mm])
    x = torch.ones(2, requires_grad=True)
    torch.utils.checkpoint.checkpoint(
        torch.exp, x, use_reentrant=False, context_fn=lambda: contexts
    ).sum().backward()
    assert x.grad.tolist() == pytest.approx([2.7182817] * 2)
    with pytest.raises(TypeError, match="policy_fn_or_list"):
        torch.utils.checkpoint.create_selective_checkpoint_contexts(3)
    torch.testing.assert_allclose(torch.ones(2), torch.ones(2, dtype=torch.float64))
    with pytest.raises(AssertionError):
        torch.testing.assert_allclose(torch.ones(2), torch.zeros(2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8, torch.bool,
                                   torch.complex64])  # fmt: skip
def test_make_tensor(dtype):
    made = torch.testing.make_tensor(3, 40, dtype=dtype, noncontiguous=True, exclude_zero=True)
    assert made.shape == (3, 40) and made.dtype is dtype and not made.is_contiguous()
    assert (made != 0).all()
    if dtype is torch.float32:
        small = torch.testing.make_tensor((50,), dtype=dtype, low=1, high=2, requires_grad=True)
        assert small.requires_grad and small.min() >= 1 and small.max() <= 2
        with pytest.raises(ValueError, match="low"):
            torch.testing.make_tensor((2,), dtype=dtype, low=2, high=1)


def test_inner_names_of_softmax():
    x = torch.tensor([1.0, 2.0])
    assert torch.ops.aten._softmax(x, 0, False).equal(x.softmax(0))
    assert torch.ops.aten._log_softmax.default(x, 0, False).equal(x.log_softmax(0))


def test_the_module_of_tensors_is_torch_while_it_stands_in():
    assert torch.Tensor.__module__ == "rushlight"
    with torch.install_as_torch():
        assert torch.Tensor.__module__ == "torch"
    assert torch.Tensor.__module__ == "rushlight"
