"""Linear layer and cross entropy with a large vocabulary: without whole logits against with them.

PyTorch computes the loss from full logits, which is faster there than its own fused form
(`linear_cross_entropy`, 1.2 times slower at these sizes).
"""

import numpy as np

from workloads import Case

TITLE = "linear + cross entropy, 2048 tokens, width 512, 32000 classes, forward + backward"
TOKENS, WIDTH, CLASSES = 2048, 512, 32000


def cases():
    return {
        "classes": {},
        "smoothing": {"label_smoothing": 0.1},
        "z-loss": {"z_loss_coef": 1e-4},
        "probabilities": {"soft": True},
    }


def build(torch, soft=False, z_loss_coef=0.0, **settings):
    F = torch.nn.functional
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal((TOKENS, WIDTH), dtype=np.float32)).requires_grad_()
    w = torch.from_numpy(rng.standard_normal((CLASSES, WIDTH), dtype=np.float32) * np.float32(0.04))
    w.requires_grad_()
    if soft:
        target = torch.from_numpy(rng.dirichlet(np.ones(CLASSES), TOKENS).astype(np.float32))
    else:
        target = torch.from_numpy(rng.integers(0, CLASSES, TOKENS))

    def loss():
        if torch.__name__ == "rushlight":
            return F.linear_cross_entropy(x, w, target, z_loss_coef=z_loss_coef, **settings)
        logits = F.linear(x, w)
        plain = F.cross_entropy(logits, target, **settings)
        if not z_loss_coef:
            return plain
        return plain + z_loss_coef * torch.logsumexp(logits, -1).square().mean()

    def run():
        x.grad = w.grad = None
        value = loss()
        value.backward()
        return [value.detach(), x.grad, w.grad]

    return Case(run, {"flop": 6.0 * TOKENS * WIDTH * CLASSES}, most_reps=7)
