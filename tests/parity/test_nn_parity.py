"""Layers, losses, Module and init against PyTorch, with equal weights given by numpy."""

import copy
import inspect
import io
import pickle

import numpy as np
import pytest

real = pytest.importorskip("torch")
import rushlight as torch  # noqa: E402
from tests.parity.common import assert_same_error, random_array, to_ours, to_real  # noqa: E402


def copy_weights(ours, theirs, seed=0):
    """Fill both modules' parameters with the same random values."""
    rng = np.random.default_rng(seed)
    own, other = dict(ours.named_parameters()), dict(theirs.named_parameters())
    assert list(own) == list(other)
    for name, parameter in own.items():
        values = rng.standard_normal(tuple(parameter.shape)).astype(np.float32) * 0.5
        with torch.no_grad():
            parameter.copy_(to_ours(values))
        with real.no_grad():
            other[name].copy_(to_real(values))


def assert_equal(ours, theirs, tolerance=1e-5):
    np.testing.assert_allclose(
        ours.detach().numpy(), theirs.detach().numpy(), rtol=tolerance, atol=tolerance
    )


def check_layer(name, args, kwargs, shapes, train=True):
    ours = getattr(torch.nn, name)(*args, **kwargs)
    theirs = getattr(real.nn, name)(*args, **kwargs)
    copy_weights(ours, theirs)
    ours.train(train)
    theirs.train(train)
    assert repr(ours) == repr(theirs)
    own_in = [to_ours(random_array(s, i)).requires_grad_() for i, s in enumerate(shapes)]
    real_in = [to_real(random_array(s, i)).requires_grad_() for i, s in enumerate(shapes)]
    own_out, real_out = ours(*own_in), theirs(*real_in)
    assert_equal(own_out, real_out)
    own_out.sum().backward()
    real_out.sum().backward()
    for a, b in zip(own_in, real_in, strict=True):
        assert_equal(a.grad, b.grad, 1e-4)
    others = dict(theirs.named_parameters())
    for key, parameter in ours.named_parameters():
        assert_equal(parameter.grad, others[key].grad, 1e-4)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for a, b in zip(ours.buffers(), theirs.buffers(), strict=True):
        assert_equal(a, b)


