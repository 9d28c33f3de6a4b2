"""Factors before tensors, as old programs give them; PyTorch 2.13 takes these calls."""

import pytest

import rushlight as torch

A, B, C = torch.tensor([3.0, 1.0]), torch.tensor([2.0, 4.0]), torch.tensor([5.0, 8.0])
M = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
CALLS = {
    "add": (lambda x: x.add(0.1, B), lambda x: x.add(B, alpha=0.1)),
    "sub": (lambda x: torch.sub(x, 0.1, B), lambda x: x - 0.1 * B),
    "addcmul": (lambda x: x.addcmul(0.1, B, C), lambda x: x.addcmul(B, C, value=0.1)),
    "addcdiv": (lambda x: torch.addcdiv(x, -0.1, B, C), lambda x: x.addcdiv(B, C, value=-0.1)),
    "addmv": (lambda x: torch.addmv(0.5, x, 2, M, B), lambda x: 0.5 * x + 2 * (M @ B)),
    "in place": (lambda x: x.mul_(0.9).add_(0.1, B).addcdiv_(-0.1, B, C),
                 lambda x: (x * 0.9 + 0.1 * B).addcdiv(B, C, value=-0.1)),
    "addmv_": (lambda x: x.addmv_(0.5, 2, M, B), lambda x: 0.5 * x + 2 * (M @ B)),
}  # fmt: skip
MATRICES = {
    "addmm": (lambda x: torch.addmm(0.5, x, 2, M, M), lambda x: 0.5 * x + 2 * (M @ M)),
    "addmm of one factor": (lambda x: x.addmm(0.5, M, M), lambda x: 0.5 * x + M @ M),
    "addmm_": (lambda x: x.addmm_(0.5, 2, M, M), lambda x: 0.5 * x + 2 * (M @ M)),
    "addr": (lambda x: x.addr_(0.5, 2, A, B), lambda x: 0.5 * x + 2 * torch.outer(A, B)),
    "baddbmm": (lambda x: torch.baddbmm(0.5, x[None], 2, M[None], M[None])[0],
                lambda x: 0.5 * x + 2 * (M @ M)),
    "addbmm": (lambda x: x.addbmm(0.5, 2, M[None], M[None]), lambda x: 0.5 * x + 2 * (M @ M)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:This overload")
@pytest.mark.parametrize("name", [*CALLS, *MATRICES])
def test_old_calls_compute_what_new_ones_do(name):
    old, new = {**CALLS, **MATRICES}[name]
    start = A if name in CALLS else M
    torch.testing.assert_close(old(start.clone()), new(start.clone()))


def test_wrong_numbers_of_arguments_are_still_errors():
    with pytest.raises(TypeError, match=r"add\(\) takes 2 positional arguments but 3"):
        torch.add(A, B, C)
    with pytest.raises(TypeError, match="addcmul"):
        A.addcmul(1, 2, C)


def test_masks_of_bytes_choose():
    mask = torch.tensor([1, 0], dtype=torch.uint8)
    assert torch.where(mask, A, B).tolist() == [3, 4]
    with pytest.raises(RuntimeError, match="boolean"):
        torch.where(torch.tensor([1, 0]), A, B)
