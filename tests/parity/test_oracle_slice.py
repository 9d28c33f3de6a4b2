"""A slice of the oracle: ops of every family, replayed and compared with the stored table.

The whole of it is `make oracle`. Both steps run in processes of their own, so PyTorch and Rushlight
do not meet.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ORACLE = Path(__file__).with_name("oracle")
OPS = """add div pow where clamp exp sum mean var amax argmax cumsum sort gather scatter index_put
masked_fill cat split transpose expand diag matmul linalg.solve linalg.cholesky softmax
nn.functional.gelu nn.functional.layer_norm nn.functional.mse_loss gcd bitwise_and""".split()
MAPPED = """add where sum cumprod sort gather scatter split diag matmul linalg.solve softmax
logcumsumexp nn.functional.layer_norm""".split()


def pattern(names: list[str]) -> str:
    return "^({})@".format("|".join(name.replace(".", "[.]") for name in names))


ONLY, TRANSFORMED = pattern(OPS), pattern(MAPPED)


def run(script: str, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ORACLE / script), *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def test_what_passed_once_passes(tmp_path):
    if importlib.util.find_spec("expecttest") is None:
        pytest.skip("PyTorch's database needs expecttest: make parity")
    made = run("generate.py", str(tmp_path), "float32,int64", "--only", ONLY)
    assert made.returncode == 0, made.stderr[-2000:]
    assert len(list(tmp_path.glob("*.pkl"))) > 45
    checked = run("check.py", str(tmp_path))
    assert checked.returncode == 0, checked.stdout[-4000:] + checked.stderr[-2000:]
    assert "float32" in checked.stdout and "int64" in checked.stdout


def test_what_passed_once_under_vmap_passes(tmp_path):
    if importlib.util.find_spec("expecttest") is None:
        pytest.skip("PyTorch's database needs expecttest: make parity")
    for script, *args in (
        ("generate.py", "float32,int64,float64", "--only", TRANSFORMED, "--samples", "6"),
        ("generate_transforms.py",),
    ):
        made = run(script, str(tmp_path), *args)
        assert made.returncode == 0, made.stderr[-2000:]
    checked = run("check_transforms.py", str(tmp_path), "--list")
    assert checked.returncode == 0, checked.stdout[-4000:] + checked.stderr[-2000:]
    *wrong, floats, doubles, whole, last = checked.stdout.splitlines()
    assert not wrong and last == "nothing that passed is lost", checked.stdout
    assert "vmap_grad" in floats and "jvp" in doubles and "vmap" in whole
