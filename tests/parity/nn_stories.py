"""Short programs against `torch.nn`, told twice: `story(t)` yields what it sees, for either module.

What is seen is text, plain values and rounded arrays, so two tellings can be compared with `==`.
"""

from __future__ import annotations

import copy
import importlib
import pickle
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

Story = Callable[[ModuleType], Iterator[Any]]


def tensor(t: ModuleType, *shape: int, seed: int = 0) -> Any:
    values = np.random.default_rng(seed).standard_normal(shape)
    return t.from_numpy(values.astype(np.float32))


def filled(t: ModuleType, module: Any, seed: int = 0) -> Any:
    """The module with parameters that both tellings share."""
    with t.no_grad():
        for place, parameter in enumerate(module.parameters()):
            parameter.copy_(tensor(t, *parameter.shape, seed=seed + place))
    return module


def seen(value: Any) -> Any:
    """An array, rounded, as lists."""
    return (np.round(value.detach().numpy().astype(float), 3) + 0.0).tolist()


def error_of(act: Callable[[], Any]) -> tuple[str, str]:
    try:
        act()
    except Exception as error:
        return type(error).__name__, str(error)
    return "no error", ""


def keys(module: Any) -> tuple[list[str], list[str], list[str]]:
    names = (module.named_parameters(), module.named_buffers())
    return [*module.state_dict()], *([name for name, _ in named] for named in names)


# --- nn.utils -----------------------------------------------------------------------------------


def weight_norm(t: ModuleType) -> Iterator[Any]:
    utils = t.nn.utils
    for dim in (0, 1, None):
        layer = utils.weight_norm(filled(t, t.nn.Linear(3, 2)), dim=dim)
        yield repr(layer), keys(layer), seen(layer.weight)
        with t.no_grad():
            layer.weight_g.mul_(2)
        layer(tensor(t, 1, 3)).sum().backward()
        yield seen(layer.weight_g.grad), seen(layer.weight_v.grad), seen(layer.weight)
        utils.remove_weight_norm(layer)
        yield keys(layer), seen(layer.weight)
        yield error_of(lambda layer=layer: utils.remove_weight_norm(layer))
        layer = t.nn.utils.parametrizations.weight_norm(filled(t, t.nn.Linear(3, 2)), dim=dim)
        yield repr(layer), keys(layer), seen(layer.weight)
        layer.weight = tensor(t, 2, 3, seed=9)
        yield seen(layer.weight)
    yield error_of(lambda: utils.weight_norm(utils.weight_norm(t.nn.Linear(2, 2))))
    yield list(utils.weight_norm(t.nn.Conv2d(2, 3, 2)).weight_g.shape)
    old = utils.weight_norm(filled(t, t.nn.Linear(3, 2)))
    new = t.nn.utils.parametrizations.weight_norm(t.nn.Linear(3, 2))
    yield str(new.load_state_dict(old.state_dict())), seen(new.weight - old.weight)


def spectral_norm(t: ModuleType) -> Iterator[Any]:
    utils, normalize = t.nn.utils, t.nn.functional.normalize
    layer = utils.spectral_norm(filled(t, t.nn.Linear(3, 2)))
    yield keys(layer), dict(layer.state_dict()._metadata)
    layer.weight_u.copy_(normalize(tensor(t, 2), dim=0))
    layer.weight_v.copy_(normalize(tensor(t, 3), dim=0))
    out = layer(tensor(t, 4, 3))
    out.sum().backward()
    yield seen(out), seen(layer.weight_orig.grad), seen(layer.weight_u), seen(layer.weight_v)
    yield seen(layer.eval()(tensor(t, 4, 3))), error_of(lambda: utils.spectral_norm(layer))
    utils.remove_spectral_norm(layer)
    yield keys(layer), seen(layer.weight), error_of(lambda: utils.remove_spectral_norm(layer))
    layer = utils.spectral_norm(t.nn.ConvTranspose2d(2, 3, 2))
    yield list(layer.weight_u.shape), list(layer.weight_v.shape)
    own = t.nn.utils.parametrizations
    layer = own.spectral_norm(filled(t, t.nn.Linear(3, 2)))
    yield repr(layer), keys(layer)
    norm = layer.parametrizations.weight[0]
    norm._u.copy_(normalize(tensor(t, 2), dim=0))
    norm._v.copy_(normalize(tensor(t, 3), dim=0))
    out = layer(tensor(t, 4, 3))
    out.sum().backward()
    yield seen(out), seen(layer.parametrizations.weight.original.grad)
    yield seen(layer.eval()(tensor(t, 4, 3)))
    for make in (utils.spectral_norm, own.spectral_norm):
        yield error_of(lambda make=make: make(t.nn.Linear(2, 2), n_power_iterations=0))
    yield error_of(lambda: own.spectral_norm(t.nn.Linear(2, 2), "nothing"))


