"""compile(backend=callable): who is asked, with what, and that its values are the results."""

import numpy as np
import pytest

import rushlight as torch
from rushlight.base.config import SettingError, config
from rushlight.engine.programs import ProgramCache
from rushlight.engine.realize import PROGRAMS


class Recorder:
    """A backend that runs the graph itself and keeps what it was given."""

    def __init__(self, wrap=lambda forward: forward):
        self.modules, self.inputs, self.calls, self.wrap = [], [], 0, wrap

    def __call__(self, module, inputs):
        self.modules.append(module)
        self.inputs.append(inputs)
        run = self.wrap(module.forward)

        def call(*given):
            self.calls += 1
            return run(*given)

        return call


def test_each_graph_is_given_once_and_called_again():
    backend = Recorder()
    f = torch.compile(lambda x, k: (x * k).softmax(-1).sum(0), backend=backend)
    for n, k in ((3, 2.0), (5, 3.0), (7, 4.0), (3, 5.0)):
        x = torch.randn(n, 8)
        torch.testing.assert_close(f(x, k), (x * k).softmax(-1).sum(0))
    assert len(backend.modules) == 2 and backend.calls == 4  # one size, then any size
    fixed, moving = backend.modules
    assert fixed.sizes == () and len(moving.sizes) == 1
    size, x, k = backend.inputs[1]
    assert (size, x.shape, k) == (5, (5, 8), 3.0)
    assert "exp" in moving.code or "softmax" in moving.code
    assert moving.print_readable(False) == moving.code


def test_what_the_backend_computes_is_the_result():
    f = torch.compile(lambda x: x * 2, backend=lambda module, _: lambda *a: [module(*a)[0] + 100])
    assert f(torch.ones(2)).tolist() == [102.0, 102.0]


def test_several_outputs_structure_and_gradients():
    backend = Recorder()
    f = torch.compile(lambda d: {"a": d["x"].exp(), "b": (d["x"] + 1, 7)}, backend=backend)
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    out = f({"x": x})
    assert out["b"][1] == 7 and len(backend.modules) == 1
    (out["a"].sum() + out["b"][0].sum()).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp([0.0, 1.0]) + 1, rtol=1e-6)


def test_a_module_and_a_change_in_place():
    backend = Recorder()
    layer = torch.nn.BatchNorm1d(3)
    compiled = torch.compile(layer, backend=backend)
    x = torch.randn(8, 3)
    plain = torch.nn.BatchNorm1d(3)
    torch.testing.assert_close(compiled(x), plain(x))
    torch.testing.assert_close(layer.running_mean, plain.running_mean)
    assert backend.calls == 1


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (7, "must return a callable"),
        (lambda x: x, "must return a tensor of shape"),
        (lambda x: (), "must return 1 tensors, got 0"),
        (lambda x: [3], "got int"),
    ],
)
def test_what_a_backend_must_return(made, text):
    f = torch.compile(lambda x: x.sum(0), backend=lambda module, inputs: made)
    with pytest.raises(TypeError, match=text):
        f(torch.ones(2, 3))


def test_names_of_backends():
    assert torch.compile(lambda x: x + 1, backend="inductor")(torch.ones(1)).item() == 2
    with pytest.raises(RuntimeError, match="Invalid backend: 'nobody'"):
        torch.compile(lambda x: x, backend="nobody")


def test_choices_that_pytorch_refuses_are_refused():
    with pytest.raises(RuntimeError, match="Unrecognized mode=fast, should be one of: default"):
        torch.compile(lambda x: x, mode="fast")
    with pytest.raises(RuntimeError, match="Either mode or options"):
        torch.compile(lambda x: x, mode="default", options={})
    assert torch.compile(lambda x: x + 1, mode="max-autotune")(torch.ones(1)).item() == 2


OPTIONS = {
    "a maker that nobody knows": (
        {"max_autotune_gemm_backends": "TRITON,CUDNN"}, SettingError,
        "'TRITON,CUDNN' .from the options of compile.*CUTLASS",
    ),
    "a list of makers": (
        {"max_autotune_gemm_backends": ["TRITON"]}, RuntimeError,
        "Unexpected type of attr max_autotune_gemm_backends, got list should be str",
    ),
    "a number for a switch": (
        {"max_autotune": 3}, RuntimeError,
        "Unexpected type of attr max_autotune, got int should be bool",
    ),
    "a name that nobody knows": (
        {"max_autotune": True, "epilog_fusion": True}, RuntimeError,
        r"Unexpected optimization option epilog_fusion, known options are \[.*'epilogue_fusion'",
    ),
    "a text for a count": (
        {"cpp.threads": "2"}, RuntimeError,
        "Unexpected type of attr cpp.threads, got str should be int",
    ),
    "a list": (["max_autotune"], TypeError, "argument 'options' must be a dict of names"),
    "a number as a name": ({3: True}, TypeError, "argument 'options' must be a dict of names"),
}  # fmt: skip


@pytest.mark.parametrize("options, error, text", OPTIONS.values(), ids=OPTIONS)
def test_options_with_wrong_values_are_refused(options, error, text):
    with pytest.raises(error, match=text):
        torch.compile(lambda x: x, options=options)


def test_options_of_pytorchs_compiler_are_accepted():
    options = {"epilogue-fusion": True, "triton.cudagraphs": False, "cpp.simdlen": None,
               "cpp.threads": 2, "trace.enabled": False, "guard_filter_fn": len}  # fmt: skip
    for backend in ("inductor", None):
        run = torch.compile(lambda x: x + 1, options=options, backend=backend)
        assert run(torch.ones(1)).item() == 2
    assert torch.compile(lambda x: x + 1, options={"max-autotune": True})._settings
    # What another backend is told is its own affair.
    assert torch.compile(lambda x: x, backend="eager", options={"nope": 1})(2) == 2


def test_a_maker_that_nobody_knows_is_an_error_without_a_gpu_too():
    with torch._inductor.config.patch(max_autotune_gemm_backends="CUDNN"):
        with pytest.raises(SettingError, match="'CUDNN'.*CUTLASS"):
            torch.compile(lambda x: x, mode="max-autotune")


@pytest.mark.parametrize("ends", ["replay", "look", "backward"])
def test_options_hold_while_the_function_is_compiled_and_no_longer(ends, monkeypatch):
    seen = []
    make = ProgramCache.make

    def noted(*args):
        seen.append(config.max_autotune_gemm_backends)
        return make(*args)

    monkeypatch.setattr(ProgramCache, "make", noted)
    PROGRAMS._families.clear()
    w = torch.ones(5, 7, requires_grad=ends != "replay")
    f = torch.compile(lambda x: x @ w * 3.25, options={"max_autotune_gemm_backends": "cutlass"})
    for _ in range(4):
        y = f(torch.ones(11, 5)).sum()
        if ends != "replay":  # its kernels are made by a flush outside of it
            seen.clear()
            y.tolist() if ends == "look" else y.backward()
            if seen:
                break
    assert "CUTLASS" in seen
    count = len(seen)
    (torch.ones(13, 5) * 4.5).tolist()
    assert len(seen) > count and set(seen[count:]) == {"ATEN,TRITON,CPP"}
