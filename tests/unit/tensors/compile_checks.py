"""Run the same thing eagerly and compiled: equal bits, and the expected number of replays."""

import warnings

import numpy as np

import rushlight as torch


def bits(value):
    """A tensor, number or tree of them as comparable bytes."""
    if isinstance(value, torch.Tensor):
        return (tuple(value.shape), str(value.dtype), value.detach().float().numpy().tobytes())
    if isinstance(value, (list, tuple)):
        return tuple(bits(item) for item in value)
    if isinstance(value, dict):
        return {key: bits(item) for key, item in value.items()}
    return value


def trace(make, calls, compiled):
    """Every result of `step(i)`, then the final state; `make()` gives (step, state function)."""
    torch.manual_seed(7)
    step, state = make()
    run = torch.compile(step) if compiled else step
    with warnings.catch_warnings():
        warnings.simplefilter("error" if compiled else "default")
        results = [bits(run(i) if takes_number(step) else run()) for i in range(calls)]
    end = (bits(state()), bits(torch.rand(3)))
    return results, end, (run.captures, run.replays) if compiled else None


def takes_number(step):
    return step.__code__.co_argcount > 0


def check_equal(make, calls=8, replays=None):
    """Eager and compiled agree bit for bit; at least `replays` calls were replays."""
    eager, eager_end, _ = trace(make, calls, False)
    found, end, counts = trace(make, calls, True)
    assert found == eager
    assert end == eager_end
    if replays is not None:
        assert counts[1] >= replays, f"{counts} captures and replays"
    return counts


def array(*shape, seed=0):
    rng = np.random.default_rng(seed)
    return torch.tensor(rng.standard_normal(shape).astype(np.float32).tolist())


def own_bits(value):
    """Without a look at the memory itself, which numpy would share from then on."""
    if isinstance(value, torch.Tensor):
        return bits(value.detach().clone())
    if isinstance(value, (list, tuple)):
        return tuple(map(own_bits, value))
    return {k: own_bits(v) for k, v in value.items()} if isinstance(value, dict) else value


def replays(run):
    return getattr(run, "_compiled", run).replays


def settled(run, *args):
    """Call until it is replayed; the gradients are thrown away."""
    for _ in range(3):
        run(*args)
    before = replays(run)
    run(*args)
    assert replays(run) == before + 1, torch.compile_report(run)
    return run


def grads(*tensors):
    found = [None if t.grad is None else own_bits(t.grad) for t in tensors]
    for tensor in tensors:
        tensor.grad = None
    return found