def orthogonal(t: ModuleType) -> Iterator[Any]:
    make = t.nn.utils.parametrizations.orthogonal
    for kind in ("matrix_exp", "cayley", "householder"):
        for sizes in ((3, 3), (2, 4), (4, 2)):
            layer = make(filled(t, t.nn.Linear(*sizes)), orthogonal_map=kind)
            weight = layer.weight
            gram = weight @ weight.T if sizes[0] >= sizes[1] else weight.T @ weight
            yield kind, keys(layer), seen(gram), seen(weight) if sizes == (3, 3) else None
            layer(tensor(t, 2, sizes[0])).sum().backward()
            layer = filled(t, t.nn.Linear(*sizes))
            if kind != "householder":
                layer.weight.data.mul_(0.1)
            make(layer, orthogonal_map=kind, use_trivialization=False)
            yield seen(layer.weight)
            q = t.linalg.qr(tensor(t, max(sizes), min(sizes)))[0]
            q = q if sizes[0] <= sizes[1] else q.T
            yield error_of(lambda layer=layer, q=q: setattr(layer, "weight", q)), seen(layer.weight)
    yield error_of(lambda: make(t.nn.Linear(2, 2), orthogonal_map="other"))
    yield error_of(lambda: make(t.nn.Linear(2, 2), "bias"))
    yield error_of(lambda: make(t.nn.Linear(2, 2), "nothing"))


def prune(t: ModuleType) -> Iterator[Any]:
    own = importlib.import_module(f"{t.__name__}.nn.utils.prune")
    mask = t.tensor([[1.0, 0, 1, 0]] * 3)
    ways: list[Callable[[Any], Any]] = [
        lambda m: own.l1_unstructured(m, "weight", amount=5),
        lambda m: own.l1_unstructured(m, "weight", amount=0.25),
        lambda m: own.ln_structured(m, "weight", 1, 2, 0),
        lambda m: own.ln_structured(m, "weight", 0.5, 1, 1),
        lambda m: own.identity(m, "weight"),
        lambda m: own.custom_from_mask(m, "weight", mask),
        lambda m: own.l1_unstructured(m, "weight", 3, importance_scores=tensor(t, 3, 4, seed=5)),
        lambda m: own.l1_unstructured(own.l1_unstructured(m, "weight", 3), "weight", 4),
        lambda m: own.ln_structured(own.l1_unstructured(m, "weight", 3), "weight", 1, 2, 1),
        lambda m: own.l1_unstructured(own.ln_structured(m, "weight", 1, 2, 0), "weight", 3),
    ]
    for way in ways:
        layer = way(filled(t, t.nn.Linear(4, 3)))
        yield repr(layer), keys(layer), own.is_pruned(layer), seen(layer.weight)
        layer(tensor(t, 2, 4)).sum().backward()
        yield seen(layer.weight_orig.grad)
        own.remove(layer, "weight")
        yield keys(layer), seen(layer.weight), own.is_pruned(layer), type(layer.weight).__name__
    layer = own.random_unstructured(t.nn.Linear(4, 3), "weight", 0.5)
    yield int((layer.weight == 0).sum())
    own.random_structured(layer, "weight", 1, 0)
    yield [type(hook).__name__ for hook in layer._forward_pre_hooks.values()]
    layer = t.nn.Linear(4, 3)
    for amount in (5, 1.5, "a"):
        yield error_of(lambda amount=amount: own.l1_unstructured(layer, "bias", amount))
    yield error_of(lambda: own.ln_structured(layer, "bias", 1, 2, 0))
    yield error_of(lambda: own.remove(layer, "bias")), keys(layer)
    model = t.nn.Sequential(filled(t, t.nn.Linear(4, 3)), filled(t, t.nn.Linear(3, 2), 7))
    pairs = [(model[0], "weight"), (model[1], "weight")]
    own.global_unstructured(pairs, own.L1Unstructured, amount=6)
    yield seen(model[0].weight), seen(model[1].weight), keys(model)


