"""Smaller machines and tight limits: fewer features or cores, little memory. Each works with the
same bits, or ends in a clear error after which all is as before."""

import os
import platform
import subprocess
import sys
import threading
import time

import pytest

import rushlight as torch
from rushlight.base.config import child_environment
from rushlight.runtime.buffer import empty_cache

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux only")

TRAINING = """
import hashlib
import rushlight as torch
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(),
    torch.nn.Flatten(), torch.nn.Linear(16 * 64, 10),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
x, y, digest = torch.randn(8, 3, 8, 8), torch.arange(8), hashlib.sha256()
for _ in range(3):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
q = torch.randn(2, 4, 100, 32)
found = [*model.parameters(), torch.nn.functional.scaled_dot_product_attention(q, q, q)]
found += [torch.sort(torch.randn(50, 300))[0], torch.cumsum(torch.randn(30, 4000), 1)]
found += [torch.softmax(torch.randn(300, 1000), 1), torch.randn(257, 130) @ torch.randn(130, 65)]
for tensor in found:
    digest.update(tensor.detach().numpy().tobytes())
print(digest.hexdigest(), torch.get_num_threads())
"""


def run(script: str, limit=None, **environ: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, preexec_fn=limit,
        env=child_environment(**environ), timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module")
def usual() -> str:
    return run(TRAINING)[0]


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="features of x86")
@pytest.mark.parametrize("without", ["-avx512f", "-avx512f,-avx2", "-avx512f,-avx2,-avx,-fma"])
def test_fewer_features_give_the_same_bits(usual, without):
    assert run(TRAINING, RUSHLIGHT_CPU_FEATURES=without)[0] == usual


def test_one_core_gives_the_same_bits(usual):
    def one_core() -> None:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    assert run(TRAINING, limit=one_core) == [usual, "1"]


def test_a_core_taken_away_later_is_no_hang(usual):
    moved = TRAINING.replace(
        "for _ in range(3):",
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nfor _ in range(3):", 1,
    )  # fmt: skip
    started = "import rushlight as t\n(t.ones(900, 900) @ t.ones(900, 900)).sum().item()\n"
    assert run(started + moved)[0] == usual


LITTLE = """
import resource
import rushlight as torch
a = torch.ones(300, 300)
(a @ a).sum().item()
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
x, count = torch.ones(2, 4), torch.zeros(10)
def step(factor):
    optimizer.zero_grad()
    loss = (model(x).sum() * factor).sum()
    loss.backward()
    optimizer.step()
    return loss
step(torch.ones(1)).item()
before = [p.tolist() for p in model.parameters()]
memory = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (memory + (1 << 30), -1))
def fails(call):
    try:
        call()
    except RuntimeError as error:
        assert "out of memory: tried to allocate" in str(error), error
    else:
        raise AssertionError("there was enough memory")
fails(lambda: torch.ones(30000, 30000).numpy())
fails(lambda: torch.empty(1 << 31).numpy())
fails(lambda: torch.sort(torch.rand(1 << 28))[0].numpy())
fails(lambda: (torch.ones(40000, 40000) * count.add_(1)[0]).numpy())
fails(lambda: step(torch.sort(torch.rand(1 << 28))[0]).item())
print(count.tolist() == [1.0] * 10, (a @ a).sum().item())
after = [p.tolist() for p in model.parameters()]
print(after == before)
step(torch.ones(1)).item()
print([p.tolist() for p in model.parameters()] != after)
"""


def test_too_little_memory_is_an_error_and_the_next_operation_works():
    assert run(LITTLE) == ["True", "27000000.0", "True", "True"]


def resident_mib() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def test_large_freed_memory_goes_back_to_the_system():
    large = [torch.ones(16 << 20) + number for number in range(6)]
    for tensor in large:
        tensor.numpy()
    filled = resident_mib()
    del large
    empty_cache()
    assert resident_mib() < filled - 300


def workers_asleep() -> dict[int, str] | None:
    """How often each worker of the pool was woken so far; None while one of them runs."""
    woken = {}
    for thread in threading.enumerate():
        if thread.name.startswith("rushlight-worker"):
            with open(f"/proc/self/task/{thread.native_id}/status") as file:
                status = dict(line.split(":", 1) for line in file)
            if not status["State"].strip().startswith("S"):
                return None
            woken[thread.native_id] = status["voluntary_ctxt_switches"].strip()
    return woken


def test_workers_of_an_idle_pool_sleep_until_there_is_work():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        a = torch.ones(900, 900)
        (a @ a).sum().item()
        for _ in range(1000):  # they spin for a moment first
            asleep = workers_asleep()
            time.sleep(0.02)
            if asleep is not None and workers_asleep() == asleep:
                break
        else:
            pytest.fail("a worker never sleeps")
        assert len(asleep) == 3, asleep
    finally:
        torch.set_num_threads(before)