LAYERS = [
    ("Linear", (5, 3), {}, [(4, 5)]),
    ("Linear", (5, 3), {"bias": False}, [(2, 4, 5)]),
    ("Bilinear", (3, 4, 2), {}, [(6, 3), (6, 4)]),
    ("Identity", (), {}, [(2, 3)]),
    ("Conv2d", (4, 6, 3), {}, [(2, 4, 7, 7)]),
    ("Conv2d", (4, 6, (3, 2)), {"stride": 2, "padding": (1, 0), "groups": 2}, [(2, 4, 7, 7)]),
    ("Conv2d", (4, 6, 3), {"padding": "same", "dilation": 2, "bias": False}, [(2, 4, 7, 7)]),
    ("Conv2d", (2, 2, 3), {"padding": 1, "padding_mode": "reflect"}, [(1, 2, 5, 5)]),
    ("Conv2d", (2, 2, 3), {"padding": "same", "padding_mode": "circular"}, [(1, 2, 5, 5)]),
    ("LayerNorm", (5,), {}, [(3, 5)]),
    ("LayerNorm", ([4, 5],), {"bias": False}, [(3, 4, 5)]),
    ("LayerNorm", (5,), {"elementwise_affine": False}, [(3, 5)]),
    ("RMSNorm", (5,), {"eps": 1e-6}, [(3, 5)]),
    ("GroupNorm", (2, 6), {}, [(2, 6, 3)]),
    ("GroupNorm", (2, 6), {"bias": False}, [(2, 6, 3)]),
    ("BatchNorm1d", (4,), {}, [(6, 4)]),
    ("BatchNorm1d", (4,), {"momentum": None}, [(6, 4, 3)]),
    ("BatchNorm2d", (4,), {"bias": False}, [(2, 4, 3, 3)]),
    ("BatchNorm2d", (4,), {"track_running_stats": False, "affine": False}, [(2, 4, 3, 3)]),
    ("Flatten", (), {}, [(2, 3, 4)]),
    ("Unflatten", (1, (2, 3)), {}, [(2, 6)]),
    ("MaxPool2d", (2,), {}, [(1, 2, 6, 6)]),
    ("MaxPool2d", (3, 2, 1), {"ceil_mode": True}, [(1, 2, 6, 6)]),
    ("AvgPool2d", (2,), {"padding": 1, "count_include_pad": False}, [(1, 2, 6, 6)]),
    ("AdaptiveAvgPool2d", ((1, None),), {}, [(1, 2, 6, 6)]),
    ("ReLU", (), {}, [(9,)]),
    ("ReLU6", (), {}, [(9,)]),
    ("GELU", (), {}, [(9,)]),
    ("GELU", ("tanh",), {}, [(9,)]),
    ("SiLU", (), {}, [(9,)]),
    ("ELU", (0.7,), {}, [(9,)]),
    ("CELU", (0.7,), {}, [(9,)]),
    ("SELU", (), {}, [(9,)]),
    ("LeakyReLU", (0.2,), {}, [(9,)]),
    ("PReLU", (3,), {}, [(2, 3, 4)]),
    ("PReLU", (), {}, [(9,)]),
    ("RReLU", (), {}, [(9,)]),
    ("Softplus", (2.0,), {}, [(9,)]),
    ("Softsign", (), {}, [(9,)]),
    ("Softshrink", (), {}, [(9,)]),
    ("Hardshrink", (), {}, [(9,)]),
    ("Tanhshrink", (), {}, [(9,)]),
    ("Hardtanh", (-0.5, 0.4), {}, [(9,)]),
    ("Hardswish", (), {}, [(9,)]),
    ("Hardsigmoid", (), {}, [(9,)]),
    ("Mish", (), {}, [(9,)]),
    ("Sigmoid", (), {}, [(9,)]),
    ("Tanh", (), {}, [(9,)]),
    ("LogSigmoid", (), {}, [(9,)]),
    ("Threshold", (0.1, 20.0), {}, [(9,)]),
    ("GLU", (), {}, [(3, 4)]),
    ("Softmax", (1,), {}, [(3, 4)]),
    ("Softmax2d", (), {}, [(2, 3, 2, 2)]),
    ("Softmin", (1,), {}, [(3, 4)]),
    ("LogSoftmax", (1,), {}, [(3, 4)]),
    ("CosineSimilarity", (), {}, [(3, 4), (3, 4)]),
    ("PairwiseDistance", (), {}, [(3, 4), (3, 4)]),
    ("ZeroPad2d", (1,), {}, [(1, 2, 2)]),
    ("ConstantPad2d", ((1, 0, 2, 0), 3.0), {}, [(1, 2, 2)]),
    ("PixelShuffle", (2,), {}, [(1, 8, 2, 3)]),
    ("PixelUnshuffle", (2,), {}, [(1, 2, 4, 6)]),
    ("ChannelShuffle", (2,), {}, [(1, 4, 2, 3)]),
    ("Unfold", ((2, 3),), {"padding": 1, "stride": 2}, [(2, 3, 5, 6)]),
    ("Unfold", (2,), {"dilation": 2}, [(3, 5, 6)]),
    ("Fold", ((5, 6), (2, 3)), {"padding": 1, "stride": 2}, [(2, 18, 9)]),
    ("Fold", ((5, 6), 2), {"dilation": 2}, [(12, 12)]),
    ("Upsample", (), {"scale_factor": 2}, [(1, 2, 3)]),
    ("Upsample", ((5, 4),), {"mode": "bilinear"}, [(1, 2, 3, 3)]),
    ("Upsample", (), {"scale_factor": 1.5, "mode": "bicubic"}, [(1, 2, 4, 4)]),
    ("UpsamplingBilinear2d", (), {"scale_factor": 2}, [(1, 2, 3, 3)]),
    ("UpsamplingNearest2d", ((5, 7),), {}, [(1, 2, 3, 3)]),
    ("LocalResponseNorm", (3,), {"alpha": 0.5}, [(2, 5, 3, 3)]),
    ("InstanceNorm1d", (3,), {"affine": True, "bias": False}, [(2, 3, 5)]),
    ("InstanceNorm2d", (3,), {"track_running_stats": True}, [(2, 3, 4, 4)]),
    ("InstanceNorm3d", (2,), {}, [(2, 3, 2, 2)]),
    ("BatchNorm3d", (2,), {}, [(2, 2, 3, 2, 2)]),
    ("SyncBatchNorm", (3,), {}, [(4, 3)]),
    ("MaxPool1d", (3, 2), {"dilation": 2}, [(2, 3, 12)]),
    ("MaxPool3d", (2,), {"ceil_mode": True}, [(1, 2, 3, 5, 4)]),
    ("AvgPool1d", (3, 2, 1), {"count_include_pad": False}, [(2, 3, 9)]),
    ("AvgPool3d", ((1, 2, 2),), {"divisor_override": 3}, [(1, 2, 3, 4, 4)]),
    ("AdaptiveAvgPool1d", (4,), {}, [(2, 3, 9)]),
    ("AdaptiveAvgPool3d", ((2, None, 3),), {}, [(2, 5, 4, 7)]),
    ("AdaptiveMaxPool1d", (4,), {}, [(2, 3, 9)]),
    ("AdaptiveMaxPool2d", ((2, 3),), {}, [(2, 3, 5, 7)]),
    ("AdaptiveMaxPool3d", (2,), {}, [(1, 2, 3, 4, 5)]),
    ("LPPool1d", (2, 3), {"stride": 2}, [(2, 3, 9)]),
    ("LPPool2d", (2, 2), {}, [(2, 3, 4, 5)]),
    ("LPPool3d", (2, 2), {}, [(1, 2, 4, 4, 4)]),
    ("ReflectionPad1d", ((2, 1),), {}, [(2, 3, 4)]),
    ("ReflectionPad3d", (1,), {}, [(1, 2, 2, 3, 3)]),
    ("ReplicationPad2d", ((1, 2, 0, 3),), {}, [(2, 3, 4)]),
    ("CircularPad2d", ((1, 2, 2, 0),), {}, [(1, 2, 3, 4)]),
    ("ConstantPad3d", (1, 2.5), {}, [(1, 2, 2, 2)]),
    ("ZeroPad1d", ((1, -1),), {}, [(1, 2, 4)]),
    ("Conv1d", (4, 6, 3), {"dilation": 2, "groups": 2, "padding": "same"}, [(2, 4, 9)]),
    ("Conv3d", (2, 3, 2), {"stride": (1, 2, 1), "padding": (1, 0, 1)}, [(1, 2, 4, 5, 4)]),
    ("Conv1d", (2, 3, 3), {"padding": 1, "padding_mode": "circular"}, [(2, 5)]),
    ("ConvTranspose1d", (4, 6, 3), {"stride": 2, "output_padding": 1, "groups": 2}, [(2, 4, 5)]),
    ("ConvTranspose2d", (2, 3, 3), {"padding": 1, "dilation": 2}, [(1, 2, 5, 4)]),
    ("ConvTranspose3d", (2, 3, 2), {"stride": 2, "bias": False}, [(1, 2, 3, 2, 2)]),
    ("AlphaDropout", (0.0,), {}, [(3, 4)]),
    ("HuberLoss", ("sum", 0.5), {}, [(3, 4), (3, 4)]),
    ("TripletMarginLoss", (), {"swap": True, "p": 1}, [(3, 4), (3, 4), (3, 4)]),
    ("TripletMarginWithDistanceLoss", (), {"margin": 0.5}, [(3, 4), (3, 4), (3, 4)]),
    ("PoissonNLLLoss", (), {"full": False}, [(3, 4), (3, 4)]),
    ("RNNCell", (3, 4), {"nonlinearity": "relu"}, [(5, 3), (5, 4)]),
    ("GRUCell", (3, 4), {"bias": False}, [(3,), (4,)]),
    ("MSELoss", (), {}, [(3, 4), (3, 4)]),
    ("L1Loss", (), {"reduction": "sum"}, [(3, 4), (3, 4)]),
    ("SmoothL1Loss", (), {"beta": 0.3}, [(3, 4), (3, 4)]),
    ("HuberLoss", (), {"delta": 0.3}, [(3, 4), (3, 4)]),
    ("KLDivLoss", (), {"reduction": "batchmean", "log_target": True}, [(3, 4), (3, 4)]),
    ("BCEWithLogitsLoss", (), {}, [(3, 4), (3, 4)]),
]
EVAL_ONLY = {"RReLU"}