def fusion(t: ModuleType) -> Iterator[Any]:
    own, nn = t.nn.utils, t.nn
    x = tensor(t, 2, 2, 4, 4)
    norm = filled(t, nn.BatchNorm2d(3), 4).eval()
    norm.running_mean.copy_(tensor(t, 3))
    norm.running_var.copy_(tensor(t, 3, seed=3) ** 2)
    conv = filled(t, nn.Conv2d(2, 3, 2)).eval()
    yield seen(own.fuse_conv_bn_eval(conv, norm)(x)), seen(norm(conv(x)))
    conv = filled(t, nn.ConvTranspose2d(2, 3, 2, bias=False)).eval()
    yield seen(own.fuse_conv_bn_eval(conv, norm, transpose=True)(x)), seen(norm(conv(x)))
    norm = filled(t, nn.BatchNorm1d(3), 4).eval()
    layer = filled(t, nn.Linear(4, 3)).eval()
    both = own.fuse_linear_bn_eval(layer, norm)
    yield seen(both(tensor(t, 5, 4))), seen(norm(layer(tensor(t, 5, 4))))
    yield error_of(lambda: own.fuse_linear_bn_eval(nn.Linear(4, 3), norm))
    yield repr(own.skip_init(nn.Linear, 2, 3)), error_of(lambda: own.skip_init(nn.ReLU))


def functional_call(t: ModuleType) -> Iterator[Any]:
    call = t.nn.utils.stateless.functional_call
    layer = filled(t, t.nn.Linear(4, 3))
    weight = tensor(t, 3, 4, seed=8).requires_grad_()
    out = call(layer, {"weight": weight}, tensor(t, 2, 4))
    out.sum().backward()
    yield seen(out), seen(weight.grad), layer.weight.grad is None
    x = tensor(t, 2, 4)
    yield seen(call(layer, {"other": weight}, x))
    yield error_of(lambda: call(layer, {"weight": weight}, x, strict=True))
    more = {"weight": weight, "other": weight, "bias": layer.bias}
    yield error_of(lambda: call(layer, more, x, strict=True))


# --- parametrize ----------------------------------------------------------------------------------


def parametrize(t: ModuleType) -> Iterator[Any]:
    own = importlib.import_module(f"{t.__name__}.nn.utils.parametrize")
    nn, register = t.nn, own.register_parametrization

    class Symmetric(nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).T

        def right_inverse(self, a):
            return a.triu()

    class Double(nn.Module):
        def forward(self, x):
            return x * 2

    class Sum(nn.Module):
        def forward(self, a, b):
            return a + b

        def right_inverse(self, x):
            return x / 2, x / 2

    def wrong(compute):
        made = nn.Module()
        made.forward = compute
        return made

    layer = filled(t, nn.Linear(3, 3))
    register(layer, "weight", Symmetric())
    yield repr(layer), type(layer).__name__, keys(layer), seen(layer.weight)
    yield own.is_parametrized(layer), own.is_parametrized(layer, "bias")
    yield own.type_before_parametrizations(layer).__name__
    layer.weight = t.eye(3)
    yield seen(layer.weight), seen(layer.parametrizations.weight.original)
    layer(t.ones(1, 3)).sum().backward()
    yield seen(layer.parametrizations.weight.original.grad)
    yield error_of(lambda: setattr(layer, "weight", nn.Parameter(t.eye(3))))
    yield error_of(lambda: pickle.dumps(layer))
    copied = copy.deepcopy(layer)
    yield type(copied) is type(layer), seen(copied.weight)
    register(layer, "weight", Double())
    yield repr(layer.parametrizations.weight), seen(layer.weight)
    yield error_of(lambda: setattr(layer, "weight", t.eye(3)))
    with own.cached():
        yield layer.weight is layer.weight
    own.remove_parametrizations(layer, "weight")
    yield repr(layer), keys(layer), seen(layer.weight)

    layer = register(filled(t, nn.Linear(3, 3)), "weight", Sum())
    yield keys(layer)
    layer.weight = t.ones(3, 3) * 4
    yield seen(layer.parametrizations.weight.original0)
    yield error_of(lambda: own.remove_parametrizations(layer, "weight", leave_parametrized=False))
    other = nn.Linear(3, 3)
    own.transfer_parametrizations_and_params(layer, other)
    yield keys(other), seen(other.weight)
    layer = nn.Linear(3, 3)
    for compute in (lambda x: x[:1], lambda x: 3, lambda x: x.double()):
        yield error_of(lambda compute=compute: register(layer, "weight", wrong(compute)))
    yield error_of(lambda: register(layer, "nothing", Double())), keys(layer)
    norm = register(nn.BatchNorm1d(3), "running_mean", Double())
    yield keys(norm)
    register(layer, "weight", Symmetric())
    register(layer, "bias", Double())
    own.remove_parametrizations(layer, "weight", leave_parametrized=False)
    yield repr(layer), error_of(lambda: own.remove_parametrizations(layer, "weight"))


