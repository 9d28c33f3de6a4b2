"""Records against PyTorch 2.13: values and gradients of the decomposed graphs, kinks included."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent.parent / "ops"))

from _graph import primitives  # noqa: E402
from _vjp import vjp  # noqa: E402

from rushlight.ir.opdef import NotDifferentiable, all_ops  # noqa: E402
from rushlight.ops import einsum  # noqa: E402
from rushlight.ops.samples import Sample  # noqa: E402
from rushlight.testing.calls import Built  # noqa: E402

pytestmark = pytest.mark.parity
F = torch.nn.functional
OPS = all_ops()
SAME = (
    "neg abs sign exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin "
    "acos atan sinh cosh tanh asinh acosh atanh erf erfc erfinv digamma lgamma sigmoid floor "
    "ceil trunc round isnan isinf isfinite signbit logical_not add sub mul div floor_divide "
    "fmod remainder pow maximum minimum atan2 copysign eq ne lt le gt ge logical_and "
    "logical_or logical_xor where square lerp hypot logaddexp logaddexp2 xlogy heaviside frac "
    "deg2rad rad2deg sinc isposinf isneginf matmul mm bmm mv outer relu selu inverse det"
).split()


def interpolate(x, size, scale, mode, **kw):
    return F.interpolate(x[:, None], size, mode=mode, **kw)[:, 0]


def cut(src, index):
    """PyTorch's scatters are differentiable only where src has the index's shape."""
    return src[tuple(slice(0, n) for n in index.shape)]


NAMED = {  # name -> function(torch, positional tensors and values, attributes)
    **{n: getattr(torch, n) for n in SAME},
    "clamp": lambda x, lo, hi: torch.clamp(x, lo, hi),
    "addcmul": lambda x, a, b, v: torch.addcmul(x, a, b, value=v),
    "addcdiv": lambda x, a, b, v: torch.addcdiv(x, a, b, value=v),
    "rsub": torch.rsub,
    "logit": lambda x, eps: torch.logit(x, None if eps is None else float(eps)),
    "nan_to_num": torch.nan_to_num,
    "isclose": lambda x, y, r, a, equal_nan: torch.isclose(x, y, r, a, equal_nan),
    "trigamma": lambda x: torch.polygamma(1, x),
    **{n: getattr(F, n) for n in "gelu silu elu celu leaky_relu softplus mish hardtanh".split()},
    **{n: getattr(F, n) for n in "relu6 hardsigmoid hardswish softsign tanhshrink".split()},
    **{n: getattr(F, n) for n in "hardshrink softshrink threshold".split()},
    "linear": lambda x, w, b: F.linear(x, w, b) if w.ndim > 1 else None,
    "log_sigmoid": F.logsigmoid,
    **{n: getattr(torch, n) for n in "amax amin any all argmax argmin".split()},
    "logsumexp": lambda x, dim, keepdim: torch.logsumexp(
        x, tuple(range(x.ndim)) if dim is None else dim, keepdim
    ),
    **{n: getattr(torch, n) for n in "sum mean var std count_nonzero softmax log_softmax".split()},
    **{n: getattr(torch, n) for n in "cumsum cumprod logcumsumexp".split()},
    "norm": lambda x, p, dim, keepdim: torch.linalg.vector_norm(x, p, dim, keepdim),
    "scan_max": lambda x, dim: torch.cummax(x, dim)[0],
    "scan_min": lambda x, dim: torch.cummin(x, dim)[0],
    "scan_argmax": lambda x, dim: torch.cummax(x, dim)[1],
    "scan_argmin": lambda x, dim: torch.cummin(x, dim)[1],
    "stack": lambda tensors, dim: torch.stack(tensors, dim),
    "cat": lambda tensors, dim: torch.cat(tensors, dim),
    "roll": lambda x, shifts, dims: torch.roll(x, shifts, dims),
    "repeat": lambda x, repeats: x.repeat(repeats),
    "repeat_interleave": lambda x, repeats, dim: x.repeat_interleave(repeats, dim),
    "diagonal": torch.diagonal,
    "diag_embed": torch.diag_embed,
    "tril": torch.tril,
    "triu": torch.triu,
    "one_hot": F.one_hot,
    "as_strided": torch.as_strided,
    "pixel_shuffle": F.pixel_shuffle,
    "gather": lambda x, i, dim: torch.gather(x, dim, i),
    "scatter": lambda x, i, src, dim: torch.scatter(x, dim, i, cut(src, i)),
    "scatter_add": lambda x, i, src, dim: torch.scatter_add(x, dim, i, cut(src, i)),
    "scatter_reduce": lambda x, i, src, dim, **kw: torch.scatter_reduce(
        x, dim, i, cut(src, i), **kw
    ),
    "index_select": lambda x, i, dim: torch.index_select(x, dim, i),
    "index_add": lambda x, i, src, dim: torch.index_add(x, dim, i, src),
    "index_copy": lambda x, i, src, dim: torch.index_copy(x, dim, i, src),
    "masked_fill": torch.masked_fill,
    "masked_scatter": torch.masked_scatter,
    "take_along_dim": lambda x, i, dim: torch.take_along_dim(x, i, dim),
    "searchsorted": lambda a, v, right: torch.searchsorted(a, v, right=right),
    "embedding": lambda w, i, padding_idx: F.embedding(i, w),
    **{f"conv{n}d": getattr(F, f"conv{n}d") for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": getattr(F, f"conv_transpose{n}d") for n in (1, 2, 3)},
    **{f"max_pool{n}d": getattr(F, f"max_pool{n}d") for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d": getattr(F, f"adaptive_avg_pool{n}d") for n in (1, 2, 3)},
    "avg_pool1d": lambda x, divisor_override, **kw: (
        F.avg_pool1d(x, **kw) if divisor_override is None else None
    ),
    "avg_pool2d": F.avg_pool2d,
    "avg_pool3d": F.avg_pool3d,
    "max_pool2d_index": lambda x, **kw: F.max_pool2d(x, return_indices=True, **kw)[1],
    "layer_norm": lambda x, w, b, eps, normalized_ndim: F.layer_norm(
        x, x.shape[-normalized_ndim:], w, b, eps
    ),
    "rms_norm": lambda x, w, eps, normalized_ndim: F.rms_norm(
        x, x.shape[-normalized_ndim:], w, eps
    ),
    "batch_norm": lambda x, w, b, eps: F.batch_norm(x, None, None, w, b, True, eps=eps),
    "batch_norm_inference": lambda x, m, v, w, b, eps: F.batch_norm(x, m, v, w, b, eps=eps),
    "group_norm": lambda x, w, b, eps, num_groups: F.group_norm(x, num_groups, w, b, eps),
    "normalize": lambda x, eps, p, dim: F.normalize(x, p, dim, eps),
    "cosine_similarity": lambda a, b, eps, dim: F.cosine_similarity(a, b, dim, eps),
    "cdist": torch.cdist,
    "cross": lambda a, b, dim: torch.linalg.cross(a, b, dim=dim),
    "mse_loss": F.mse_loss,
    "l1_loss": F.l1_loss,
    "smooth_l1_loss": lambda x, t, beta, reduction: F.smooth_l1_loss(
        x, t, reduction=reduction, beta=beta
    ),
    "huber_loss": lambda x, t, delta, reduction: F.huber_loss(x, t, reduction, delta),
    "binary_cross_entropy": lambda x, t, w, reduction: F.binary_cross_entropy(
        x, t, w, reduction=reduction
    ),
    "binary_cross_entropy_with_logits": lambda x, t, w, p, reduction: (
        F.binary_cross_entropy_with_logits(x, t, w, reduction=reduction, pos_weight=p)
    ),
    "kl_div": lambda x, t, log_target, reduction: F.kl_div(
        x, t, reduction=reduction, log_target=log_target
    ),
    "soft_margin_loss": F.soft_margin_loss,
    "cross_entropy": F.cross_entropy,
    "nll_loss": F.nll_loss,
    "scaled_dot_product_attention": lambda q, k, v, m, scale, is_causal: (
        F.scaled_dot_product_attention(q, k, v, m, is_causal=is_causal, scale=scale)
    ),
    "addmm": lambda x, a, b, beta, alpha: torch.addmm(x, a, b, beta=beta, alpha=alpha),
    "addmv": lambda x, a, b, beta, alpha: torch.addmv(x, a, b, beta=beta, alpha=alpha),
    "baddbmm": lambda x, a, b, beta, alpha: torch.baddbmm(x, a, b, beta=beta, alpha=alpha),
    "glu": F.glu,
    "nextafter": torch.nextafter,
    "im2col": lambda x, **kw: F.unfold(x, **kw),
    "col2im": lambda x, **kw: F.fold(x, **kw),
    "resize_nearest": lambda x, dim, size, scale, exact: (
        interpolate(x, size, scale, "nearest-exact" if exact else "nearest") if dim else None
    ),
    "resize_linear": lambda x, dim, size, scale, align_corners: (
        interpolate(x, size, scale, "linear", align_corners=align_corners) if dim else None
    ),
    "solve": torch.linalg.solve,
    "cholesky": torch.linalg.cholesky,
    "slogdet_sign": lambda x: torch.linalg.slogdet(x)[0],
    "logabsdet": lambda x: torch.linalg.slogdet(x)[1],
}
# Operands that PyTorch cannot differentiate.
FIXED = {
    "soft_margin_loss": ("target",),
}
# Inputs on the kinks: what PyTorch gives exactly there.
KINKS = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 3.0, -3.0, 6.0, 20.0, 25.0])
HARD = np.array([math.inf, -math.inf, math.nan, 0.0, -0.0, 1.0, -2.5, 2.5, 1e300, 100.0])


def samples_of(record) -> list[Sample]:
    found = list(record.samples(np.random.default_rng(sum(map(ord, record.name)))))
    tensors = [p for p in record.params if p.kind == "tensor"]
    if record.name in ("digamma", "lgamma", "trigamma"):
        return found  # poles
    if not found or record.kind not in ("elementwise", "composite") or not found[0].args:
        return found
    first = found[0]
    plain = all(
        isinstance(a, np.ndarray) and a.dtype == np.float64 for a in first.args[: len(tensors)]
    )
    if plain and len(tensors) == 1 and first.args[0].ndim == 2:
        more = [KINKS, HARD] if record.torch and _pointwise(record) else []
        return found + [Sample((x, *first.args[1:]), first.attrs) for x in more]
    if plain and len(tensors) == 2 and _pointwise(record):
        x, y = np.meshgrid(np.concatenate([KINKS[:6], HARD]), np.concatenate([KINKS[:6], HARD]))
        return found + [Sample((x, y, *first.args[2:]), first.attrs)]
    return found


NOT_POINTWISE = set(
    "outer matmul cross cdist cosine_similarity searchsorted rms_norm layer_norm normalize".split()
)


def _pointwise(record) -> bool:
    x = np.linspace(0.1, 0.9, 6)
    tensors = [p for p in record.params if p.kind == "tensor"]
    values = [p.default for p in record.params if p.kind == "value"]
    attrs = {p.name: p.default for p in record.params if p.is_attr}
    if any(p.kind in ("dim", "dims", "sizes", "offset", "size") for p in record.params):
        return False
    if "reduction" in attrs or record.name in NOT_POINTWISE:
        return False
    try:
        return Built(record, Sample((*[x] * len(tensors), *values), attrs)).node.shape == (6,)
    except Exception:
        return False


CASES = [pytest.param(OPS[n], f, id=n) for n, f in NAMED.items() if n in OPS]


def to_torch(value, grad: bool):
    if isinstance(value, list):
        return [to_torch(item, grad) for item in value]
    if not isinstance(value, np.ndarray | np.generic):
        return value
    tensor = torch.tensor(np.asarray(value))
    return tensor.requires_grad_(grad and tensor.is_floating_point())


@pytest.mark.parametrize(("record", "function"), CASES)
def test_record_agrees_with_pytorch(record, function):
    differentiable = not isinstance(record.grad, NotDifferentiable)
    for sample in samples_of(record):
        built = Built(record, sample)
        names = [p.name for p in record.params if not p.is_attr]
        fixed = (*sample.skip, *FIXED.get(record.name, ()))
        args = [
            to_torch(a, differentiable and name not in fixed)
            for name, a in zip(names, sample.args, strict=False)
        ]
        want = function(*args, **sample.attrs)
        if want is None:
            continue
        (have,) = built.run(primitives(built.node))
        assert tuple(want.shape) == have.shape
        assert str(want.dtype) == repr(built.node.dtype)
        np.testing.assert_allclose(have, want.detach().numpy(), rtol=1e-7, atol=1e-9)
        if differentiable and want.requires_grad:
            _compare_gradients(built, sample, args, want)


def _compare_gradients(built, sample, args, want) -> None:
    weights = np.random.default_rng(1).uniform(0.5, 1.5, want.shape)
    flat = [t for a in args for t in (a if isinstance(a, list) else [a])]
    leaves = [t for t in flat if isinstance(t, torch.Tensor)][: len(built.operands())]
    used = [t for t in leaves if t.requires_grad]
    expected = torch.autograd.grad(want, used, torch.tensor(weights), allow_unused=True)
    nodes = [n for _, n in built.operands()]
    pairs = [
        (n, e) for n, e in zip([n for n, t in zip(nodes, leaves, strict=True) if t.requires_grad],
                               expected, strict=True)
    ]  # fmt: skip
    grads = vjp(built.node, built.leaf(weights), [n for n, _ in pairs])
    for (node, theirs), ours in zip(pairs, grads, strict=True):
        if theirs is None or ours is None:
            assert theirs is None or not theirs.abs().max(), f"{node}: no gradient here"
            continue
        (value,) = built.run(ours)
        np.testing.assert_allclose(value, theirs.numpy(), rtol=1e-6, atol=1e-8)


EINSUM = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("ii->i", (3, 3)), ("ii", (3, 3)),
    ("bij,bjk->bik", (2, 2, 3), (2, 3, 4)), ("ij->ji", (2, 3)), ("i,j->ij", (2,), (3,)),
    ("...ij,...jk->...ik", (2, 1, 2, 3), (3, 4)), ("ij,ij->", (2, 3), (2, 3)),
    ("abc,cd,de->abe", (2, 3, 4), (4, 2), (2, 5)), ("ij,j->i", (2, 3), (3,)),
    ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)), ("a,b,c->", (2,), (3,), (2,)),
    ("...->...", (2, 3)), ("ba,b", (2, 3), (2,)), ("ij,kj->ik", (2, 3), (1, 3)),
]  # fmt: skip


@pytest.mark.parametrize("case", EINSUM, ids=[c[0] for c in EINSUM])
def test_einsum_agrees_with_pytorch(case):
    equation, *shapes = case
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-1, 1, shape) for shape in shapes]
    built = Built(OPS["neg"], Sample((arrays[0],)))
    nodes = [built.leaf(a) for a in arrays]
    (have,) = built.run(primitives(einsum(equation, *nodes)))
    want = torch.einsum(equation, *map(torch.tensor, arrays))
    assert have.shape == tuple(want.shape)
    np.testing.assert_allclose(have, want.numpy(), rtol=1e-9, atol=1e-12)


def test_most_records_are_compared():
    rest = [n for n in OPS if n not in NAMED]
    assert len(NAMED) > 150, rest
