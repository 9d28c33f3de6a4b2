"""Loops that look at no value before their end: one program a turn, and no turn is kept."""

import weakref

import pytest

import rushlight as torch
from rushlight.engine.programs import ProgramCache

nn, F = torch.nn, torch.nn.functional


def _model() -> nn.Module:
    torch.manual_seed(0)
    layers = (nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 5), nn.LogSoftmax(1))
    return nn.Sequential(*layers).eval()


def _hits(model: nn.Module, batches: int) -> tuple[int, float]:
    hits, loss = 0, 0.0
    with torch.no_grad():
        for i in range(batches):
            x = torch.full((4, 6), 0.1 * i) * torch.arange(6)
            z = model(x)
            hits += (z.argmax(1) == i % 5).sum()
            loss += F.nll_loss(z, torch.full((4,), i % 5))
    return int(hits), round(float(loss), 4)


@pytest.mark.parametrize("hooked", [False, True])
def test_batches_that_are_counted(fresh_programs: ProgramCache, hooked: bool) -> None:
    model = _model()
    if hooked:
        model.register_forward_hook(lambda *_: None)
    first = _hits(model, 7)
    made = fresh_programs.compiled
    assert _hits(model, 12) != first and _hits(model, 7) == first
    assert fresh_programs.compiled <= made + 1 <= 5  # the last turn, and what is left of it


def test_memory_of_a_turn_goes_with_it() -> None:
    model, kept, hits = _model(), [], 0
    with torch.no_grad():
        for i in range(6):
            x = torch.tensor([[float(i + j) for j in range(6)]] * 4)  # in memory, without a flush
            kept.append(weakref.ref(x._storage.node))
            hits = hits + model(x).argmax(1)
            del x
    assert [ref() is None for ref in kept[:4]] == [True] * 4
    assert hits.shape == (4,)


def test_tokens_that_are_joined(fresh_programs: ProgramCache) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(9, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 9)).eval()

    def write(count: int) -> torch.Tensor:
        row = torch.tensor([[1, 2]])
        with torch.no_grad():
            for _ in range(count):
                row = torch.cat([row, model(row).mean(1, keepdim=True).argmax(-1)], 1)
        return row

    long = write(20).tolist()
    made = fresh_programs.compiled
    for count in (13, 16, 11, 18, 9, 12):
        assert write(count).tolist()[0] == long[0][: count + 2]
    assert made <= 4 and fresh_programs.compiled <= made + 2


def test_with_gradients_all_calls_are_one_program(fresh_programs: ProgramCache) -> None:
    model, x = _model(), torch.ones(4, 6)
    loss = sum(model(x * i).square().mean() for i in range(4))
    assert fresh_programs.compiled == 0
    loss.backward()
    assert model[0].weight.grad is not None


def test_a_compiled_call_is_not_cut() -> None:
    model = _model()

    @torch.compile
    def four(x: torch.Tensor) -> torch.Tensor:
        return sum(model(x * i) for i in range(4))

    x = torch.ones(4, 6)
    with torch.no_grad():
        expected = sum(model(x * i) for i in range(4))
        for _ in range(3):
            assert torch.equal(four(x), expected)
    assert (four.captures, four.replays) == (2, 1)  # the first call sees its code
    mapped = torch.vmap(lambda row: model(row[None]) + model(2 * row[None]))
    with torch.no_grad():
        assert torch.equal(mapped(x)[:, 0], model(x) + model(2 * x))


def test_what_a_compiled_function_gave_is_counted(fresh_programs: ProgramCache) -> None:
    double, x = torch.compile(lambda x: x * 2), torch.ones(3)
    double(x)
    double(x)
    made = fresh_programs.compiled
    with torch.no_grad():
        for count in (8, 11):
            total = torch.zeros(())
            for i in range(count):
                z = double(x)
                total = total + (
                    (z + i).sin().square().sum() * 0 + z.max() * z.sum().sqrt() * 0 + 1
                )
            assert total.item() == count
    assert fresh_programs.compiled <= made + 4