# --- modules --------------------------------------------------------------------------------------


def hooks(t: ModuleType) -> Iterator[Any]:
    own = importlib.import_module(f"{t.__name__}.nn.modules.module")
    nn = t.nn
    log: list[Any] = []
    layer = nn.Linear(2, 2)
    layer.register_backward_hook(lambda m, inputs, outputs: log.append([*outputs[0].shape]))
    layer(t.ones(3, 2)).sum().backward()
    yield log, error_of(lambda: layer.register_full_backward_hook(lambda *a: None))
    layer = nn.Linear(2, 2)
    layer.register_full_backward_hook(lambda *a: log.append("backward"))
    yield error_of(lambda: layer.register_backward_hook(lambda *a: None))
    layer.register_full_backward_pre_hook(lambda *a: log.append("backward pre"))
    layer.register_forward_hook(lambda *a: log.append("forward"))
    layer.register_forward_pre_hook(lambda *a: log.append("pre"))
    handles = [
        own.register_module_forward_hook(lambda *a: log.append("all forward")),
        own.register_module_forward_pre_hook(lambda *a: log.append("all pre")),
        own.register_module_full_backward_hook(lambda *a: log.append("all backward")),
        own.register_module_full_backward_pre_hook(lambda *a: log.append("all backward pre")),
    ]
    try:
        log.clear()
        layer(t.ones(1, 2, requires_grad=True)).sum().backward()
        yield log, error_of(lambda: own.register_module_backward_hook(lambda *a: None))
    finally:
        for handle in handles:
            handle.remove()
    log.clear()

    def note(module, name, value):
        shown = None if value is None else getattr(value, "shape", type(value).__name__)
        log.append((type(module).__name__, name, str(shown)))

    handles = [
        own.register_module_parameter_registration_hook(note),
        own.register_module_module_registration_hook(note),
        own.register_module_buffer_registration_hook(note),
    ]
    try:
        nn.Sequential(nn.Linear(2, 1, bias=False), nn.BatchNorm1d(2))
        yield log
    finally:
        for handle in handles:
            handle.remove()


def lazy(t: ModuleType) -> Iterator[Any]:
    nn = t.nn
    own = importlib.import_module(f"{t.__name__}.nn.modules.lazy")
    weight = nn.UninitializedParameter()
    yield str(weight), repr(weight.data), str(weight.dtype).partition(".")[2]
    yield error_of(lambda: weight.shape), error_of(lambda: weight + 1)[0]
    yield error_of(lambda: weight.numel())[0], error_of(lambda: weight.share_memory_())
    yield str(copy.deepcopy(weight)), weight.requires_grad
    weight.materialize((2, 3))
    yield type(weight).__name__, list(weight.shape), str(nn.UninitializedBuffer())
    layer = nn.LazyLinear(3)
    yield repr(layer), layer.has_uninitialized_params(), [*layer.state_dict()]
    yield str(pickle.loads(pickle.dumps(layer)))
    layer.double()
    out = layer(t.ones(2, 4, dtype=t.float64))
    yield repr(layer), type(layer).__name__, list(out.shape), len(layer._forward_pre_hooks)
    layer, full = nn.LazyLinear(3), nn.Linear(4, 3)
    yield str(layer.load_state_dict(full.state_dict())), type(layer).__name__
    layer(t.ones(1, 4))
    yield type(layer).__name__, layer.in_features
    yield error_of(lambda: full.load_state_dict(nn.LazyLinear(3).state_dict()))
    model = nn.Sequential(nn.LazyConv2d(3, 2), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2))
    yield repr(model)
    optimizer = t.optim.SGD(model.parameters(), 0.1)
    model(tensor(t, 2, 3, 4, 4)).sum().backward()
    optimizer.step()
    yield repr(model), sum(p.grad is not None for p in model.parameters())
    yield error_of(lambda: nn.LazyConv2d(3, 2)(t.ones(2, 3)))
    yield error_of(lambda: nn.LazyConv2d(4, 2, groups=2)(t.ones(1, 3, 4, 4)))

    class Unfinished(own.LazyModuleMixin, nn.Module):
        def forward(self, x):
            return x

    yield error_of(lambda: Unfinished()(t.ones(1)))
    shapes = {"1d": (2, 2, 5), "2d": (2, 2, 5, 5), "3d": (2, 2, 5, 5, 5)}
    for size, shape in shapes.items():
        for name in ("LazyConv", "LazyConvTranspose"):
            layer = getattr(nn, name + size)(3, 2)
            yield list(layer(t.ones(shape)).shape), repr(layer)
        for name in ("LazyBatchNorm", "LazyInstanceNorm"):
            layer = getattr(nn, name + size)()
            yield list(layer(t.ones(shape)).shape), repr(layer), keys(layer)


