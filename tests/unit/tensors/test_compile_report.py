"""`compile` says what it compiled, and which guard failed when it has to compile again."""

import gc
import logging
import subprocess
import sys
from types import SimpleNamespace

import pytest

import rushlight as torch
from rushlight.base.config import SettingError, child_environment, config

SETTING = SimpleNamespace(scale=2.0, name="a", items=[1.0, 2.0], table={"k": 1.0})


def reading(x):
    rest = SETTING.items[0] + SETTING.table["k"] + len(SETTING.name)
    return x * SETTING.scale + rest


@pytest.fixture
def setting(monkeypatch):
    for name, value in {
        "scale": 2.0,
        "name": "a",
        "items": [1.0, 2.0],
        "table": {"k": 1.0},
    }.items():
        monkeypatch.setattr(SETTING, name, value)
    return SETTING


def settled(function, *args):
    compiled = torch.compile(function)
    for _ in range(5):
        compiled(*args)
    assert compiled.replays > 0
    return compiled


def news(compiled, *args) -> str:
    """What is new in the report after two calls: the first may run code that was not seen yet."""
    known = len(torch.compile_report(compiled))
    compiled(*args)
    compiled(*args)
    return torch.compile_report(compiled)[known:]


CHANGES = {
    "number": (lambda s: setattr(s, "scale", 3.0), "SETTING.scale: 2.0 -> 3.0"),
    "text": (lambda s: setattr(s, "name", "bb"), "SETTING.name: 'a' -> 'bb'"),
    "item of a list": (lambda s: s.items.__setitem__(0, 5.0), "SETTING.items: 1.0 -> 5.0"),
    "length of a list": (lambda s: s.items.append(1.0), "the length of a list"),
    "entry of a dict": (lambda s: s.table.update(k=4.0), "SETTING.table['k']: 1.0 -> 4.0"),
    "another object": (lambda s: setattr(s, "items", [1.0, 2.0]), "SETTING.items is another list"),
}


@pytest.mark.parametrize("change, reason", CHANGES.values(), ids=CHANGES)
def test_the_value_that_changed_is_named(setting, change, reason):
    compiled = settled(reading, torch.ones(3))
    change(setting)
    found = news(compiled, torch.ones(3))
    assert reason in found and "1 kernel" in found


ARGUMENTS = {
    "shape": (lambda: (torch.ones(4, 2),), "argument 0: shape (3, 2) -> (4, 2)"),
    "dtype": (lambda: (torch.ones(3, 2).double(),), "dtype torch.float32 -> torch.float64"),
    "view": (lambda: (torch.ones(2, 3).T,), "argument 0: "),
    "number": (lambda: (torch.ones(3, 2), 7), "another structure"),
    "gradient": (lambda: (torch.ones(3, 2, requires_grad=True),), "requires_grad False -> True"),
}  # fmt: skip


@pytest.mark.parametrize("make, reason", ARGUMENTS.values(), ids=ARGUMENTS)
def test_the_argument_that_differs_is_named(make, reason):
    compiled = settled(lambda x, y=1: (x * y).detach(), torch.ones(3, 2))
    assert reason in news(compiled, *make())


def test_a_number_as_argument_and_modes():
    compiled = settled(lambda x, y: x * y, torch.ones(3), 2)
    assert "argument 1: 2 -> 5" in news(compiled, torch.ones(3), 5)
    with torch.no_grad():
        assert "grad mode: True -> False" in news(compiled, torch.ones(3), 5)


def training():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return model, optimizer, step


TRAINING = {
    "mode": (lambda m, o: m.eval(), "training: True -> False"),
    "frozen": (lambda m, o: m[0].bias.requires_grad_(False), "requires_grad True -> False"),
    "gradient": (lambda m, o: setattr(m[0].bias, "grad", None), "has no gradient any more"),
    "parameter": (lambda m, o: setattr(m[0], "weight", torch.nn.Parameter(torch.ones(4, 3))),
                  "['weight'] is another Parameter"),
    "option": (lambda m, o: o.param_groups[0].update(weight_decay=0.1), "weight_decay"),
    "hook": (lambda m, o: m[0].weight.register_hook(lambda g: g * 2), "hook"),
}  # fmt: skip


@pytest.mark.parametrize("change, reason", TRAINING.values(), ids=TRAINING)
def test_what_changed_in_a_training_step_is_named(change, reason):
    model, optimizer, step = training()
    compiled = settled(step, torch.ones(5, 3))
    change(model, optimizer)
    assert reason in news(compiled, torch.ones(5, 3))


