"""What one small operation costs: loops of tiny operations, as solvers, `generate` and metrics run.

A run does its operation many times; the report's rate `op` is per operation. The same with many
tensors that wait elsewhere ("among 5,000 tensors") shows whether a cost grows with what is alive.
"""

from workloads import Case

TITLE = "small operations, one after the other: what each costs"
TIMES = 200


def cases():
    return {name: {"name": name} for name in MAKERS}


def build(torch, name):
    one, *keep = MAKERS[name](torch)

    def run():
        for _ in range(TIMES):
            last = one()
        return last

    case = Case(run, {"op": TIMES})
    case.keep = keep
    return case


def vectors(torch):
    return torch.linspace(0.0, 1.0, 16), torch.linspace(1.0, 2.0, 16)


def add_and_read(torch):
    a, b = vectors(torch)
    return (lambda: torch.tensor((a + b).tolist()[0]),)


def add_and_item(torch):
    a, b = torch.tensor(1.5), torch.tensor(2.5)

    def one():
        (a + b).item()
        return a

    return (one,)


def among_many(torch):
    one, *_ = add_and_item(torch)
    return one, [torch.ones(2) + i for i in range(5000)]


def chain(torch):
    a, b = vectors(torch)

    def one():
        x = a
        for _ in range(5):
            x = x * b + a
        x.sum().item()
        return a

    return (one,)


def gradient(torch):
    a, b = vectors(torch)
    a.requires_grad_()

    def one():
        a.grad = None
        (a * b).sum().backward()
        return a.grad

    return (one,)


def linear(torch):
    layer, x = torch.nn.Linear(16, 16), torch.ones(4, 16)
    for p in layer.parameters():
        p.detach().fill_(0.01)

    def one():
        with torch.no_grad():
            y = layer(x)
            y.tolist()
        return y

    return (one,)


def linear_grad(torch):
    layer, x = torch.nn.Linear(16, 16), torch.ones(4, 16)
    for p in layer.parameters():
        p.detach().fill_(0.01)

    def one():
        y = layer(x)
        y.tolist()
        return y.detach()

    return (one,)


def optimizer(torch):
    p = torch.nn.Parameter(torch.ones(16))
    p.grad = torch.ones(16)
    step = torch.optim.SGD([p], lr=1e-6, momentum=0.9).step

    def one():
        step()
        return p.detach()

    return (one,)


def slice_in_place(torch):
    x, b = torch.zeros(16, 16), torch.ones(16)

    def one():
        x[3] += b
        x.tolist()
        return x

    return (one,)


def store_numbers(torch):
    x = torch.zeros(16)

    def one():
        x[5] = 2.0
        x[6].item()
        return x

    return (one,)


def index(torch):
    x = torch.linspace(0.0, 1.0, 16)

    def one():
        x[5].item()
        return x

    return (one,)


def index_many(torch):
    x = torch.linspace(0.0, 1.0, 64)

    def one():
        for i in range(8):
            x[i].item()
        return x

    return (one,)


def make(torch):
    def one():
        torch.tensor(3.0)
        return torch.tensor([1.0, 2.0])

    return (one,)


def item(torch):
    x = torch.tensor(3.0)

    def one():
        x.item()
        return x

    return (one,)


def decide(torch):
    x = torch.linspace(0.0, 1.0, 16)

    def one():
        if (x > 2.0).any():
            raise AssertionError
        return x

    return (one,)


def compare(torch):
    x = torch.tensor(3.0)

    def one():
        if x > 5.0:
            raise AssertionError
        return x

    return (one,)


def growing(torch):
    new = torch.ones(1, 2, 1, 8)
    state = {}

    def one():
        old = state.get("cache")
        if old is None or old.shape[2] > 32:
            state["cache"] = new
        else:
            state["cache"] = torch.cat([old, new], 2)
        state["cache"].sum().item()
        return new

    return (one,)


def token(torch):
    """What picks the next token in `generate`."""
    logits = torch.linspace(0.0, 1.0, 100).reshape(1, 1, 100)
    state = {}

    def one():
        ids = state.get("ids")
        if ids is None or ids.shape[1] > 24:
            ids = torch.zeros(1, 1, dtype=torch.int64)
            state["done"] = torch.zeros(1, dtype=torch.bool)
        best = torch.argmax(logits[:, -1, :], dim=-1)
        state["ids"] = torch.cat([ids, best[:, None]], dim=-1)
        state["done"] = state["done"] | (best == 0)
        if state["done"].all():
            raise AssertionError
        return best

    return (one,)


def runge_kutta(torch):
    """A step of a solver whose size follows its error."""
    y, steps = torch.linspace(0.0, 1.0, 16), [0.2, 0.3, 0.8]

    def one():
        t = torch.tensor(0.1, dtype=torch.float64)
        k = [-y]
        for share in steps:
            k.append(-(y + share * t.to(y.dtype) * sum(k)))
        error = torch.stack(k, -1) @ torch.tensor([0.1, 0.2, 0.3, 0.4])
        ratio = (error / (1e-3 + 1e-3 * y.abs())).abs().pow(2).mean().sqrt()
        if ratio < 0:
            raise AssertionError
        return torch.where(ratio < 1, y, error)

    return (one,)


def softmax(torch):
    x = torch.linspace(0.0, 1.0, 16).reshape(1, 16)

    def one():
        y = torch.nn.functional.softmax(x, dim=-1)
        y.max(dim=-1).indices.item()
        return y

    return (one,)


MAKERS = {
    "a + b, read": add_and_read,
    "a + b, item": add_and_item,
    "a + b, item, among 5,000 tensors": among_many,
    "11 operations, item": chain,
    "product, sum, backward": gradient,
    "Linear without gradient, read": linear,
    "Linear, read": linear_grad,
    "SGD step": optimizer,
    "slice += vector, read": slice_in_place,
    "x[5] = number, item": store_numbers,
    "x[5].item()": index,
    "x[i].item() of 8": index_many,
    "two tensors of numbers": make,
    "x.item()": item,
    "if (x > 2).any()": decide,
    "if x > 5": compare,
    "cat of a growing cache, item": growing,
    "next token": token,
    "step of a solver": runge_kutta,
    "softmax, max, item": softmax,
}
