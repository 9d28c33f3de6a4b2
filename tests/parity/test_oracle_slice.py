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
scatter index_select index_put masked_fill cat stack split transpose permute expand flip roll diag
scatter index_select index_put masked_fill cat stack split transpose permute expand flip roll diag
matmul bmm einsum linalg.solve linalg.cholesky linalg.det softmax log_softmax nn.functional.relu
nn.functional.gelu nn.functional.conv2d nn.functional.max_pool2d nn.functional.layer_norm
nn.functional.cross_entropy nn.functional.embedding nn.functional.mse_loss gcd bitwise_and
logical_or nn.functional.interpolate""".split()
ONLY = "^({})@".format("|".join(name.replace(".", "[.]") for name in OPS))


def run(script: str, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ORACLE / script), *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_what_passed_once_passes(tmp_path, dtype):
    if importlib.util.find_spec("expecttest") is None:
        pytest.skip("PyTorch's database needs expecttest: make parity")
    made = run("generate.py", str(tmp_path), dtype, "--only", ONLY)
    assert made.returncode == 0, made.stderr[-2000:]
    assert len(list(tmp_path.glob("*.pkl"))) > 20
    checked = run("check.py", str(tmp_path))
    assert checked.returncode == 0, checked.stdout[-4000:] + checked.stderr[-2000:]
    assert dtype in checked.stdout
