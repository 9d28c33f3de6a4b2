#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: do Triton's kernels compute there what they compute here?
#
#     tools/gpu_check.sh [SECONDS]      # 300 by default; needs python3 with PyTorch for CUDA
#
# Runs every kind of tile program, products of matrices, FlexAttention and the fused loss on
# device("cuda"), by Triton and by CuTe, and the last three on that machine's PyTorch, with times. Writes to ./gpu_check.
# Written without such a machine at hand: not run on a GPU yet.
set -uo pipefail
cd "$(dirname "$0")/.."
limit=${1:-300}
out=gpu_check
mkdir -p "$out"

step() {
    local name=$1
    shift
    local left=$((limit - SECONDS))
    if ((left < 10)); then
        echo "$name: no time left" | tee "$out/$name.txt"
        return 1
    fi
    echo "=== $name"
    timeout "$left" "$@" 2>&1 | tee "$out/$name.txt"
}

python=${PYTHON:-python3}
export PYTHONPATH=. RUSHLIGHT_CACHE_DIR=$PWD/$out/cache
step install "$python" -m pip install --quiet 'triton>=3.9' cuda-bindings nvidia-ml-py llvmlite ml_dtypes tqdm
step cute "$python" -m pip install --quiet 'nvidia-cutlass-dsl>=4.8'
step doctor "$python" -m rushlight.cli doctor
step templates "$python" -m rushlight.cli conformance triton --templates --write "$out/conformance.md"
step compare "$python" tools/gpu_compare.py
