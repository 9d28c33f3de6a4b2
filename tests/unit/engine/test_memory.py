"""The memory plan's figure and the real one agree; in-place updates take over memory."""

from __future__ import annotations

import rushlight as torch
from rushlight.base.config import config
from rushlight.engine import realize
from rushlight.runtime import allocator, buffer


def latest_program():
    family = list(realize.PROGRAMS._families.values())[-1]
    return family.programs[-1]


def test_peak_of_a_run_is_results_plus_arena():
    x, w = torch.randn(512, 256), torch.randn(256, 1024)
    (x.sum() + w.sum()).item()
    for _ in range(2):  # the first run also makes the threads' own scratch
        y = None
        torch.flush()
        y = torch.softmax(torch.tanh(x @ w) @ torch.tanh(w.t()), dim=-1)
        with config.override(packed_weights_mb=0):  # panels that stay are not of this run
            peak = measured_flush()
    layout = latest_program().layout(realize.np.array([], realize.np.int64))
    planned = sum(map(allocator.size_class, (*layout.result_bytes, layout.arena_bytes)))
    assert peak == planned
    assert y.shape == (512, 256)


def measured_flush() -> int:
    """Bytes that a flush allocated at its highest."""
    before = buffer.memory_allocated()
    buffer.reset_peak()
    torch.flush()
    return buffer.max_memory_allocated() - before


def test_an_update_reuses_the_memory_of_what_it_replaces():
    weights = torch.zeros(1 << 18)
    weights.add_(1.0)
    torch.flush()
    address = weights.data_ptr()
    buffer.reset_peak()
    before = buffer.memory_allocated()
    for _ in range(5):
        weights.mul_(0.5).add_(1.0)
        torch.flush()
    assert weights.data_ptr() == address
    # Nothing of the size of the weights was allocated beside them.
    assert buffer.max_memory_allocated() - before < weights.nbytes // 2


def test_an_old_value_that_somebody_holds_is_not_overwritten():
    weights = torch.arange(8.0)
    torch.flush()
    old = weights.clone()
    alias = weights.detach()
    weights.add_(10.0)
    torch.flush()
    assert old.tolist() == list(map(float, range(8)))
    assert alias.tolist() == weights.tolist() == [v + 10.0 for v in range(8)]