@pytest.mark.parametrize("case", LAYERS, ids=lambda case: f"{case[0]}-{case[1]}-{case[2]}")
def test_layer_equals_pytorch(case):
    if case[0] not in EVAL_ONLY:
        check_layer(*case)
    check_layer(*case, train=False)


@pytest.mark.parametrize("kwargs", [{}, {"ignore_index": 1}, {"label_smoothing": 0.1}])
def test_cross_entropy_equals_pytorch(kwargs):
    logits, target = random_array((4, 3)), np.array([0, 1, 2, 1])
    weight = np.array([0.2, 0.3, 0.5], np.float32)
    ours = torch.nn.CrossEntropyLoss(to_ours(weight), **kwargs)
    theirs = real.nn.CrossEntropyLoss(to_real(weight), **kwargs)
    assert_equal(ours(to_ours(logits), to_ours(target)), theirs(to_real(logits), to_real(target)))


def test_bce_and_nll_equal_pytorch():
    p, y = np.array([0.2, 0.9], np.float32), np.array([0.0, 1.0], np.float32)
    assert_equal(
        torch.nn.BCELoss()(to_ours(p), to_ours(y)), real.nn.BCELoss()(to_real(p), to_real(y))
    )
    logs, target = random_array((4, 3)), np.array([0, 1, 2, 1])
    assert_equal(
        torch.nn.NLLLoss(reduction="sum")(to_ours(logs), to_ours(target)),
        real.nn.NLLLoss(reduction="sum")(to_real(logs), to_real(target)),
    )


