"""A training step of a GPT with 5 million weights."""

from workloads import Case
from workloads.gpt import build_bfloat16_step, build_gpt, build_step, step_flop

TITLE = "GPT training step (4 layers, width 256, 8x256 tokens, vocabulary 4096, AdamW)"
BATCH, BLOCK = 8, 256


GOALS = {"eager": ">= 1.1", "compiled": ">= 1.25", "bfloat16 compiled": ">= 2.5"}
# Of the largest value: in bfloat16 an update can round to a neighbour of eight bits.
TOLERANCES = {"float32": 2e-3, "bfloat16": 2e-2}


def cases():
    return {
        "eager": {"compiled": False},
        "compiled": {"compiled": True},
        "bfloat16 eager": {"compiled": False, "dtype": "bfloat16"},
        "bfloat16 compiled": {"compiled": True, "dtype": "bfloat16"},
    }


def build(torch, compiled, dtype="float32"):
    model = build_gpt(torch)
    make = build_step if dtype == "float32" else build_bfloat16_step
    step = make(torch, model, BATCH, BLOCK)
    if compiled:
        step = torch.compile(step)

    def values(loss):
        # Adam's first step of a bias at zero is the sign of its gradient: bfloat16 may not tell.
        parameters = [p for p in model.parameters() if dtype == "float32" or p.dim() >= 2]
        return [loss, *(p.detach().float() for p in parameters)]

    flop = step_flop(model, BATCH, BLOCK)
    what = "flop" if dtype == "float32" else "bfloat16 flop"
    return Case(step, {what: flop, "token": BATCH * BLOCK}, values, TOLERANCES[dtype])
