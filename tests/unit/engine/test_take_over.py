"""A kernel that updates in place starts from what the input held, whoever reads its result."""

import math

import pytest

import rushlight as torch
from rushlight.base.config import config
from rushlight.ir import scalar


def test_scatter_into_a_value_that_is_only_passed_on():
    for _ in range(3):
        x = torch.zeros(4, 3)
        x.tolist()
        x.index_add_(0, torch.tensor([1, 1]), torch.ones(2, 3))
        x += 1
        assert x.tolist() == [[1.0] * 3, [3.0] * 3, [1.0] * 3, [1.0] * 3]


def computed(*shape):
    """A tensor in memory of its own, with 0, 1, 2, ... in it."""
    x = torch.arange(math.prod(shape), dtype=torch.float32).reshape(shape) + 0
    x.tolist()
    return x


UPDATES = {
    "own rows": lambda x, i: x.__setitem__(slice(i, i + 2), x[i : i + 2] * 2),
    "in-place op": lambda x, i: x[i : i + 2].mul_(2),
    "strided": lambda x, i: x[i::3].add_(1),
    "columns": lambda x, i: x[:, i].sub_(1),
    "rows above": lambda x, i: x.__setitem__(slice(i + 1, i + 3), x[i : i + 2]),
    "turned": lambda x, i: x.__setitem__(slice(i, i + 4), torch.flip(x[i : i + 4], (0,))),
    "transposed": lambda x, i: x[i : i + 4, :4].copy_(x[i : i + 4, :4].t().clone()),
    "through an index": lambda x, i: x.__setitem__(slice(i, i + 2), x[torch.tensor([i + 1, i])]),
    "sum of all": lambda x, i: x[i : i + 2].add_(x.sum()),
    "index from itself": lambda x, i: x[i : i + 2].copy_(x[x[i : i + 2, 0].long() % 8]),
}
IN_PLACE = ("own rows", "in-place op", "strided", "columns")


@pytest.mark.parametrize("name", UPDATES)
def test_a_region_updated_from_the_tensor_itself(name):
    """As numpy-like eager code: each update sees the whole tensor as it was before."""
    x, expected = computed(8, 5), computed(8, 5).numpy().copy()
    for i in range(4):
        UPDATES[name](x, i)
        torch.flush()
        fresh = torch.tensor(expected)
        with config.override(backend="interp"):
            UPDATES[name](fresh, i)
            expected = fresh.numpy().copy()
        assert x.tolist() == expected.tolist()


@pytest.mark.parametrize("name", UPDATES)
def test_only_a_region_that_reads_itself_alone_is_updated_in_place(name):
    x = computed(8, 5)
    before = x.data_ptr()
    for i in (1, 2, 3):
        UPDATES[name](x, i)
        torch.flush()
    kept = x.data_ptr() == before
    assert kept == (name in IN_PLACE)


def training(sizes, optimizer_class, **options):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:], strict=False)]
    model = torch.nn.Sequential(torch.nn.LayerNorm(sizes[0]), *layers)
    optimizer = optimizer_class(model.parameters(), **options)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def held():
        tensors = list(model.parameters())
        for state in optimizer.state.values():
            tensors += [v for v in state.values() if isinstance(v, torch.Tensor) and v.dim()]
        return tensors

    return step, held


OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9},
    "AdamW": {"lr": 0.01},
    "Adam": {"lr": 0.01, "amsgrad": True},
    "RMSprop": {"lr": 0.01, "centered": True, "momentum": 0.5},
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_replayed_step_updates_weights_and_moments_where_they_are(name):
    """Also those whose gradient is a product or a sum in the same kernel, and weights that the
    gradient of the layer's input reads; the bits are those of the eager step."""
    optimizer = getattr(torch.optim, name)
    step, held = training((24, 40, 40, 8), optimizer, **OPTIMIZERS[name])
    plain, expected = training((24, 40, 40, 8), optimizer, **OPTIMIZERS[name])
    compiled = torch.compile(step)
    x = torch.arange(16 * 24).reshape(16, 24) % 11 / 10.0
    places = []
    for _ in range(8):
        assert compiled(x).tolist() == plain(x).tolist()
        places.append([t._storage.node.buffer.address for t in held()])
        assert [t.tolist() for t in held()] == [t.tolist() for t in expected()]
    assert compiled.replays >= 4
    moved = [n for n, (a, b) in enumerate(zip(places[-2], places[-1], strict=True)) if a != b]
    assert moved == []


def test_a_kept_old_value_stays_as_it_was():
    step, held = training((24, 40, 8), torch.optim.AdamW, lr=0.01)
    compiled = torch.compile(step)
    x = torch.ones(16, 24)
    for _ in range(5):
        compiled(x)
    kept = [t.detach().clone() for t in held()]
    before = [t.tolist() for t in kept]
    compiled(x)
    assert [t.tolist() for t in kept] == before
    assert [t.tolist() for t in held()] != before


def expressions_walked(parameters: int, monkeypatch) -> int:
    """How many expressions the compiler looks at for a clipped step over so many parameters."""
    weights = [torch.nn.Parameter(computed(3, 2 + i % 3)) for i in range(parameters)]
    optimizer = torch.optim.SGD(weights, lr=0.1, momentum=0.9)
    walked, original = [], scalar.topological

    def counted(roots):
        found = original(roots)
        walked.append(len(found))
        return found

    for weight in weights:
        weight.grad = computed(*weight.shape)
    with monkeypatch.context() as patch:
        patch.setattr(scalar, "topological", counted)
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        weights[0].tolist()
    return sum(walked)


def test_the_work_of_the_compiler_grows_with_the_parameters_not_their_square(monkeypatch):
    with config.override(cache=False):
        few, many = (expressions_walked(count, monkeypatch) for count in (30, 90))
    assert 2 * few < many < 5 * few
