"""Fifty training steps of a network so small that only overhead counts."""

import numpy as np

from workloads import Case, from_numpy
from workloads.gpt import fill_weights, weights_of

TITLE = "50 training steps of a 64-64-64-10 MLP, batch 32, SGD with momentum"
STEPS = 50
GOALS = {"eager": ">= 0.8", "module compiled": ">= 1.5", "compiled": ">= 5 and not behind JAX"}
JAX_CASES = ("compiled",)


def cases():
    return {name: {"compiled": name} for name in GOALS}


def batches_of(convert):
    """What `convert` makes of the inputs and the classes of each step."""
    rng = np.random.default_rng(1)
    return [
        (convert(rng.standard_normal((32, 64), dtype=np.float32)), convert(rng.integers(0, 10, 32)))
        for _ in range(STEPS)
    ]


def build_jax(jax, compiled):
    """The whole step under `jit`, its old state given to it."""
    jnp = jax.numpy
    shapes = [(64, 64), (64,), (64, 64), (64,), (10, 64), (10,)]
    params = [jnp.asarray(values) for values in weights_of(shapes)]
    moving = [jnp.zeros_like(p) for p in params]
    batches = batches_of(jnp.asarray)

    def loss_of(params, x, y):
        w1, b1, w2, b2, w3, b3 = params
        hidden = jax.nn.relu(jax.nn.relu(x @ w1.T + b1) @ w2.T + b2)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(hidden @ w3.T + b3), y[:, None], 1)
        return -chosen.mean()

    def step(params, moving, x, y):
        loss, grads = jax.value_and_grad(loss_of)(params, x, y)
        moving = [0.9 * m + g for m, g in zip(moving, grads, strict=True)]
        return [p - 1e-2 * m for p, m in zip(params, moving, strict=True)], moving, loss

    step = jax.jit(step, donate_argnums=(0, 1))

    def run():
        nonlocal params, moving
        for x, y in batches:
            params, moving, loss = step(params, moving, x, y)
        return loss

    return Case(run, {"step": STEPS}, lambda loss: [loss, *params])


def build(torch, compiled):
    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    fill_weights(torch, model)
    batches = batches_of(lambda values: from_numpy(torch, values))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)

    forward = torch.compile(model) if compiled == "module compiled" else model

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(forward(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    if compiled == "compiled":
        step = torch.compile(step)

    def run():
        for x, y in batches:
            loss = step(x, y)
        return loss

    return Case(
        run, {"step": STEPS}, lambda loss: [loss, *(p.detach() for p in model.parameters())]
    )
