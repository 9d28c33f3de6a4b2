"""einops: its own tests for torch, and its layers in a network."""

import os
import sys

import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce
from harness import fill, numbers


def case_own_tests(record):
    """The tests that the package ships, with torch as the only backend."""
    import pytest

    os.environ["EINOPS_TEST_BACKENDS"] = "torch"
    code = pytest.main(
        ["-q", "-q", "-p", "no:cacheprovider", "-W", "ignore", "--no-header", "--tb=short",
         "--pyargs", "einops.tests"]
    )  # fmt: skip
    sys.stdout.flush()
    record.put("exit code", int(code))


def case_functions(record):
    x = numbers(2, 3, 8, 8)
    record.put("rearrange", rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=2, q=4))
    record.put("reduce", reduce(x, "b c (h 2) w -> b h c", "mean"))
    record.put("max", reduce(x, "b c h w -> c", "max"))
    record.put("repeat", repeat(x, "b c h w -> b (c n) h w", n=2))
    record.put("einsum", einsum(x, x, "b c h w, b c h v -> b w v"))
    packed, shapes = pack([x, x[:, 0]], "b * w")
    record.put("packed", packed)
    record.put("unpacked", unpack(packed, shapes, "b * w")[1])


def case_layers(record):
    net = fill(torch.nn.Sequential(
        torch.nn.Conv2d(3, 6, 3), torch.nn.ReLU(), Reduce("b c (h 2) (w 2) -> b c h w", "max"),
        EinMix("b c h w -> b h w d", weight_shape="c d", bias_shape="d", c=6, d=4),
        Rearrange("b h w d -> b (h w d)"), torch.nn.Linear(4 * 9, 5),
    ))  # fmt: skip
    out = net(numbers(2, 3, 8, 8))
    out.square().sum().backward()
    record.put("out", out)
    record.gradients(net)
