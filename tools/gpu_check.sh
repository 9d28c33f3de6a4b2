#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: do the kernels of Triton and of CuTe compute there what they compute here?
#
#     tools/gpu_check.sh [SECONDS]      # 300 by default; needs python3 with PyTorch for CUDA
#
# Runs every kind of tile program, products of matrices, FlexAttention (forward, backward) and the fused loss on
# device("cuda"), by Triton and by CuTe, and all but the first on that machine's PyTorch, with times. What each
# step says is in ./gpu_check, too. A step that fails or takes too long is told, and the next one runs; the
# exit status is 1 then. Packages that cannot be fetched may be there already: that alone is no failure.
# Written without such a machine at hand: not run on a GPU yet.
set -uo pipefail
cd "$(dirname "$0")/.."
limit=${1:-300}
out=gpu_check
mkdir -p "$out"
failed=()

# step NAME SECONDS COMMAND...: no longer than that, nor than what is left of the whole
step() {
    local name=$1 most=$2 began=$SECONDS status=0
    shift 2
    local left=$((limit - SECONDS))
    if ((left < 10)); then
        echo "$name: no time left" | tee "$out/$name.txt"
        failed+=("$name")
        return
    fi
    echo "=== $name"
    timeout --kill-after=5 "$((left < most ? left : most))" "$@" 2>&1 | tee "$out/$name.txt" || status=$?
    echo "--- $name: status $status, $((SECONDS - began)) s"
    ((status == 0)) || failed+=("$name")
}

python=${PYTHON:-python3}
export PYTHONPATH=. RUSHLIGHT_CACHE_DIR=$PWD/$out/cache
step install 90 "$python" -m pip install --quiet 'triton>=3.9' cuda-bindings nvidia-ml-py llvmlite ml_dtypes tqdm
step cute 60 "$python" -m pip install --quiet 'nvidia-cutlass-dsl>=4.8'
failed=() # Without a network what is there already may do: the steps that need more tell so.
step doctor 30 "$python" -m rushlight.cli doctor
# Products first: if something hangs after them, they are told already.
step compare 150 "$python" tools/gpu_compare.py
step templates 150 "$python" -m rushlight.cli conformance triton --templates --write "$out/conformance.md"
if ((${#failed[@]})); then
    echo "failed: ${failed[*]}"
    exit 1
fi
echo "all steps passed in $SECONDS s"
