"""compile's name, recompile_limit, isolate_recompiles and shapes_spec."""

import warnings

import pytest

import rushlight as torch
from tests.unit.tensors.compile_checks import array

PLACES = (2, 0, 1, 2, 0)


def scaled(x, table, place):
    return x * table[place]


def run_all(fast):
    """Each number that is looked up is another program, once for its code to be seen."""
    x, table = array(3), [2.0, 3.0, 4.0]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for place in (*PLACES, *PLACES, *PLACES):
            assert fast(x, table, place).tolist() == scaled(x, table, place).tolist()
    return [str(w.message) for w in caught if "recompile_limit" in str(w.message)]


def test_after_so_many_captures_no_further_ones_are_kept():
    fast, free = torch.compile(scaled, recompile_limit=2), torch.compile(scaled)
    assert len(run_all(fast)) == 1 and fast._kept == 2
    assert not run_all(free) and free._kept == 3
    assert 0 < fast.replays < free.replays and fast.captures < free.captures


def test_with_fullgraph_the_limit_is_an_error():
    fast = torch.compile(scaled, recompile_limit=1, fullgraph=True)
    with pytest.raises(RuntimeError, match=r"recompile_limit \(1\)"):
        run_all(fast)


def test_the_name_is_what_reports_say():
    fast = torch.compile(scaled, name="table")
    run_all(fast)
    assert fast.history.text().startswith("table at ")
    layer = torch.compile(torch.nn.Linear(3, 3), name="layer", recompile_limit=3)
    layer(array(2, 3))
    assert layer._compiled.history.text().startswith("layer")


def test_as_a_decorator_and_isolated():
    @torch.compile(recompile_limit=1, isolate_recompiles=True, name="mine")
    def f(x, table, place):
        return scaled(x, table, place)

    assert len(run_all(f)) == 1 and f.history.name.startswith("mine at ")


@pytest.mark.parametrize(
    "settings, error, text",
    [
        ({"name": 3}, TypeError, "name must be a str or None, got int"),
        ({"recompile_limit": 2.5}, TypeError, "recompile_limit must be an int or None, got float"),
        ({"recompile_limit": True}, TypeError, "got bool"),
        ({"shapes_spec": 3}, TypeError, "shapes_spec must be ParamsSpec, dict, or None, got int"),
        ({"shapes_spec": {"x": 1}}, NotImplementedError, "shapes_spec is not supported"),
    ],
)
def test_wrong_ones_are_errors(settings, error, text):
    with pytest.raises(error, match=text):
        torch.compile(scaled, **settings)


def test_no_shapes_spec_is_fine():
    assert torch.compile(scaled, shapes_spec={})(array(3), [2.0], 0).shape == (3,)