def test_embedding_equals_pytorch():
    ours = torch.nn.Embedding(7, 3, padding_idx=-2)
    theirs = real.nn.Embedding(7, 3, padding_idx=-2)
    copy_weights(ours, theirs)
    assert repr(ours) == repr(theirs)
    index = np.array([[1, 5], [0, 6]])
    own_out, real_out = ours(to_ours(index)), theirs(to_real(index))
    assert_equal(own_out, real_out)
    own_out.sum().backward()
    real_out.sum().backward()
    assert_equal(ours.weight.grad, theirs.weight.grad)


ATTENTION = [
    {},
    {"batch_first": True},
    {"bias": False, "add_zero_attn": True},
    {"add_bias_kv": True},
    {"kdim": 6, "vdim": 5},
]


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kwargs", ATTENTION, ids=str)
def test_multihead_attention_equals_pytorch(kwargs, masked, need_weights):
    ours = torch.nn.MultiheadAttention(8, 2, **kwargs)
    theirs = real.nn.MultiheadAttention(8, 2, **kwargs)
    copy_weights(ours, theirs)
    batch, queries, keys = 2, 3, 4
    sizes = [(queries, 8), (keys, kwargs.get("kdim", 8)), (keys, kwargs.get("vdim", 8))]
    first = kwargs.get("batch_first", False)
    shapes = [(batch, n, e) if first else (n, batch, e) for n, e in sizes]
    arrays = [random_array(shape, i) for i, shape in enumerate(shapes)]
    own_masks, real_masks = {}, {}
    if masked:
        padding = np.array([[False, False, False, True], [False, True, False, False]])
        causal = np.triu(np.ones((queries, keys), bool), 2)
        own_masks = {"key_padding_mask": to_ours(padding), "attn_mask": to_ours(causal)}
        real_masks = {"key_padding_mask": to_real(padding), "attn_mask": to_real(causal)}
    own = ours(*map(to_ours, arrays), need_weights=need_weights, **own_masks)
    other = theirs(*map(to_real, arrays), need_weights=need_weights, **real_masks)
    assert_equal(own[0], other[0])
    if need_weights:
        assert_equal(own[1], other[1])
    else:
        assert own[1] is None and other[1] is None