def test_a_new_batch_size_takes_the_program_that_is_there():
    compiled = settled(lambda x: (x * 2).sum(1), torch.ones(3, 5))
    found = [news(compiled, torch.ones(size, 5)) for size in (4, 5, 6)]
    assert ["kernel of a program that was there" in text for text in found] == [False, True, True]


def test_lazy_code_says_why(recwarn):
    def prints(x):
        print(end="")
        return x + 1

    compiled = torch.compile(prints)
    compiled(torch.ones(2))
    assert "runs as ordinary lazy code: it calls print()" in torch.compile_report(compiled)


@pytest.mark.parametrize("count", [4, 8])
def test_a_view_of_a_view_is_replayed_and_a_written_one_is_named_with_the_way_out(count):
    data, table = torch.arange(32.0).reshape(8, 4) / 32 + 0.5, torch.ones(8, 4)
    data.tolist()
    fn = lambda x: x * x.T.sum()  # noqa: E731
    compiled = torch.compile(fn)
    for at in (0, 0, 0, 8 - count, 0):
        part = data[at : at + count]
        torch.testing.assert_close(compiled(part), fn(part))
    torch.testing.assert_close(compiled(table[:count]), fn(table[:count]))
    assert compiled.replays == 4
    written = torch.compile(lambda x: x.mul_(2).sum())
    with pytest.warns(UserWarning, match="argument 0 is a view.+ pass a clone of it"):
        for turn in range(4):
            assert written(table[:count]).item() == 4 * count * 2.0 ** (turn + 1)


def test_a_report_of_everything():
    kept = [settled(lambda x: x * 3, torch.ones(2)), torch.compile(lambda x: x)]
    gone = settled(lambda x: x * 4, torch.ones(2))
    text = torch.compile_report()
    for compiled in (kept[0], gone):
        assert torch.compile_report(compiled) in text
    mine = torch.compile_report(gone)
    assert torch.compile_report(kept[1]) not in text  # it was not called
    del gone, compiled
    gc.collect()
    assert mine not in torch.compile_report()


def test_a_module_and_the_bound_of_a_report():
    module = torch.nn.ReLU()
    compiled = torch.compile(module)
    with torch.no_grad():
        for size in range(2, 90):
            compiled(torch.ones(size))
    lines = torch.compile_report(compiled).splitlines()
    assert lines[0].startswith("ReLU at ") and len(lines) == 65


def test_only_what_is_asked_for_is_printed(capsys, setting):
    compiled = settled(reading, torch.ones(3))
    setting.name = "four"
    news(compiled, torch.ones(3))
    assert capsys.readouterr().err == ""
    with config.override(logs="+recompiles"):
        setting.name = "eight"
        news(compiled, torch.ones(3))
        torch.compile(reading)(torch.ones(3))
    printed = capsys.readouterr().err.splitlines()
    assert len(printed) == 1 and printed[0].startswith("[compile] reading at ")
    assert "SETTING.name: 'four' -> 'eight'" in printed[0]
    with config.override(logs="dynamo"):
        torch.compile(reading)(torch.ones(3))
    assert "ran to see its code: the first call" in capsys.readouterr().err


def test_set_logs_does_what_the_variable_does(capsys):
    try:
        torch._logging.set_logs(recompiles=True)
        assert config.logs == "recompiles"
        torch._logging.set_logs(dynamo=logging.DEBUG, inductor=logging.INFO)
        assert config.logs == "dynamo"
    finally:
        torch._logging.set_logs()
    assert config.logs == ""


def test_a_log_that_there_is_not_is_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'recompile'"):
        torch._logging.set_logs(recompile=True)
    with pytest.raises(SettingError, match="'recompile'.*TORCH_LOGS"):
        with config.override(logs="recompile"):
            pass
    with config.override(logs="+recompiles,-inductor,torch._dynamo.guards,graph_code"):
        assert "recompiles" in config.logs


def test_the_variable_wins():
    script = (
        "import rushlight as torch, warnings\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    torch._logging.set_logs(dynamo=10)\n"
        "print(len(seen), torch._logging.config.logs)\n"
    )
    environ = child_environment(TORCH_LOGS="recompiles")
    done = subprocess.run(
        [sys.executable, "-c", script], env=environ, capture_output=True, text=True
    )
    assert done.stdout.split() == ["1", "recompiles"]


def test_a_compiled_module_tells_what_was_measured():
    class Own(torch.nn.Module):
        tuned = 5

        def forward(self, x):
            return x

    assert torch.compile(torch.nn.ReLU()).tuned == {}
    assert torch.compile(Own()).tuned == 5  # names of the module inside come first


def test_what_compile_did_not_make_is_refused():
    with pytest.raises(TypeError, match="compile_report: argument 'compiled' must be what compile"):
        torch.compile_report(len)
