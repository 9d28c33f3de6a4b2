"""`rushlight names`, and the names that programs use."""

import contextlib
import io

import pytest

import rushlight as torch
from rushlight.cli import main
from rushlight.names import table


def printed(*args):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["names", *args]) == 0
    return out.getvalue()


def test_a_row_has_the_name_its_state_and_its_tests():
    (line,) = [row for row in printed("torch.Tensor.tanh").splitlines() if "tanh " in row]
    name, state, samples, *_ = line.split()
    assert (name, state) == ("torch.Tensor.tanh", "there") and int(samples) > 0


def test_missing_names_say_why():
    text = printed("torch.sparse.semi", "--missing")
    assert "not there yet" in text
    assert all(line.split()[1] != "there" for line in text.splitlines())


def test_summary_counts_every_name_once():
    rows = [line.split() for line in printed("--summary").splitlines()[1:]]
    for *_, names, there, stand_in, missing in rows:
        assert int(names) == int(there) + int(stand_in) + int(missing)
    everything = next(row for row in rows if row[0] == "all")
    assert int(everything[1]) == sum(int(r[1]) for r in rows if r[0].startswith("torch"))


def test_names_that_five_repositories_use_are_there():
    """What is not there is of programs with several processes, and of exporters; by name, so that
    none is lost."""
    allowed = ("torch.distributed.", "torch._subclasses.", "torch.export.", "torch.fx.")
    rows = [row for row in table.used_rows() if row.used >= 5]
    assert len(rows) > 700
    gone = [row.name for row in rows if row.state != "there" and not row.name.startswith(allowed)]
    assert gone == []


# Arguments to try a function with: the first that it takes shows that it works.
X = [[1.0, -2.0], [0.5, 3.0]]
TRIES = [
    ("x",), ("x", "x"), ("x", 0), ("x", 1, 0), ("x", 2, 2), ("x", "m"), ("x", 0, "i"), ("x", 0.5),
    ("x", 0, "i", "x"), ("x", "m", 0.5), ("x", 0, 1, 1), ("x", "x", "x"), ("x", 0, "v", "x"),
    ("x", "v"), ("x", (4,)), ("x", 0, "v"), ("v", 2), ("one",), ("one", "one"), ("b", "b"),
    ("l", "l"), ("l",), ("x", torch.float64), ("leaf", "h"), ("v",), ("v", "v"), ("b", "b", "b"),
    ("x", torch.Tensor), ("x", (2, 2), (2, 1)), ("x", "ones"), ("x", "m", "x"),
    ("x", 0, "i", "x", "sum"), ("x", 0, (1, 2)),
]  # fmt: skip
# No device beside the CPU and no quantized numbers (as PyTorch answers), and sparse tensors, which
# tests/unit/sparse is about.
OTHERS = set("""cuda xpu pin_memory q_scale values indices coalesce _values _indices""".split())


def made(sign):
    x = torch.tensor(X, requires_grad=sign == "one")
    return {"one": x.sum(), "v": torch.tensor([1, 0]), "b": x[None], "l": x.long(),
            "h": lambda g: None, "ones": [1, 1], "leaf": torch.ones(2, requires_grad=True),
            "x": x, "m": x > 0,
            "i": torch.tensor([[0, 1], [1, 0]])}.get(sign, sign)  # fmt: skip


def takes(function):
    for args in TRIES:
        try:
            repr(function(*map(made, args)))
            return ""
        except NotImplementedError as error:
            if "not implemented for '" not in str(error):  # else another dtype may be taken
                return f"refused: {error}"
        except Exception:
            continue
    return "takes nothing of what was tried"


@pytest.mark.slow
def test_methods_that_programs_use_can_be_called():
    """Every method of Tensor that programs use runs, or is known to need other arguments."""
    wanting = []
    for row in table.used_rows():
        if not row.name.startswith("Tensor.") or row.state != "there":
            continue
        found = getattr(torch.Tensor, row.name.removeprefix("Tensor."))
        if callable(found) and not isinstance(found, type):
            problem = takes(found)
            if problem:
                wanting.append(f"{row.name}: {problem}")
    assert [w for w in wanting if "refused" in w] == []
    assert {w.partition(":")[0].removeprefix("Tensor.") for w in wanting} == OTHERS
