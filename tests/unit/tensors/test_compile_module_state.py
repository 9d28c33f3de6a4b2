"""Compiled modules that change buffers or look up rows, differentiated outside: replayed.

Bits, versions and states are those of the module without compile, and so are errors.
"""

from __future__ import annotations

import copy
import re
import warnings

import numpy as np
import pytest

import rushlight as torch
from rushlight import nn
from tests.unit.tensors.compile_checks import array, grads, own_bits, replays, settled

F = nn.functional


def state(module):
    """Every parameter and buffer, with its version."""
    named = [*module.named_parameters(), *module.named_buffers()]
    return {name: (own_bits(t), t._version) for name, t in named}


def pair(make, seed=0):
    """Two equal modules, the second one compiled: (module, what to call) each."""
    found = []
    for _ in range(2):
        torch.manual_seed(seed)
        found.append(make())
    return (found[0], found[0]), (found[1], torch.compile(found[1]))


def one_step(module, call, args, seed):
    torch.manual_seed(seed)
    out = call(*args)
    loss = (out.float() ** 2).mean()
    if loss.requires_grad:
        loss.backward()
    return [own_bits(out), own_bits(torch.rand(2)), grads(*module.parameters()), state(module)]


def check_steps(ways, args_of, turns=6, before=lambda module, turn: None):
    """Equal steps of both modules; gives how many were replayed."""
    for turn in range(turns):
        args, found = args_of(turn), []
        for module, call in ways:
            before(module, turn)
            found.append(one_step(module, call, args, turn))
        for got, want in zip(*found, strict=True):
            assert got == want, turn
    return replays(ways[1][1])


class Shared(nn.Module):
    """Two norms with the same buffers, and one norm that is used twice."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.BatchNorm1d(4), nn.BatchNorm1d(4, momentum=0.3)
        self.second.running_mean = self.first.running_mean
        self.second.num_batches_tracked = self.first.num_batches_tracked

    def forward(self, x):
        return self.first(self.second(self.first(x)).tanh())


class Views(nn.Module):
    """Writes through views of buffers; one view is a buffer itself."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(3, 4))
        self.register_buffer("last", self.rows[2])
        self.weight = nn.Parameter(array(4, 4))

    def forward(self, x):
        with torch.no_grad():
            self.rows[0].mul_(0.5).add_(x.mean(0))
            self.rows[:, 1] += 1
            self.last.copy_(x[0])
        return x @ self.weight + self.rows[0] + self.last


class Data(nn.Module):
    """Buffers changed through `.data`, whose counter is not the storage's."""

    def __init__(self, counts=True):
        super().__init__()
        self.counts = counts
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("seen", torch.tensor(0))
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        self.mean.data.lerp_(x.mean(0), 0.25)
        if self.counts:
            self.seen += x.shape[0]
        return self.layer(x - self.mean) / (self.seen + 1)


class Words(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.table, self.norm = nn.Embedding(7, 4, **options), nn.BatchNorm1d(4)
        self.drop, self.head = nn.Dropout(0.4), nn.Linear(4, 3)

    def forward(self, index):
        return self.head(self.drop(self.norm(self.table(index).sum(1))))


def numbers(turn, *shape, most=7):
    return torch.tensor(np.random.default_rng(turn).integers(0, most, shape).tolist())


def rows(turn):
    return (array(6, 4, seed=turn),)


def images(turn):
    return (array(2, 3, 6, 6, seed=turn),)


def words(turn):
    return (numbers(turn, 5, 3),)


MODULES = {
    "cnn": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(),
                                  nn.Conv2d(4, 2, 3), nn.BatchNorm2d(2), nn.Flatten()), images),
    "average": (lambda: nn.Sequential(nn.BatchNorm1d(4, momentum=None), nn.Linear(4, 4),
                                      nn.BatchNorm1d(4, momentum=None)), rows),
    "no affine": (lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, affine=False)), rows),
    "no statistics": (lambda: nn.BatchNorm1d(4, track_running_stats=False), rows),
    "instance": (lambda: nn.InstanceNorm2d(3, affine=True, track_running_stats=True), images),
    "3d": (lambda: nn.Sequential(nn.Unflatten(1, (3, 1)), nn.Conv3d(3, 2, 1), nn.BatchNorm3d(2)),
           images),
    "moved": (lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).double().float(), rows),
    "bfloat16": (lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).bfloat16(),
                 lambda turn: (array(6, 4, seed=turn).bfloat16(),)),
    "shared": (Shared, rows),
    "views": (Views, rows),
    "data": (Data, rows),
    "data alone": (lambda: Data(counts=False), rows),
    "spectral": (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3)), rows),
    "words": (Words, words),
    "words of int32": (Words, lambda turn: (numbers(turn, 5, 3).int(),)),
    "padding": (lambda: Words(padding_idx=2), words),
    "short rows": (lambda: Words(max_norm=0.5), words),
    "by frequency": (lambda: Words(scale_grad_by_freq=True), words),
    "bag": (lambda: nn.EmbeddingBag(7, 4, mode="mean"), words),
    "lookup": (lambda: Lookup(), words),
}  # fmt: skip


