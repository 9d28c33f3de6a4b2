"""Scripts that use the tools around training: compile, jit, fx, profiler, loaders, groups."""

import logging
import os
import tempfile
import time
from typing import Dict, List, Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from pieces import I, N, fill, kept, r
from torch import optim
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, Sampler, Subset


@kept
def case_compile_ways():
    model = fill(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), 0.4)
    fast = torch.compile(model, mode="reduce-overhead", fullgraph=True)
    opt = optim.Adam(fast.parameters(), 1e-2)
    torch._dynamo.reset()
    torch.set_float32_matmul_precision("high")

    @torch.compile(dynamic=True, options={"trace.enabled": False} if False else None)
    def step(x, y):
        opt.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss

    losses = [step(N(n, 6, k=n), I(3, n, k=n)).item() for n in (4, 4, 7, 5)]
    with torch.no_grad():
        y = fast(N(3, 6))
    keys = ",".join(k.removeprefix("_orig_mod.") for k in fast.state_dict())

    @torch.compile(backend="eager")
    def branchy(x, flag: bool = True, scale: Optional[float] = None):
        if flag and x.sum() > 0:
            x = x * 2
        for i, part in enumerate(x.unbind(0)):
            x = x + part * i
        return {"x": x, "s": x.shape[0]} if scale is None else x * scale

    @torch._dynamo.disable
    def eager_only(x):
        return x.tolist()

    class Buffered(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros((), dtype=torch.long))

        @torch.compile
        def forward(self, x):
            self.count += 1
            return x * self.count

    b = Buffered()
    out = [b(N(2)).sum() for _ in range(3)]
    called = []

    def my_backend(gm, example_inputs):
        called.append(len(example_inputs))
        return gm.forward

    z = torch.compile(lambda a, c: (a.sin() + c).relu(), backend=my_backend)(N(3), N(3, k=2))
    d = branchy(N(3, 2).abs())
    cond = torch.cond(N(2).sum() > 1e9, lambda a: a + 1, lambda a: a - 1, (N(2),))
    return (
        losses,
        keys,
        r(
            [
                y.sum(),
                d["x"].sum(),
                branchy(N(3, 2), False, 0.5).sum(),
                *out,
                b.count,
                len(eager_only(N(3))),
                z.sum(),
                len(called),
                cond.sum(),
            ]
        ),
    )


