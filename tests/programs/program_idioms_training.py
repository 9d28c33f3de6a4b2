"""What scripts do besides: own optimizers and schedules, mixed precision, jit, event files."""

import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim

device = torch.device("cpu")
from pieces import N, fill, kept, r

RTOL = {"amp_jit_compile": 0.03}


@kept
def case_custom_opt_sched_ema():

    class SGDx(optim.Optimizer):
        def __init__(s, p, lr=0.1):
            super().__init__(p, dict(lr=lr))

        @torch.no_grad()
        def step(s, closure=None):
            loss = None
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            for g in s.param_groups:
                for p in g["params"]:
                    if p.grad is None:
                        continue
                    st = s.state[p]
                    if len(st) == 0:
                        st["step"] = 0
                        st["m"] = torch.zeros_like(p, memory_format=torch.preserve_format)
                    st["step"] += 1
                    st["m"].mul_(0.9).add_(p.grad, alpha=0.1)
                    p.addcdiv_(
                        st["m"],
                        p.grad.abs().sqrt().add_(1e-08),
                        value=-g["lr"] / (1 - 0.9 ** st["step"]),
                    )
            return loss

    class Warm(
        optim.lr_scheduler._LRScheduler
        if hasattr(optim.lr_scheduler, "_LRScheduler")
        else optim.lr_scheduler.LRScheduler
    ):
        def __init__(s, o, w):
            s.w = w
            super().__init__(o)

        def get_lr(s):
            return [b * min(1, (s.last_epoch + 1) / s.w) for b in s.base_lrs]

    m = fill(nn.Linear(4, 3))
    o = SGDx(m.parameters())
    sch = Warm(o, 4)
    ema = torch.optim.swa_utils.AveragedModel(
        m, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    )
    swa = torch.optim.swa_utils.AveragedModel(m)
    L = []
    for i in range(6):
        o.zero_grad()
        l = F.mse_loss(m(N(5, 4, k=i)), N(5, 3, k=i + 9))
        l.backward()
        o.step()
        sch.step()
        ema.update_parameters(m)
        swa.update_parameters(m)
        L.append(l.item())
    sd = o.state_dict()
    o2 = SGDx(m.parameters())
    o2.load_state_dict(sd)
    s2 = optim.lr_scheduler.SequentialLR(
        o2,
        [
            optim.lr_scheduler.LinearLR(o2, 0.1, total_iters=2),
            optim.lr_scheduler.CosineAnnealingWarmRestarts(o2, 3),
        ],
        [2],
    )
    lr = []
    for i in range(6):
        o2.step()
        s2.step()
        lr.append(o2.param_groups[0]["lr"])
    lam = optim.lr_scheduler.LambdaLR(o2, lambda e: 0.95**e)
    rp = optim.lr_scheduler.ReduceLROnPlateau(o2, patience=0)
    [rp.step(1.0) for _ in range(3)]
    from torch.nn.utils import parametrizations, parametrize, prune, weight_norm

    prune.l1_unstructured(m, "weight", 0.5)
    z = (m.weight == 0).sum().item()
    prune.remove(m, "weight")

    class Sym(nn.Module):
        def forward(s, X):
            return X.triu() + X.triu(1).transpose(-1, -2)

    q = fill(nn.Linear(3, 3))
    parametrize.register_parametrization(q, "weight", Sym())
    q(N(2, 3)).sum().backward()
    wn = weight_norm(fill(nn.Linear(3, 2)))
    wn(N(2, 3)).sum().backward()
    orth = parametrizations.orthogonal(nn.Linear(3, 3))
    I3 = (orth.weight @ orth.weight.T - torch.eye(3)).abs().max().item() < 0.0001
    return (
        r(L),
        r(lr),
        r(
            [
                ema.module.weight.sum(),
                swa.module.weight.sum(),
                o2.param_groups[0]["lr"],
                z,
                q.parametrizations.weight.original.grad.sum(),
                wn.weight_g.grad.sum(),
            ]
        ),
        I3,
    )


@kept
def case_amp_jit_compile():
    m = fill(nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 2)))
    o = optim.SGD(m.parameters(), 0.1)
    sc = torch.cuda.amp.GradScaler(enabled=torch.cuda.is_available())
    out = []
    for i in range(3):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = m(N(4, 8, k=i))
            l = y.float().pow(2).mean()
        o.zero_grad()
        sc.scale(l).backward()
        sc.unscale_(o)
        sc.step(o)
        sc.update()
        out.append(round(l.item(), 2))

    @torch.jit.script
    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        for i in range(n):
            x = x * 2
        return x

    tr = torch.jit.trace(m, N(1, 8))
    out.append(float(f(torch.ones(1), 3)))
    out.append(tuple(tr(N(3, 8)).shape))
    cm = torch.compile(m, fullgraph=True, dynamic=True)
    for n in (2, 5, 3):
        out.append(r(cm(N(n, 8)).sum(), 3))

    @torch.compile
    def step(x, y):
        return (x * y).relu().sum()

    out.append(r(step(N(4), N(4, k=1))))
    return out


@kept
def case_tensorboard():
    from torch.utils.tensorboard import SummaryWriter

    d = tempfile.mkdtemp()
    w = SummaryWriter(d)
    w.add_scalar("a", torch.tensor(1.0), 0)
    w.add_histogram("h", N(10), 0)
    w.add_image("i", torch.rand(3, 4, 4), 0)
    w.add_scalars("s", {"x": 1, "y": 2}, 0)
    w.add_text("t", "x")
    w.add_hparams({"lr": 0.1}, {"m": 1.0})
    w.flush()
    w.close()
    return len(os.listdir(d)) > 0