class Lookup(nn.Module):
    """Other ways to look something up."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(array(7, 4))

    def forward(self, index):
        picked = self.table[index] + self.table.index_select(0, index[0]).sum(0)
        soft = F.one_hot(index, 7).float() @ self.table
        kept = torch.gather(self.table, 0, index[:, :1].expand(5, 4) % 7)
        return picked + soft + kept[:, None] + F.cross_entropy(soft.sum(1), index[:, 0] % 4)


@pytest.mark.parametrize("name", MODULES)
def test_modules_with_state_are_replayed_with_equal_bits(name):
    make, args_of = MODULES[name]
    ways = pair(make)
    assert check_steps(ways, args_of) >= 3, torch.compile_report(ways[1][1])


@pytest.mark.parametrize("name", ["cnn", "shared", "views", "words", "average"])
def test_without_gradients_too(name):
    make, args_of = MODULES[name]
    with torch.no_grad():
        ways = pair(make)
        assert check_steps(ways, args_of) >= 3, torch.compile_report(ways[1][1])


def test_training_and_evaluation_in_turn_with_an_optimizer():
    ways = pair(lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)))
    steps = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m, _ in ways]

    def before(module, turn):
        module.train(turn % 4 < 2)
        if turn:
            steps[0 if module is ways[0][0] else 1].step()

    assert check_steps(ways, rows, 16, before) >= 10


def test_what_changes_between_calls_is_seen():
    """Loaded, reset, frozen, copied, replaced: the next call reads what is there."""
    ways = pair(lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
    saved = copy.deepcopy(ways[0][0].state_dict())
    changes = {
        3: lambda m: m.load_state_dict(saved),
        5: lambda m: m[1].reset_running_stats(),
        7: lambda m: m.load_state_dict(copy.deepcopy(saved), assign=True),
        9: lambda m: setattr(m[1], "momentum", 0.5),
        12: lambda m: setattr(m[1], "momentum", None),
        15: lambda m: m[1].running_mean.copy_(torch.ones(4)),
        16: lambda m: setattr(m[1], "running_var", torch.full((4,), 2.0)),
        18: lambda m: m.double().float(),
        20: lambda m: m[1].num_batches_tracked.fill_(100),
        22: lambda m: setattr(m[1].running_mean, "data", m[1].running_mean.data),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        count = check_steps(ways, rows, 28, lambda m, turn: changes.get(turn, id)(m))
    assert count >= 9
    module, run = ways[1]
    twin = copy.deepcopy(run)
    before = state(module)
    for turn in range(4):
        (twin(*rows(turn)) ** 2).sum().backward()
    assert state(module) == before and replays(twin) >= 1
    assert twin[1].num_batches_tracked.item() == module[1].num_batches_tracked.item() + 4


def test_the_state_of_many_calls_that_wait():
    """Nobody looks in between: the chain of new values is cut now and then, or not at all."""
    ways = pair(lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
    for turn in range(40):
        outs = [call(*rows(turn)) for _, call in ways]
    assert own_bits(outs[0]) == own_bits(outs[1])
    assert state(ways[0][0]) == state(ways[1][0]) and replays(ways[1][1]) == 38


def test_buffers_that_numpy_sees_are_written_at_once():
    ways = pair(lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
    check_steps(ways, rows)
    seen = [module[1].running_mean.numpy() for module, _ in ways]
    weights = [module[0].weight.detach().numpy() for module, _ in ways]
    plain = nn.Linear(4, 4)
    run = settled(torch.compile(plain), *rows(0))
    weight = plain.weight.detach().numpy()
    out, wanted = run(*rows(0)), plain(*rows(0)).detach().clone()
    weight += 1
    assert own_bits(out) == own_bits(wanted)
    for turn in range(3):
        outs = [call(*rows(turn)) for _, call in ways]
        assert seen[0].tobytes() == seen[1].tobytes() == own_bits(ways[1][0][1].running_mean)[2]
        for weight in weights:
            weight += 1  # after it was read
        assert own_bits(outs[0]) == own_bits(outs[1])


def test_arguments_that_are_changed():
    def fn(a, b, count):
        b.mul_(0.5).add_(a.detach())
        count += 1
        return (a * b * count).tanh()

    run = torch.compile(fn)
    for turn in range(8):
        found = []
        for call in (run, fn):
            a, b = array(3, 4, seed=turn).requires_grad_(), array(3, 4, seed=turn + 1)
            if turn == 5:
                b = b.data  # a counter of its own
            count = torch.tensor(float(turn))
            call(a, b, count).sum().backward()
            found.append([own_bits([a.grad, b, count]), a._version, b._version, count._version])
        assert found[0] == found[1], turn
    assert run.replays >= 5
    for _ in range(4):
        run(a, b, count)
    memory = np.ones((3, 4), np.float32)
    shared, a = torch.from_numpy(memory), array(3, 4).requires_grad_()
    with pytest.warns(UserWarning, match="ordinary lazy code"):
        out = run(a, shared, torch.tensor(1.0))
    assert memory.tobytes() == own_bits(0.5 + a.detach())[2] and out.requires_grad


def test_the_version_of_a_new_tensor():
    fn = lambda x, y: ((x * 2).add_(1).mul_(y), x * y, y.data)  # noqa: E731
    for learns in (False, True):
        run, x = torch.compile(fn), array(3).requires_grad_(learns)
        y = array(3).data
        y.add_(1)
        for _ in range(5):
            assert [t._version for t in run(x, y)] == [2, 0, 0]


@pytest.mark.parametrize("learns", [False, True])
def test_versions_of_arguments_with_counters_of_their_own(learns):
    def fn(a, b, w):
        b.add_(1)
        return (a * w).sum() + b.sum()

    run, w = torch.compile(fn), array(3).requires_grad_(learns)
    for turn in range(5):  # two names of one memory; it is the second one's counter that moves
        found = []
        for call in (run, fn):
            b = array(3, seed=turn)
            a = b.data
            found.append([own_bits([call(a, b, w), a, b]), a._version, b._version])
        assert found[0] == found[1], turn
    assert run.replays == 3
    for first in (True, False):
        run = torch.compile(lambda b, w: (b.add_(1) * w).sum())
        for turn in range(6):  # captured with one kind of counter, replayed with the other
            b = array(3)
            b = b.data if (turn < 3) is first else b
            run(b, w)
            assert b._version == 1, turn
        assert run.replays == 4


def test_an_argument_of_a_gradient_that_is_changed_after_it_was_saved():
    """The error of the backward pass is there with and without compile."""

    def fn(a, b):
        out = a * b
        b.add_(1)
        return out

    run, a = torch.compile(fn), array(3).requires_grad_()
    for _ in range(5):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            run(a, array(3)).sum().backward()
    norm = nn.BatchNorm1d(4).eval()
    run = settled(torch.compile(norm), array(3, 4))
    out = run(array(3, 4))
    norm.running_var.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_versions_of_a_moved_module_in_a_captured_step():
    """Its parameters have counters that are not their storages'."""
    found = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).double().float()
        optimizer, x = torch.optim.SGD(model.parameters(), lr=0.1), array(5, 4)

        def step(model=model, optimizer=optimizer, x=x):
            optimizer.zero_grad()
            (model(x) ** 2).mean().backward()
            optimizer.step()
            return model[0].weight[1:].detach(), model[0].weight.detach()

        run = torch.compile(step) if compiled else step
        for _ in range(8):
            part, whole = run()
        part.add_(1)
        found.append([state(model), part._version, whole._version, own_bits(whole)])
    assert found[0] == found[1] and run.replays >= 4