def test_signatures_equal_pytorch():
    """Argument names, order and defaults of every public class and function."""

    def described(function):
        parameters = inspect.signature(function).parameters.values()
        return [
            (p.name, p.kind, p.default if isinstance(p.default, (int, str, float)) else None)
            for p in parameters
        ]

    checked = 0
    for name in torch.nn.__all__:
        own, other = getattr(torch.nn, name), getattr(real.nn, name)
        if not inspect.isclass(own) or not issubclass(own, torch.nn.Module):
            continue
        if name in ("Module", "Container", "NLLLoss2d"):
            continue
        found, wanted = described(own.__init__), described(other.__init__)
        # The fused loss also takes the spellings of articles, by keyword, after PyTorch's own.
        extra = found[len(wanted) :] if name == "LinearCrossEntropyLoss" else []
        assert found == [*wanted, *extra], name
        checked += 1
    assert checked > 150
    for module, other_module in ((torch.nn.init, real.nn.init), (torch.nn.utils, real.nn.utils)):
        for name, own in inspect.getmembers(module, inspect.isfunction):
            if hasattr(other_module, name) and not name.startswith("_"):
                own_names = [p for p in inspect.signature(own).parameters]
                assert own_names == [
                    p for p in inspect.signature(getattr(other_module, name)).parameters
                ], name


