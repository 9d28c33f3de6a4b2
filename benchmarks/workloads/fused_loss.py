"""Linear layer and cross entropy with a large vocabulary: without whole logits against with them.

PyTorch computes the loss from full logits, which is faster there than its own fused form
(`linear_cross_entropy`, 1.2 times slower at these sizes). In the large case its logits alone would
take 2 GiB, so it is left out there.
"""

import numpy as np

from workloads import Case

TITLE = "linear + cross entropy, 2048 tokens, width 512, 32000 classes, forward + backward"
TOKENS, WIDTH, CLASSES = 2048, 512, 32000
LARGE = {"tokens": 8192, "classes": 128000, "dtype": "bfloat16"}
GOAL = "1.2x full logits; 64 MiB above"
LARGE_GOAL = "5 % of the logits above: 100 MiB"


def cases():
    return {
        "classes": {},
        "smoothing": {"label_smoothing": 0.1},
        "z-loss": {"z_loss_coef": 1e-4},
        "probabilities": {"soft": True},
        "probabilities, chunks of 64": {"soft": True, "chunk": 64},
        "large bfloat16": {**LARGE},
    }


GOALS = {name: LARGE_GOAL if name.startswith("large") else GOAL for name in cases()}


def build(
    torch, soft=False, z_loss_coef=0.0, chunk=None, tokens=TOKENS, classes=CLASSES,
    dtype="float32", **settings,
):  # fmt: skip
    F = torch.nn.functional
    if tokens > TOKENS and torch.__name__ != "rushlight":
        raise NotImplementedError("full logits of this size are left out")
    rng = np.random.default_rng(0)

    def leaf(*shape, scale):
        # Owned by the framework: memory of numpy may change, and would be read anew.
        values = rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)
        return torch.from_numpy(values).to(getattr(torch, dtype)).clone().requires_grad_()

    x, w = leaf(tokens, WIDTH, scale=1.0), leaf(classes, WIDTH, scale=0.04)
    if soft:
        target = torch.from_numpy(rng.dirichlet(np.ones(classes), tokens).astype(np.float32))
    else:
        target = torch.from_numpy(rng.integers(0, classes, tokens))
    target = target.clone()

    def loss():
        if torch.__name__ == "rushlight":
            options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=chunk)
            return F.linear_cross_entropy(
                x, w, target, z_loss_coef=z_loss_coef, options=options, **settings
            )
        logits = F.linear(x, w)
        plain = F.cross_entropy(logits, target, **settings)
        if not z_loss_coef:
            return plain
        return plain + z_loss_coef * torch.logsumexp(logits, -1).square().mean()

    def run():
        x.grad = w.grad = None
        value = loss()
        value.backward()
        results = [value.detach(), x.grad, w.grad]
        # Their bits: numpy has no bfloat16.
        return results if dtype == "float32" else [t.view(torch.int16) for t in results]

    large = tokens > TOKENS
    return Case(run, {"flop": 6.0 * tokens * WIDTH * classes}, most_reps=1 if large else 7)
