"""Operations that have no meaning for a dtype say so in PyTorch's words."""

import operator

import pytest

import rushlight as torch

CASES = [
    (operator.floordiv, torch.bool, "div_floor_cpu", "Bool"),
    (operator.mod, torch.bool, "remainder_cpu", "Bool"),
    (torch.fmod, torch.bool, "fmod_cpu", "Bool"),
    (torch.gcd, torch.bool, "gcd_cpu", "Bool"),
    (operator.lshift, torch.bool, "lshift_cpu", "Bool"),
    (operator.rshift, torch.bool, "rshift_cpu", "Bool"),
    (operator.lshift, torch.float32, "lshift_cpu", "Float"),
    (operator.rshift, torch.float64, "rshift_cpu", "Double"),
    (operator.and_, torch.float32, "bitwise_and_cpu", "Float"),
    (operator.or_, torch.bfloat16, "bitwise_or_cpu", "BFloat16"),
    (operator.xor, torch.float16, "bitwise_xor_cpu", "Half"),
    (torch.gcd, torch.float32, "gcd_cpu", "Float"),
    (torch.lcm, torch.float64, "lcm_cpu", "Double"),
]


@pytest.mark.parametrize("function,dtype,kernel,name", CASES)
def test_refused(function, dtype, kernel, name):
    x = torch.ones(2, dtype=dtype)
    with pytest.raises(NotImplementedError) as caught:
        function(x, x)
    assert str(caught.value) == f"\"{kernel}\" not implemented for '{name}'"


ORDER = {
    "kthvalue_cpu": lambda x: torch.kthvalue(x, 1),
    "median_cpu": torch.median,
    "median_out": lambda x: torch.median(x, 0),
    "searchsorted_out_cpu": lambda x: torch.searchsorted(x, x),
}


@pytest.mark.parametrize("kernel", ORDER)
@pytest.mark.parametrize("dtype,name", [(torch.bool, "Bool"), (torch.complex64, "ComplexFloat")])
def test_what_has_no_order_has_no_median(kernel, dtype, name):
    x = torch.ones(3, dtype=dtype)
    with pytest.raises(NotImplementedError) as caught:
        ORDER[kernel](x)
    assert str(caught.value) == f"\"{kernel}\" not implemented for '{name}'"


def test_nanmedian_refuses_truth_values():
    for dims in ((), (0,)):
        with pytest.raises(NotImplementedError, match="median_.*not implemented for 'Bool'"):
            torch.nanmedian(torch.tensor([True, False]), *dims)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64])
def test_whole_numbers_are_taken(dtype):
    x, y = torch.tensor([7, 6], dtype=dtype), torch.tensor([2, 4], dtype=dtype)
    assert (x // y).tolist() == [3, 1]
    assert (x % y).tolist() == [1, 2]
    assert (x << 1).tolist() == [14, 12]
    assert (x & y).tolist() == [2, 4]
    assert torch.gcd(x, y).tolist() == [1, 2]


def test_bool_with_a_number_is_taken():
    x = torch.tensor([True, False])
    assert (x // 2).tolist() == [0, 0]
    assert (x % 2).tolist() == [1, 0]
    assert (x << 2).tolist() == [4, 0]
    assert (x & True).tolist() == [True, False]