def build(nn):
    class Leaf(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(nn_torch(nn).ones(2))
            self.register_buffer("count", nn_torch(nn).zeros(1))
            self.register_buffer("hidden", nn_torch(nn).zeros(1), persistent=False)
            self.register_parameter("nothing", None)

        def forward(self, x):
            return x * self.scale

    model = nn.Sequential(nn.Linear(2, 2), nn.ModuleList([Leaf(), nn.ReLU()]), Leaf())
    model[2].tied = model[0].weight
    return model


def nn_torch(nn):
    return real if nn is real.nn else torch


def test_module_names_and_repr_equal_pytorch():
    ours, theirs = build(torch.nn), build(real.nn)
    assert repr(ours) == repr(theirs)
    for method in ("named_parameters", "named_buffers", "named_modules", "named_children"):
        for kwargs in ({}, {"prefix": "p"}, {"remove_duplicate": False}, {"recurse": False}):
            if method == "named_children" and kwargs:
                continue
            if method == "named_modules" and "recurse" in kwargs:
                continue
            own = [name for name, _ in getattr(ours, method)(**kwargs)]
            assert own == [name for name, _ in getattr(theirs, method)(**kwargs)], (method, kwargs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert dict(ours.state_dict()._metadata) == dict(theirs.state_dict()._metadata)


BAD_LOADS = [
    lambda t, d: d.pop("0.bias"),
    lambda t, d: d.update(extra=t.zeros(1)),
    lambda t, d: d.update({"0.bias": t.zeros(5)}),
    lambda t, d: d.update({"0.bias": "text"}),
    lambda t, d: (d.update({"1.0.nothing": t.zeros(5)}), d.pop("2.scale"), d.update(z=t.ones(1))),
]


@pytest.mark.parametrize("spoil", BAD_LOADS)
def test_load_state_dict_errors_equal_pytorch(spoil):
    def load(nn):
        model = build(nn)
        state = model.state_dict()
        spoil(nn_torch(nn), state)
        model.load_state_dict(state)

    assert_same_error(lambda: load(torch.nn), lambda: load(real.nn))


def set_attr(name, value):
    return lambda t, m: setattr(m, name, value(t))


BAD_USES = [
    set_attr("weight", lambda t: t.zeros(1)),
    set_attr("weight", lambda t: 3),
    lambda t, m: m.register_parameter("weight.x", None),
    lambda t, m: m.register_parameter("", None),
    lambda t, m: m.register_parameter("forward", None),
    lambda t, m: m.register_parameter(3, None),
    lambda t, m: m.register_parameter("p", t.zeros(1)),
    lambda t, m: m.register_parameter("p", 3),
    lambda t, m: m.register_buffer("b.b", None),
    lambda t, m: m.register_buffer("", None),
    lambda t, m: m.register_buffer("weight", None),
    lambda t, m: m.register_buffer("b", 3),
    lambda t, m: m.add_module("m.m", t.nn.ReLU()),
    lambda t, m: m.add_module("", t.nn.ReLU()),
    lambda t, m: m.add_module("weight", t.nn.ReLU()),
    lambda t, m: m.add_module("m", 3),
    lambda t, m: m.missing,
    lambda t, m: m.get_submodule("a.b"),
    lambda t, m: m.get_submodule("weight"),
    lambda t, m: m.get_parameter("missing"),
    lambda t, m: m.get_buffer("weight"),
    lambda t, m: m.set_submodule("", t.nn.ReLU()),
    lambda t, m: m.set_submodule("q", t.nn.ReLU(), strict=True),
    lambda t, m: m.train("yes"),
    lambda t, m: m.to(t.int64),
    lambda t, m: m.load_state_dict([1]),
    lambda t, m: t.nn.Module()(1),
    lambda t, m: t.nn.Module(1),
    lambda t, m: t.nn.Module(x=1),
    lambda t, m: (m.register_buffer("b", t.zeros(1)), setattr(m, "b", 3)),
    lambda t, m: (m.add_module("c", t.nn.ReLU()), setattr(m, "c", 3)),
    lambda t, m: t.nn.Sequential(m)[2],
    lambda t, m: t.nn.Sequential(m) + 3,
    lambda t, m: t.nn.Sequential(m) * 0,
    lambda t, m: t.nn.ModuleList([m])[1],
    lambda t, m: t.nn.ModuleList(3),
    lambda t, m: t.nn.ModuleList([m]).extend(3),
    lambda t, m: t.nn.ModuleList([m])(1),
    lambda t, m: t.nn.ModuleDict([["a", m, 3]]),
    lambda t, m: t.nn.ModuleDict(3),
    lambda t, m: t.nn.ModuleDict()["a"],
    lambda t, m: t.nn.ParameterList().extend(3),
    lambda t, m: t.nn.ParameterList()(1),
    lambda t, m: t.nn.ParameterDict()(1),
    lambda t, m: t.nn.ParameterDict({3: m.weight}),
    lambda t, m: t.nn.ParameterDict()["a"],
    lambda t, m: t.nn.Conv2d(3, 4, 1, groups=2),
    lambda t, m: t.nn.Conv2d(4, 3, 1, groups=2),
    lambda t, m: t.nn.Conv2d(4, 3, 1, groups=0),
    lambda t, m: t.nn.Conv2d(4, 3, 1, padding="same", stride=2),
    lambda t, m: t.nn.GroupNorm(2, 3),
    lambda t, m: t.nn.Dropout(2.0),
    lambda t, m: t.nn.BatchNorm1d(3)(t.zeros(1)),
    lambda t, m: t.nn.BatchNorm2d(3)(t.zeros(1)),
    lambda t, m: t.nn.Embedding(3, 2, padding_idx=3),
    lambda t, m: t.nn.Embedding(3, 2, _weight=t.zeros(1, 1)),
    lambda t, m: t.nn.Embedding.from_pretrained(t.zeros(1)),
    lambda t, m: t.nn.Hardtanh(1.0, 0.0),
    lambda t, m: t.nn.Softmax2d()(t.zeros(1)),
    lambda t, m: t.nn.MultiheadAttention(0, 1),
    lambda t, m: t.nn.MultiheadAttention(5, 2),
    lambda t, m: t.nn.Unflatten(1, 3),
    lambda t, m: t.nn.Unflatten(1, ("a",)),
    lambda t, m: t.nn.Bilinear(0, 1, 1),
    lambda t, m: t.nn.init.calculate_gain("nothing"),
    lambda t, m: t.nn.init.calculate_gain("leaky_relu", True),
    lambda t, m: t.nn.init.xavier_uniform_(t.zeros(1)),
    lambda t, m: t.nn.init.kaiming_uniform_(t.zeros(1, 1), mode="no"),
    lambda t, m: t.nn.init.orthogonal_(t.zeros(1)),
    lambda t, m: t.nn.init.dirac_(t.zeros(1)),
    lambda t, m: t.nn.init.eye_(t.zeros(1)),
    lambda t, m: t.nn.init.sparse_(t.zeros(1), 0.1),
]


@pytest.mark.parametrize("use", BAD_USES)
def test_errors_equal_pytorch(use):
    assert_same_error(
        lambda: use(torch, torch.nn.Linear(1, 1)), lambda: use(real, real.nn.Linear(1, 1))
    )


@pytest.mark.parametrize("nn", [0, 1])
def test_uninitialized_module_errors_equal_pytorch(nn):
    def use(t):
        class Early(t.nn.Module):
            def __init__(self):
                self.x = t.nn.Parameter(t.zeros(1)) if nn == 0 else t.nn.ReLU()

        Early()

    assert_same_error(lambda: use(torch), lambda: use(real))


def full_hook_log(t, register):
    """Run a model with hooks and log what they see."""
    log = []

    class Two(t.nn.Module):
        def forward(self, x, y, flag=False):
            return x * y, x + 1

    model = Two()
    register(model, log)
    x = t.tensor([1.0, 2.0], requires_grad=True)
    y = t.tensor([3.0, 4.0])
    a, b = model(x, y)
    (a.sum() * 2 + (b.sum() if len(log) % 2 else 0)).backward()
    log.append(x.grad.tolist())
    return log


def shown(grads):
    return tuple(None if grad is None else grad.tolist() for grad in grads)


HOOKS = [
    lambda m, log: m.register_full_backward_hook(
        lambda m, gi, go: log.append((shown(gi), shown(go)))
    ),
    lambda m, log: m.register_full_backward_hook(lambda m, gi, go: (gi[0] * 5, None)),
    lambda m, log: m.register_full_backward_pre_hook(
        lambda m, go: (log.append(shown(go)), (go[0] * 3, go[1]))[1]
    ),
    lambda m, log: (
        m.register_full_backward_hook(lambda m, gi, go: log.append(("a", shown(gi)))),
        m.register_full_backward_hook(lambda m, gi, go: log.append(("b", shown(gi))), prepend=True),
        m.register_forward_pre_hook(lambda m, args: (args[0] * 2, args[1])),
        m.register_forward_hook(lambda m, args, out: (out[0] * 7, out[1])),
        m.register_forward_hook(
            lambda m, args, kwargs, out: log.append(sorted(kwargs)), with_kwargs=True
        ),
        m.register_forward_pre_hook(
            lambda m, args, kwargs: (args, {"flag": True}), with_kwargs=True, prepend=True
        ),
    ),
]


@pytest.mark.parametrize("register", HOOKS)
def test_hooks_equal_pytorch(register):
    assert full_hook_log(torch, register) == full_hook_log(real, register)


def test_backward_hook_without_input_gradient_equals_pytorch():
    def run(t):
        log = []
        model = t.nn.Linear(2, 1)
        model.register_full_backward_hook(lambda m, gi, go: log.append((shown(gi), shown(go))))
        model(t.ones(1, 2)).sum().backward()
        return log

    assert run(torch) == run(real)


def test_always_call_hook_equals_pytorch():
    def run(t):
        log = []

        class Bad(t.nn.Module):
            def forward(self, x):
                raise KeyError("bad")

        model = Bad()
        model.register_forward_hook(lambda m, a, out: log.append(("no", out)))
        model.register_forward_hook(lambda m, a, out: log.append(("yes", out)), always_call=True)
        with pytest.raises(KeyError):
            model(1)
        return log

    assert run(torch) == run(real)


INITS = [
    ("uniform_", (-1.0, 2.0), {}),
    ("normal_", (1.0, 2.0), {}),
    ("trunc_normal_", (), {}),
    ("trunc_normal_", (0.0, 1.0, 2.0, 3.0), {}),
    ("xavier_uniform_", (), {"gain": 2.0}),
    ("xavier_normal_", (), {}),
    ("kaiming_uniform_", (), {"a": 0.1, "mode": "fan_out"}),
    ("kaiming_normal_", (), {"nonlinearity": "relu"}),
    ("orthogonal_", (), {"gain": 2.0}),
]


@pytest.mark.skipif(
    torch.Tensor is not real.Tensor, reason="equal draws need PyTorch's own generator"
)
@pytest.mark.parametrize("name,args,kwargs", INITS)
@pytest.mark.parametrize("shape", [(6, 5), (4, 7)])
def test_init_draws_equal_pytorch(name, args, kwargs, shape):
    tensors = []
    for t in (torch, real):
        generator = real.Generator().manual_seed(3)
        tensor = t.zeros(shape)
        getattr(t.nn.init, name)(tensor, *args, generator=generator, **kwargs)
        tensors.append(tensor)
    assert_equal(*tensors, 1e-6)


def test_deterministic_inits_equal_pytorch():
    for name, shape, args in (
        ("dirac_", (4, 2, 3, 3), (2,)),
        ("eye_", (3, 4), ()),
        ("ones_", (2,), ()),
        ("zeros_", (2,), ()),
        ("constant_", (2,), (0.3,)),
    ):
        own, other = torch.ones(shape) * 9, real.ones(shape) * 9
        getattr(torch.nn.init, name)(own, *args)
        getattr(real.nn.init, name)(other, *args)
        assert_equal(own, other)


@pytest.mark.parametrize("norm_type", [1.0, 2.0, float("inf")])
@pytest.mark.parametrize("max_norm", [0.1, 100.0])
def test_clipping_equals_pytorch(norm_type, max_norm):
    results = []
    for t, make in ((torch, to_ours), (real, to_real)):
        parameters = [t.nn.Parameter(t.zeros(3, 2)), t.nn.Parameter(t.zeros(4))]
        for place, parameter in enumerate(parameters):
            parameter.grad = make(random_array(tuple(parameter.shape), place))
        norm = t.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)
        t.nn.utils.clip_grad_value_(parameters[0], 0.05)
        vector = t.nn.utils.parameters_to_vector([p.grad for p in parameters])
        results.append((norm, vector))
    for own, other in zip(*results, strict=True):
        assert_equal(own, other)


def test_copies_and_pickles_keep_everything():
    model = build(torch.nn)
    model[0].weight.grad = torch.ones(2, 2)
    for other in (copy.deepcopy(model), pickle_round_trip(torch.nn.Linear(2, 2))):
        assert isinstance(next(other.parameters()), torch.nn.Parameter)
    clone = copy.deepcopy(model)
    assert clone[2].tied is clone[0].weight and clone[0].weight is not model[0].weight


def pickle_round_trip(value):
    return pickle.load(io.BytesIO(pickle.dumps(value)))
