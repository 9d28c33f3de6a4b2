"""Names that scripts written for PyTorch ask for on a machine without its devices."""

import pytest

import rushlight as torch


def test_there_is_no_device_and_scripts_hear_it() -> None:
    assert not torch.cuda.is_available() and torch.cuda.device_count() == 0
    assert not torch.backends.mps.is_available() and not torch.accelerator.is_available()
    assert torch.version.cuda is None and torch.version.hip is None
    torch.cuda.manual_seed_all(0)
    torch.cuda.empty_cache()
    with pytest.raises(AssertionError, match="not compiled with CUDA"):
        torch.cuda.synchronize()
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        torch.cuda.nonsense  # noqa: B018


def test_switches_keep_what_they_are_given() -> None:
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    assert torch.backends.cudnn.benchmark and torch.backends.cuda.matmul.allow_tf32


def test_is_compiling_is_true_only_while_a_call_is_captured() -> None:
    seen = []

    def work(x: torch.Tensor) -> torch.Tensor:
        seen.append(torch.compiler.is_compiling())
        return x * 2

    torch.compile(work)(torch.ones(2))
    assert True in seen and not torch.compiler.is_compiling()


def test_fork_rng_gives_the_state_back() -> None:
    torch.manual_seed(3)
    expected = torch.randn(2).tolist()
    torch.manual_seed(3)
    with torch.random.fork_rng():
        torch.randn(5)
    assert torch.randn(2).tolist() == expected


def test_assert_close_says_where() -> None:
    torch.testing.assert_close([torch.ones(3)], [torch.ones(3) + 1e-7])
    with pytest.raises(AssertionError, match=r"1 / 3.*\n.*index \(1,\)"):
        torch.testing.assert_close(torch.ones(3), torch.tensor([1.0, 2.0, 1.0]))
    with pytest.raises(AssertionError, match="dtype"):
        torch.testing.assert_close(torch.ones(3), torch.ones(3).double())
    with pytest.raises(AssertionError):
        torch.testing.assert_close(torch.tensor(float("nan")), torch.tensor(float("nan")))


def test_what_a_missing_part_decorates_refuses_when_it_is_called():
    rpc = torch.distributed.rpc

    @rpc.api._require_initialized
    def send():
        return 1

    with pytest.raises(NotImplementedError, match="_require_initialized"):
        send()