def packed(t: ModuleType) -> Iterator[Any]:
    own = importlib.import_module(f"{t.__name__}.nn.utils.rnn")
    rows = [tensor(t, length, 2, seed=length) for length in (3, 1, 2)]
    for batch_first in (False, True):
        for side in ("left", "right"):
            yield seen(own.pad_sequence(rows, batch_first, 7.0, side))
        padded = own.pad_sequence(rows, batch_first)
        bundle = own.pack_padded_sequence(padded, [3, 1, 2], batch_first, enforce_sorted=False)
        yield seen(bundle.data), [None if x is None else x.tolist() for x in bundle[1:]]
        back, lengths = own.pad_packed_sequence(bundle, batch_first, -1.0, 4)
        yield seen(back), lengths.tolist()
        yield [seen(row) for row in own.unpad_sequence(padded, lengths, batch_first)]
    yield [seen(row) for row in own.unpack_sequence(own.pack_sequence(rows, enforce_sorted=False))]
    yield seen(bundle.double().data), str(bundle.to(t.float64).data.dtype).partition(".")[2]
    x = tensor(t, 3, 2, 1)
    for lengths in ([1, 2], [3, 0], [3]):
        yield error_of(lambda lengths=lengths: own.pack_padded_sequence(x, lengths))
    yield error_of(lambda: own.pad_packed_sequence(bundle, total_length=1))
    yield error_of(lambda: own.pad_sequence(rows, padding_side="top"))
    yield error_of(lambda: own.pad_sequence(3))


def adaptive(t: ModuleType) -> Iterator[Any]:
    kind = t.nn.AdaptiveLogSoftmaxWithLoss
    layer = filled(t, kind(8, 20, [4, 10], head_bias=True, div_value=2.0))
    x, target = tensor(t, 5, 8), t.tensor([0, 5, 11, 19, 3])
    out = layer(x, target)
    out.loss.backward()
    yield repr(layer), keys(layer), seen(out.output), seen(out.loss)
    yield [seen(parameter.grad) for parameter in layer.parameters()]
    yield seen(layer.log_prob(x)), layer.predict(x).tolist()
    yield seen(layer(x[0], t.tensor(3)).output)
    for cutoffs in ([], [3, 2], [0, 3], [3, 10], [3, 3], [2.5]):
        yield error_of(lambda cutoffs=cutoffs: kind(4, 10, cutoffs))
    for wrong in ([0, 5, 11, 19, 20], [0, 5], [[0] * 5] * 5):
        yield error_of(lambda wrong=wrong: layer(x, t.tensor(wrong)))


def smaller_things(t: ModuleType) -> Iterator[Any]:
    nn = t.nn
    x, weight = tensor(t, 2, 4, 6, 6), tensor(t, 6, 2, 3, 3)
    out = nn.functional.conv2d(x, weight, None, 2, 1, 1, 2)
    yield seen(nn.grad.conv2d_input(x.shape, weight, out, 2, 1, 1, 2))
    yield seen(nn.grad.conv2d_weight(x, weight.shape, out, 2, 1, 1, 2))
    x, weight = tensor(t, 2, 3, 6), tensor(t, 4, 3, 2)
    out = nn.functional.conv1d(x, weight)
    yield seen(nn.grad.conv1d_input(x.shape, weight, out))
    yield seen(nn.grad.conv1d_weight(x, weight.shape, out))
    x, weight = tensor(t, 1, 2, 3, 4, 3), tensor(t, 2, 2, 2, 2, 2)
    out = nn.functional.conv3d(x, weight)
    yield seen(nn.grad.conv3d_input(x.shape, weight, out))
    yield seen(nn.grad.conv3d_weight(x, weight.shape, out))
    yield repr(nn.Container(first=nn.ReLU())), keys(nn.DataParallel(nn.Linear(1, 1)))
    yield error_of(lambda: nn.factory_kwargs({"other": 1}))
    yield error_of(lambda: nn.factory_kwargs({"device": 1, "factory_kwargs": {"device": 2}}))
    yield seen(nn.init.constant(t.empty(2), 3.0))
    yield seen(nn.CrossMapLRN2d(3)(tensor(t, 2, 4, 6, 6)))


STORIES: dict[str, Story] = {
    story.__name__: story
    for story in (
        weight_norm, spectral_norm, orthogonal, prune, fusion, functional_call, parametrize, hooks,
        lazy, packed, adaptive, smaller_things,
    )
}  # fmt: skip