@kept
def case_scripted_modules():
    class Gate(nn.Module):
        __constants__ = ["scale"]
        table: Dict[str, int]

        def __init__(self, scale: float):
            super().__init__()
            self.scale = scale
            self.table = {"a": 1}
            self.lin = nn.Linear(4, 4)
            self.register_buffer("steps", torch.zeros(1))

        def forward(
            self, x: torch.Tensor, mask: Optional[torch.Tensor] = None
        ) -> Tuple[torch.Tensor, List[int]]:
            sizes: List[int] = []
            for i in range(x.size(0)):
                sizes.append(i * self.table["a"])
            if mask is not None:
                x = x.masked_fill(mask, 0.0)
            if torch.jit.is_scripting():
                x = x + 0.0
            return self.helper(self.lin(x)) * self.scale, sizes

        @torch.jit.export
        def helper(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sigmoid(x) * x

        @torch.jit.ignore
        def debug(self, x):
            return str(x)

        @torch.jit.unused
        def never(self, x):
            raise RuntimeError("never")

    m = torch.jit.script(fill(Gate(1.5), 0.5))
    y, sizes = m(N(3, 4), N(3, 4) > 1)
    traced = torch.jit.trace(
        m.eval() if False else nn.Sequential(m.lin, nn.ReLU()), (N(2, 4),), check_trace=False
    )
    frozen = torch.jit.optimize_for_inference(
        torch.jit.freeze(torch.jit.script(nn.Sequential(nn.Linear(4, 2)).eval()))
    )
    path = os.path.join(tempfile.mkdtemp(), "w.pt")
    torch.save(m.state_dict(), path)
    other = torch.jit.script(Gate(1.5))
    other.load_state_dict(torch.load(path))
    same = torch.equal(other(N(3, 4))[0], m(N(3, 4))[0])

    @torch.jit.script
    def fused(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return x * 0.5 * (1.0 + torch.erf((x + b) / 1.41421))

    return sizes, r(
        [
            y.sum(),
            traced(N(5, 4)).sum(),
            fused(N(3), N(3, k=1)).sum(),
            float(same),
            frozen(N(1, 4)).numel(),
        ]
    )


@kept
def case_fx_passes():

    from torch.fx import (
        Interpreter,
        Transformer,
        replace_pattern,
        symbolic_trace,
    )

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn = nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)
            self.fc = nn.Linear(12, 4)
            self.param = nn.Parameter(torch.zeros(4))

        def forward(self, x):
            x = torch.relu(self.bn(self.conv(x)))
            return self.fc(x.flatten(1)).clamp(min=0.0, max=1.0) + self.param

    model = fill(Net(), 0.4).eval()
    gm = symbolic_trace(model)
    ops = [n.op for n in gm.graph.nodes]
    names = ",".join(
        str(n.target if isinstance(n.target, str) else n.target.__name__) for n in gm.graph.nodes
    )
    x = N(2, 2, 4, 4)
    before = gm(x)
    for n in gm.graph.nodes:
        if n.op == "call_function" and n.target in (torch.relu, F.relu):
            with gm.graph.inserting_after(n):
                new = gm.graph.call_function(F.gelu, n.args, n.kwargs)
                n.replace_all_uses_with(new)
            gm.graph.erase_node(n)
    gm.graph.lint()
    gm.recompile()
    after = gm(x)
    f = symbolic_trace(lambda a, b: a + b * 2)
    replaced = replace_pattern(f, lambda a, b: a + b * 2, lambda a, b: a - b)
    shapes = {}

    class Shapes(Interpreter):
        def run_node(self, n):
            out = super().run_node(n)
            shapes[n.name] = tuple(out.shape)
            return out

    Shapes(gm).run(x)

    class Neg(Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(torch.tanh if target is F.gelu else target, args, kwargs)

    third = Neg(gm).transform()(x)
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    fused = fuse_conv_bn_eval(model.conv, model.bn)
    err = (fused(x) - model.bn(model.conv(x))).abs().max() < 1e-4
    code = "def forward" in gm.code
    return (
        ",".join(ops),
        names,
        str(shapes),
        r(
            [
                before.sum(),
                after.sum(),
                third.sum(),
                f(N(2), N(2, k=1)).sum(),
                len(replaced),
                err,
                code,
            ]
        ),
    )


@kept
def case_profiler_and_timing():
    from torch.profiler import ProfilerActivity, profile, record_function, schedule
    from torch.utils import benchmark

    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    steps = []
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True,
                 schedule=schedule(wait=1, warmup=1, active=2, repeat=1),
                 on_trace_ready=lambda p: steps.append(len(p.key_averages()) > 0)) as prof:  # fmt: skip
        for _ in range(5):
            with record_function("forward_pass"):
                model(N(4, 8)).sum().backward()
            prof.step()
    with profile(activities=[ProfilerActivity.CPU]) as p2:
        with record_function("mine"):
            model(N(4, 8)).sum().item()
    table = p2.key_averages(group_by_input_shape=False).table(
        sort_by="cpu_time_total", row_limit=10
    )
    path = os.path.join(tempfile.mkdtemp(), "trace.json")
    p2.export_chrome_trace(path)
    with torch.autograd.profiler.profile(use_cpu=True) as p3:
        model(N(2, 8)).sum().item()
    with torch.autograd.profiler.record_function("x"):
        pass
    t = benchmark.Timer("f(x)", globals={"f": torch.relu, "x": N(4)}).timeit(3)
    start = (
        torch.cuda.Event(enable_timing=True) if torch.cuda.is_available() else time.perf_counter()
    )
    with torch.autograd.profiler.emit_nvtx(enabled=False):
        model(N(1, 8))
    return [
        float("mine" in table),
        float(os.path.getsize(path) > 10),
        float(t.mean > 0),
        float(len(steps)),
        float(start > 0),
        float(len(p3.key_averages()) > 0),
    ]


class Numbered(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if i >= self.n:
            raise IndexError
        return {
            "img": torch.full((2, 3), float(i)),
            "meta": {"id": i, "name": f"n{i}"},
            "box": (i, i + 1.0),
        }

    def __getitems__(self, ids):
        return [self[i] for i in ids]


class Buckets(Sampler):
    def __init__(self, lengths, batch):
        self.order = sorted(range(len(lengths)), key=lambda i: lengths[i])
        self.batch = batch

    def __iter__(self):
        for i in range(0, len(self.order), self.batch):
            yield self.order[i : i + self.batch]

    def __len__(self):
        return -(-len(self.order) // self.batch)


class Stream(IterableDataset):
    def __init__(self, lo, hi):
        self.lo, self.hi = lo, hi

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        ids = range(self.lo, self.hi)
        if info is not None:
            ids = ids[info.id :: info.num_workers]
        return map(lambda i: (torch.tensor(i), i * 2), ids)


class Bad(Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, i):
        raise ValueError(f"bad sample {i}")


@kept
def case_loaders():
    lengths = [5, 1, 4, 2, 3, 9, 7]
    out = []
    for b in DataLoader(
        Numbered(7), batch_sampler=Buckets(lengths, 3), num_workers=2, prefetch_factor=2
    ):
        out.append([b["img"][:, 0, 0].tolist(), b["meta"]["id"].tolist(), b["box"][1].tolist()])
        out.append(str(b["meta"]["name"]))
    total = sum(int(y.sum()) for _, y in DataLoader(Stream(0, 11), batch_size=3, num_workers=2))
    sub = Subset(Numbered(9), [8, 2, 4])
    out.append([len(sub), sub[0]["meta"]["id"], total])
    groups = list(BatchSampler(torch.utils.data.SequentialSampler(range(7)), 3, drop_last=True))
    out.append([len(groups), groups[1][0]])
    try:
        next(iter(DataLoader(Bad(), num_workers=1)))
    except ValueError as e:
        out.append([float("bad sample 0" in str(e)), float("worker process 0" in str(e))])
    loader = DataLoader(
        Numbered(6),
        2,
        persistent_workers=True,
        num_workers=1,
        multiprocessing_context="fork",
        timeout=60,
    )
    out.append([len([1 for _ in range(2) for _ in loader])])
    mixed = torch.utils.data.default_collate([(1, 2.0, "a", None if False else torch.ones(2))] * 2)
    out.append([str(mixed[0].dtype), str(mixed[1].dtype)])
    chain = torch.utils.data.ChainDataset([Stream(0, 2), Stream(5, 7)])
    out.append([int(i) for i, _ in chain])
    stacked = torch.utils.data.StackDataset(torch.arange(3), [7, 8, 9])
    out.append([int(stacked[1][0]), stacked[1][1]])
    samplers = torch.utils.data.DistributedSampler(
        Numbered(7), num_replicas=2, rank=1, shuffle=False
    )
    out.append(list(samplers))
    return out


@kept
def case_custom_operators():
    from torch.library import custom_op, register_autograd

    @custom_op("mylib::scaled", mutates_args=())
    def scaled(x: torch.Tensor, k: float) -> torch.Tensor:
        return x * k

    @scaled.register_fake
    def _(x, k):
        return torch.empty_like(x)

    def setup(ctx, inputs, output):
        ctx.k = inputs[1]

    register_autograd("mylib::scaled", lambda ctx, g: (g * ctx.k, None), setup_context=setup)
    x = N(3).requires_grad_()
    y = torch.ops.mylib.scaled(x, 2.5)
    torch.compile(lambda t: scaled(t, 3.0).sum())(x).backward()

    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(i):
            return i.exp()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output)
            ctx.mark_non_differentiable() if False else None

        @staticmethod
        def backward(ctx, g):
            (o,) = ctx.saved_tensors
            return g * o

        @staticmethod
        def jvp(ctx, t):
            return t

    z = N(4, dtype=None).double().requires_grad_() if False else N(4).double().requires_grad_()
    ok = torch.autograd.gradcheck(Exp.apply, (z,)) and torch.autograd.gradgradcheck(Exp.apply, (z,))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.half(), lambda t: t.float()):
        w = N(3).requires_grad_()
        (w * w).sum().backward()
    aten = torch.ops.aten.add.Tensor(x.detach(), x.detach(), alpha=2) + torch.ops.aten.mul(
        x.detach(), 3
    )
    soft = torch.ops.aten._softmax.default(x.detach(), 0, False)
    logging.getLogger("torch").setLevel(logging.ERROR)
    return r([y.sum(), x.grad.sum(), float(ok), w.grad.sum(), aten.sum(), soft.sum()])
