"""Which values share a kernel, and the reasons that are told."""

import pytest

import rushlight as torch


def kernels_of(fn, *args):
    """Ops of each kernel of a call."""
    return [page.info.ops for page in torch.explain(fn, *args).kernels.values()]


def in_memory(*shape):
    value = torch.ones(*shape)
    value.tolist()
    return value


@pytest.mark.parametrize("shape", [(1, 1, 32), (1, 3, 32), (4, 1, 32)])
def test_layer_norm_is_one_kernel_with_dimensions_of_size_1(shape):
    x, weight = in_memory(*shape), in_memory(32)
    norm = torch.nn.functional.layer_norm
    assert len(kernels_of(lambda: norm(x, (32,), weight, weight))) == 1


def test_reasons_of_a_split():
    x = in_memory(2, 40000)
    seen = torch.explain(lambda: torch.softmax(x, dim=1))
    reasons = {r.split(":")[0] for v in seen.values for _, d in v.fuse for r in d.reasons}
    assert "needs_finished_rows" in reasons or "would_make_a_cycle" in reasons, reasons
