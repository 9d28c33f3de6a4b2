"""A training step of a GPT with 5 million weights."""

from workloads import Case
from workloads.gpt import build_gpt, build_step, step_flop

TITLE = "GPT training step (4 layers, width 256, 8x256 tokens, vocabulary 4096, AdamW)"
BATCH, BLOCK = 8, 256


def cases():
    return {"eager": {"compiled": False}, "compiled": {"compiled": True}}


def build(torch, compiled):
    model = build_gpt(torch)
    step = build_step(torch, model, BATCH, BLOCK)
    if compiled:
        step = torch.compile(step)

    def values(loss):
        return [loss] + [p.detach() for p in model.parameters()]

    flop = step_flop(model, BATCH, BLOCK)
    return Case(step, {"flop": flop, "token": BATCH * BLOCK}, values, tolerance=2e-3)
