"""The CUDA runtime and Triton's launches on it. **No GPU was at hand**: the driver is imitated."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
from types import SimpleNamespace

import numpy as np
import pytest
from cfamily_cases import programs_of, square_product
from cuda_imitation import Driver

from rushlight.backends import find_backend, products
from rushlight.backends.triton import gpu_impl, tune_impl
from rushlight.backends.triton.compile_impl import Compiled
from rushlight.backends.triton.driver_impl import caps_of
from rushlight.backends.triton.module_text import schedule_of
from rushlight.backends.triton.space import space_of
from rushlight.base.config import config
from rushlight.base.dtypes import float32
from rushlight.base.errors import BackendError
from rushlight.runtime import tuning
from rushlight.runtime.cuda_impl import Gpu, open_gpu, open_with
from rushlight.testing.conformance import check, template_cases
from rushlight.testing.conformance.run import run_on

CASES = {case.name: case for case in template_cases()}
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="pip install triton"
)


def doubling(words, groups) -> None:
    numbers = (ctypes.c_float * groups).from_address(words[0])
    for i in range(groups):
        numbers[i] *= 2


doubling.words = 1


@pytest.fixture
def gpu() -> Gpu:
    found = open_with(lambda: Driver({"double": doubling}), 0)
    assert isinstance(found, Gpu), found
    return found


def test_a_gpu_says_who_it_is(gpu) -> None:
    assert (gpu.name, gpu.capability, gpu.multiprocessors) == ("Imitated GPU", (9, 0), 132)


def test_memory_goes_there_and_back_and_kernels_change_it(gpu) -> None:
    here, back = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    place = gpu.allocate(here.nbytes)
    gpu.upload(place, here.ctypes.data, here.nbytes)
    kernel = gpu.load(b"cubin", "double", shared_bytes=100 << 10)
    assert gpu.driver.log[-1] == f"shared {100 << 10}"
    begin = gpu.event()
    gpu.launch(kernel, 4, 32, [place])
    assert gpu.elapsed_ms(begin, gpu.event()) == 1.0
    gpu.download(back.ctypes.data, place, back.nbytes)
    gpu.synchronize()
    assert back.tolist() == [0, 2, 4, 6] and here.tolist() == [0, 1, 2, 3]
    free, total = gpu.memory()
    gpu.free(place)
    assert gpu.memory()[0] > free and not gpu.driver.blocks and total == 1 << 28


def test_a_graph_runs_when_it_is_launched(gpu) -> None:
    here = np.ones(2, np.float32)
    place, kernel, stream = gpu.allocate(8), gpu.load(b"", "double", 0), gpu.stream()
    gpu.upload(place, here.ctypes.data, 8)
    with gpu.capture(stream) as made:
        gpu.launch(kernel, 2, 32, [place], stream)
    gpu.download(here.ctypes.data, place, 8)
    assert here.tolist() == [1, 1], "recorded, not run"
    for _ in range(3):
        made[0].launch(stream)
    gpu.download(here.ctypes.data, place, 8)
    assert here.tolist() == [8, 8]


def test_errors_have_the_words_of_the_driver(gpu) -> None:
    with pytest.raises(BackendError, match="CUDA: cuMemAlloc on GPU 0: out of memory"):
        gpu.allocate(1 << 29)
    with pytest.raises(BackendError, match="cuModuleGetFunction.*invalid argument"):
        gpu.load(b"", "absent", 0)


def test_what_is_missing_is_named() -> None:
    assert open_with(lambda: Driver({}), 3) == "no GPU number 3: there are 1"

    def broken():
        raise RuntimeError("libcuda.so.1 was not found\nmore")

    text = open_with(broken, 0)
    assert text.startswith("no CUDA driver: libcuda.so.1 was not found (pip install")
    found = open_gpu()
    if isinstance(found, str):
        assert "rushlight[cuda]" in found


@pytest.fixture
def imitated(monkeypatch):
    """Triton's backend on an imitated GPU, whose kernels are those of Triton's interpreter."""
    from rushlight.backends.triton.interpret_impl import InterpreterSession, interpreted

    driver = Driver({})
    gpu = open_with(lambda: driver, 0)

    def compiled(programs, text, target):
        assert target == "sm_90"
        text = gpu_impl.print_module(programs)  # the interpreter cannot take narrow products
        kernels = [(k, [m.dtype for m in (*p.program.buffers, *p.scratch)])
                   for p in programs for k in p.kernels]  # fmt: skip
        functions = interpreted(text, [(k.name, dtypes) for k, dtypes in kernels])
        for (kernel, dtypes), function in zip(kernels, functions, strict=True):
            driver.kernels[kernel.name] = launcher(kernel, function, len(dtypes))
        return [Compiled(k.name, k.threads, 0, "", b"cubin") for k, _ in kernels]

    def launcher(kernel, function, buffers):
        def run(words, groups):
            assert words[-2:] == [0, 0]
            session = InterpreterSession([], [], np.zeros(0, np.int64), None)
            session.run(kernel.name, function, groups, words[:-2])

        run.words = buffers + 4
        return run

    monkeypatch.setattr(gpu_impl, "compile_lowered", compiled)
    build, driver_impl = (importlib.import_module(f"rushlight.backends.triton.{name}")
                          for name in ("build", "driver_impl"))  # fmt: skip
    monkeypatch.setattr(build, "require_gpu", lambda: gpu)
    monkeypatch.setattr(driver_impl, "open_gpu", lambda: gpu)
    with config.override(triton_interpret=False, cache=False):
        yield driver


@needs_triton
@pytest.mark.parametrize("name", [
    "softmax_rows", "sum_all", "dot_epilogue", "scan", "sort", "gather", "scatter_rows", "movement",
])  # fmt: skip
def test_plans_run_with_memory_that_is_not_the_hosts(name: str, imitated) -> None:
    outcome = check(CASES[name], "triton")
    assert outcome.status == "supported", outcome.text
    assert any(line.startswith("launch") for line in imitated.log)
    assert not imitated.blocks, "memory that nobody gave back"


@needs_triton
def test_the_device_of_a_gpu_is_called_by_its_name(imitated) -> None:
    from rushlight.backends import find_backend

    caps = find_backend("triton").require()
    assert caps.features.startswith("sm_90|Imitated GPU|triton")
    assert caps.group_threads == caps_of("").group_threads


@needs_triton
def test_the_fastest_schedule_is_run_told_and_kept(imitated, monkeypatch) -> None:
    """An imitation of the timer: the more stages, the faster; one schedule cannot be launched."""
    timed = []

    def time_on(gpu, made) -> float:
        plan = schedule_of(made.lowered)
        timed.append(plan.name)
        if plan.bk == 64:
            raise BackendError("too much shared memory")
        return 1.0 / plan.stages

    monkeypatch.setattr(tune_impl, "time_on", time_on)
    tuning.forget()
    case = square_product()
    programs = programs_of(case.build())
    with config.override(max_autotune=True):
        triton = find_backend("triton")
        (first,) = triton.build(programs, triton.require())
        (again,) = triton.build(programs, triton.require())
        assert check(case, "triton").status == "supported"
    who, cut = triton.picks(first, triton.require())
    best = max(space_of(programs[0].grids[0]), key=lambda plan: plan.stages * (plan.bk != 64))
    assert who.choice == "triton" and cut.choice == best.name == schedule_of(first.lowered).name
    assert cut.reasons[0] == "measured"
    assert triton.picks(again, triton.require())[1].reasons[0] == "cached"
    assert len(timed) == len(set(timed)) == len(space_of(programs[0].grids[0]))


@needs_triton
def test_a_product_of_another_maker_is_launched_with_the_plan(imitated, monkeypatch) -> None:
    """An imitation of CuTe: what it is given to launch is what a plan has."""
    started = []

    class Made:
        def start(self, gpu, groups, places, words, status, host) -> None:
            started.append((groups, len(places), len(host)))

    maker = products.Maker("cute", lambda program, chip: (), lambda program, chip: Made(), str)
    monkeypatch.setattr("rushlight.backends.cute.maker.MAKER", maker)
    roots = [root for root in CASES["dot"].build() if not root.leaf]
    with config.override(max_autotune_gemm_backends="CUTLASS"):
        run_on("triton", roots)
        (made, *_) = find_backend("triton").build(programs_of(roots), caps_of("sm_90|a GPU"))
    assert started and all(groups == 1 and places == 3 for groups, places, _ in started)
    assert made.decisions[0].choice == "cute"


def test_time_on_a_gpu_is_the_least_of_some_and_memory_is_given_back(gpu) -> None:
    program = SimpleNamespace(buffers=[SimpleNamespace(dtype=float32, size=4)], params=())
    kernel = SimpleNamespace(groups=4)
    lowered = SimpleNamespace(scratch=(), kernels=(kernel,))
    function = gpu_impl.Loaded(gpu.load(b"cubin", "double", 0), 32)
    made = SimpleNamespace(program=program, lowered=lowered, functions=(function,))
    doubling.words = 5
    try:
        assert tune_impl.time_on(gpu, made) == 1.0
    finally:
        doubling.words = 1
    assert not gpu.driver.blocks
    assert gpu.driver.log.count("launch double") == 1 + tune_impl.REPEATS
