"""The same short programs on PyTorch and here see the same things (see nn_stories.py)."""

import warnings

import pytest

real = pytest.importorskip("torch")
import rushlight as torch  # noqa: E402
from tests.parity.common import normalized  # noqa: E402
from tests.parity.nn_stories import STORIES  # noqa: E402


def compared(value):
    """Texts without the names of modules; numbers that differ by rounding are handled apart."""
    if isinstance(value, str):
        return normalized(value)
    if isinstance(value, dict):
        return {key: compared(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [compared(item) for item in value]
    return pytest.approx(value, abs=2e-3) if isinstance(value, float) else value


@pytest.mark.parametrize("name", STORIES)
def test_story_is_that_of_pytorch(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = [*STORIES[name](real)], [*STORIES[name](torch)]
    assert len(ours) == len(theirs) > 3
    for place, (own, other) in enumerate(zip(ours, theirs, strict=True)):
        assert compared(own) == compared(other), f"{name}: number {place}"