# indices ---------------------------------------------------------------------------------------


class Fails(nn.Module):
    """State that is changed before and after the line that may fail."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 4)
        self.register_buffer("before", torch.tensor(0))
        self.register_buffer("after", torch.tensor(0))

    def forward(self, index):
        self.before += 1
        found = self.table(index)
        self.after += 1
        return found


LINE = Fails.forward.__code__.co_firstlineno + 2


def test_an_index_that_is_known_is_an_error_at_once():
    """The code runs, so all is as without compile: what came before the line stays."""
    for first in (True, False):
        ways = pair(Fails)
        if not first:
            check_steps(ways, lambda turn: (numbers(turn, 3, most=5),))
        found = []
        for module, call in ways:
            for bad in (torch.tensor([1, 5, 0]), torch.tensor([-1, 2, 2])):
                with pytest.raises(IndexError, match="^index out of range in self$"):
                    call(bad)
            found.append(state(module))
        assert found[0] == found[1]
        assert ways[1][0].after.item() == ways[1][0].before.item() - 2
        assert check_steps(ways, lambda turn: (numbers(turn, 3, most=5),), 4) >= 2


def test_an_index_that_is_computed_names_the_users_line():
    ways = pair(Fails)
    check_steps(ways, lambda turn: (numbers(turn, 3, most=4) + 1,))
    module, run = ways[1]
    count, before = replays(run), state(module)
    where = re.escape(f"{__file__}:{LINE}")
    for index, factor, seen in (([1, 2, 7], 1, 7), ([1, 2, 9], 2, 18)):
        out = run(torch.tensor(index) * factor)
        assert module.after._version == before["after"][1] + 1
        with pytest.raises(IndexError, match=rf"embedding \(recorded at {where}\).*index {seen} "):
            out.sum().backward()
        assert state(module) == before  # a replayed call that fails changes nothing
    assert replays(run) == count + 2
    assert check_steps(ways, lambda turn: (numbers(turn, 3, most=5),), 3) > count


def test_the_line_is_that_of_the_call_where_no_code_of_the_user_is_inside():
    run = torch.compile(nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 2)))
    for turn in range(4):
        run(numbers(turn, 3, most=4) + 1).sum().backward()
    assert replays(run) == 2
    out = run(numbers(0, 3) + 7)
    with pytest.raises(IndexError) as caught:
        out.tolist()
    text = str(caught.value)
    line = int(re.search(r"recorded at .*:(\d+)\)", text).group(1))
    with open(__file__, encoding="utf-8") as file:
        assert "out = run(numbers(0, 3) + 7)" in file.read().splitlines()[line - 1]


def test_targets_of_a_loss_inside_are_checked():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x, y):
            return F.cross_entropy(self.layer(x), y, ignore_index=-1)

    ways = pair(Model)
    good = lambda turn: (*rows(turn), numbers(turn, 6, most=3) - int(turn == 2))  # noqa: E731
    assert check_steps(ways, good) >= 3
    for _, call in ways:
        with pytest.raises(IndexError, match="Target 3 is out of bounds."):
            call(*rows(0), torch.tensor([0, 1, 3, 0, 1, 2]))


# views -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [False, True], ids=["own memory", "numpy's"])
@pytest.mark.parametrize("learns", [False, True])
def test_views_of_arguments_that_are_views(shared, learns):
    """The batches of a data set, looked at in other shapes: one replay for all places."""
    data = array(40, 2, 3)
    data = torch.from_numpy(np.array(data.tolist(), np.float32)) if shared else data
    layer = nn.Linear(6, 2)

    def fn(x):
        flat = x.flatten(1)
        return layer(flat) + flat[:, 0:2] * x[:, 1, 1:] + x.transpose(1, 2).reshape(-1, 6)[:, 4:]

    layer.requires_grad_(learns)
    run, count = torch.compile(fn), 0
    for at in range(0, 36, 4):
        count, found = run.replays, []
        for call in (run, fn):
            out = call(data[at : at + 4])
            if learns:
                (out**2).sum().backward()
            found.append([own_bits(out), grads(*layer.parameters())])
        assert found[0] == found[1]
    assert run.replays == count + 1 == 7, torch.compile_report(run)


def test_gradients_through_views_of_arguments_that_are_views():
    data = array(6, 2, 3).requires_grad_()
    fn = lambda x: (x.view(6).tanh() * x.t().reshape(6)).exp()  # noqa: E731
    run = torch.compile(fn)
    for at in range(6):
        found = []
        for call in (run, fn):
            call(data[at]).sum().backward()
            found.append(grads(data))
        assert found[0] == found[1]
    assert run.replays >= 3, torch.compile_report(run)


def test_an_argument_that_is_a_view_and_is_written_stays_right():
    fn = lambda x, w: (x.add_(1).view(4) * w).sum()  # noqa: E731
    run, w = torch.compile(fn), array(4).requires_grad_()
    data = [array(5, 4), array(5, 4)]
    for at in range(5):
        found = []
        for call, memory in zip((run, fn), data, strict=True):
            call(memory[at], w).backward()
            found.append([own_bits(memory), grads(w)])
        assert found[0] == found[1]


def test_a_view_of_a_buffer_is_returned():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("rows", torch.zeros(3, 4))
            self.weight = nn.Parameter(array(4))

        def forward(self, x):
            self.rows[1] += x
            row = self.rows[1]
            return x * self.weight, row, self.weight[1:], x[:2], self.rows, row

    ways = pair(Model)
    for turn in range(6):
        found = []
        for module, call in ways:
            x = array(4, seed=turn)
            out, row, part, head, rows_, again = call(x)
            assert again is row and rows_ is module.rows and row._storage is module.rows._storage
            assert head._storage is x._storage and part.grad_fn is not None
            (out.sum() + (part**2).sum()).backward()
            row.mul_(0.5)
            found.append([own_bits([out, row, part, head]), grads(module.weight), state(module)])
        assert found[0] == found[1]
    assert replays(ways[1][1]) >= 3, torch.compile_report(ways[1][1])
