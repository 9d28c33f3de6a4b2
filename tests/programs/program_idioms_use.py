"""What scripts do besides: hooks, data loaders, files, odd idioms."""

import copy
import io
import pickle

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    Sampler,
    WeightedRandomSampler,
    random_split,
)

device = torch.device("cpu")
from pieces import I, N, fill, kept, r


@kept
def case_hooks_ckpt_func():
    from torch.utils.checkpoint import checkpoint, checkpoint_sequential

    net = fill(
        nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3)
        ),
        0.2,
    )
    acts = {}
    hs = [
        m.register_forward_hook(lambda m, i, o, n=n: acts.__setitem__(n, o.detach()))
        for n, m in net.named_modules()
        if n
    ]
    gr = {}
    net[0].register_full_backward_hook(lambda m, gi, go: gr.__setitem__("c", go[0].norm()))
    x = N(2, 3, 8, 8).requires_grad_()
    y = net(x)
    y[:, 0].sum().backward()
    cam = (acts["0"] * x.grad.mean()).sum()
    [h.remove() for h in hs]

    class Clamp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, lo, hi):
            ctx.save_for_backward(x)
            ctx.lo, ctx.hi = (lo, hi)
            ctx.set_materialize_grads(False)
            return x.clamp(lo, hi)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            g = g.clone()
            g[(x < ctx.lo) | (x > ctx.hi)] = 0.1
            return (g, None, None)

    z = N(6).requires_grad_()
    Clamp.apply(z, -0.5, 0.5).pow(2).sum().backward()
    w = N(2, 3, 8, 8).requires_grad_()
    checkpoint_sequential(net, 2, w, use_reentrant=False).sum().backward()
    q = N(3, 3).requires_grad_()
    checkpoint(lambda a: (a @ a).relu(), q, use_reentrant=False).sum().backward()
    from torch.func import functional_call, grad, hessian, jacrev, stack_module_state, vmap

    p = {k: v.detach() for k, v in net[4:].named_parameters()}
    lin = fill(nn.Linear(4, 2))
    pp = {k: v.detach() for k, v in lin.named_parameters()}

    def loss(p, a, t):
        return F.cross_entropy(functional_call(lin, p, (a.unsqueeze(0),)), t.unsqueeze(0))

    pg = vmap(grad(loss), in_dims=(None, 0, 0))(pp, N(5, 4), I(2, 5))
    ms = [fill(nn.Linear(4, 2), 0.1 * (i + 1)) for i in range(3)]
    ps, bs = stack_module_state(ms)
    base = copy.deepcopy(ms[0]).to("meta")
    en = vmap(lambda p, b, x: functional_call(base, (p, b), (x,)), in_dims=(0, 0, None))(
        ps, bs, N(5, 4)
    )
    H = hessian(lambda v: (v.sin() * v).sum())(N(3))
    J = jacrev(lambda v: v**2)(N(3))
    return r(
        [
            cam,
            gr["c"],
            z.grad.sum(),
            w.grad.norm(),
            q.grad.norm(),
            pg["weight"].norm(),
            en.norm(),
            H.norm(),
            J.norm(),
        ]
    )


@kept
def case_sloppy():
    out = []
    torch.set_default_dtype(torch.float64)
    out.append(str(torch.ones(2).dtype))
    torch.set_default_dtype(torch.float32)
    a = np.zeros((2, 3), "f4")
    t = torch.from_numpy(a)
    t += 1
    a[0, 0] = 5
    out.append(t.tolist())
    b = t.numpy()
    t.mul_(2)
    out.append(b.tolist())
    out.append(np.array(t).sum().item())
    out.append(np.asarray(t, dtype=np.float64).dtype.name)
    out.append(
        [
            isinstance(t, torch.FloatTensor),
            type(t) == torch.Tensor,
            t.type(),
            torch.is_tensor(t),
            isinstance(t, torch.LongTensor),
            t.long().type() == "torch.LongTensor",
        ]
    )
    out.append(
        [
            tuple(torch.Tensor(3, 4).shape),
            torch.Tensor([1, 2]).tolist(),
            torch.LongTensor([3]).tolist(),
            tuple(torch.FloatTensor(2, 2).zero_().shape),
            torch.ByteTensor([1, 0]).bool().tolist(),
        ]
    )
    c = copy.deepcopy(nn.Parameter(N(2)))
    out.append([type(c).__name__, c.requires_grad])
    out.append(pickle.loads(pickle.dumps(N(3))).tolist() == N(3).tolist())
    x = N(3)
    x.data[0] = 7
    x.data = x.data * 2
    out.append(r(x.tolist()))
    w = nn.Parameter(N(2))
    w.data = w.data.half()
    out.append(str(w.dtype))

    class My(torch.Tensor):
        @classmethod
        def __torch_function__(cls, f, types, args=(), kwargs=None):
            rr = super().__torch_function__(f, types, args, kwargs or {})
            return rr

    m = N(3).as_subclass(My)
    out.append([type(m + 1).__name__, type(m[0]).__name__, isinstance(torch.cat([m, m]), My)])

    class P(nn.Parameter):
        pass

    l = nn.Linear(2, 2)
    l.weight = P(N(2, 2))
    out.append(
        [type(l.weight).__name__, len(list(l.parameters())), type(copy.deepcopy(l).weight).__name__]
    )
    buf = io.BytesIO()
    torch.save(
        {
            "m": l.state_dict(),
            "o": optim.Adam(l.parameters()).state_dict(),
            "e": 3,
            "a": np.float64(2.0),
        },
        buf,
    )
    buf.seek(0)
    ck = torch.load(buf, weights_only=False)
    out.append([ck["e"], list(ck["m"])])
    buf = io.BytesIO()
    torch.save(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), buf)
    buf.seek(0)
    mm = torch.load(buf, weights_only=False)
    out.append(str(mm))
    x = N(4, 4)
    out.append(
        r(
            [
                x.max(),
                x.max(1)[0].sum(),
                x.argmax(),
                x.sort(dim=1, descending=True)[1].sum(),
                (x > 0).sum(),
                x[x > 0].mean(),
                x.topk(2)[0].sum(),
                x.std(),
                x.var(0).sum(),
                torch.median(x),
                x.norm(p=1),
                x.prod(),
                x.cumsum(0)[-1].sum(),
                x.kthvalue(2).values.sum(),
                torch.where(x > 0, x, -x).sum(),
                x.unfold(0, 2, 1).sum(),
                torch.einsum("ij,jk->ik", x, x).trace(),
                x.expand(2, 4, 4).sum(),
                x.t().contiguous().view(-1)[3],
                F.one_hot(torch.tensor([1, 2]), 4).sum(),
                x.new_tensor([1.5])[0],
                x.fill_diagonal_(0).sum(),
                x.clamp_(min=0).sum(),
                torch.logsumexp(x, 0).sum(),
                x.tril().sum(),
                x.nonzero().sum(),
                x.masked_select(x > 0.5).sum(),
                x.scatter(1, I(4, 4, 1), 2.0).sum(),
                x.index_add(0, torch.tensor([0, 2]), N(2, 4)).sum(),
                x.flip(0)[0, 0],
                x.roll(1, 0)[0, 0],
                torch.quantile(x, 0.3),
                x.histc(4, 0, 1).sum(),
                torch.bincount(I(4, 9)).max(),
            ]
        )
    )
    print_t = (
        repr(N(2, 3))
        + repr(torch.tensor([1, 2]))
        + repr(N(2, requires_grad=False) if False else N(2).requires_grad_())
        + repr(nn.Parameter(N(2)))
        + repr(torch.zeros(0))
        + repr(torch.tensor(True))
        + repr(N(2).requires_grad_() * 2)
    )
    out.append(print_t)
    with torch.autograd.set_detect_anomaly(True):
        N(2).requires_grad_().exp().sum().backward()
    try:
        N(2, 3) @ N(2, 3)
    except RuntimeError as e:
        out.append(str(e))
    try:
        nn.Linear(3, 2)(N(4, 5))
    except RuntimeError as e:
        out.append(str(e))
    try:
        l.load_state_dict({"weight": N(3, 3)})
    except RuntimeError as e:
        out.append(str(e))
    return out


@kept
def case_data():

    class DS(Dataset):
        def __init__(s, n):
            s.n = n

        def __len__(s):
            return s.n

        def __getitem__(s, i):
            return {
                "x": torch.full((i % 3 + 1,), float(i)),
                "y": i,
                "s": str(i),
                "a": np.array([i, i + 1]),
            }

    def coll(b):
        return (
            nn.utils.rnn.pad_sequence([v["x"] for v in b], batch_first=True),
            torch.tensor([v["y"] for v in b]),
        )

    class It(IterableDataset):
        def __iter__(s):
            w = torch.utils.data.get_worker_info()
            lo, st = (0, 1) if w is None else (w.id, w.num_workers)
            return iter(range(lo, 10, st))

    out = [
        [tuple(x.shape) for x, _ in DataLoader(DS(7), 3, collate_fn=coll)],
        [b.tolist() for b in DataLoader(It(), 4, num_workers=2)],
        sorted(
            sum(
                [
                    y.tolist()
                    for _, y in DataLoader(
                        DS(9),
                        4,
                        shuffle=True,
                        num_workers=2,
                        collate_fn=coll,
                        drop_last=False,
                        pin_memory=False,
                        persistent_workers=True,
                    )
                ],
                [],
            )
        ),
    ]
    a, b = random_split(DS(10), [7, 3], generator=torch.Generator().manual_seed(0))
    out.append([len(a), len(b), len(ConcatDataset([a, b])), a[0]["s"] != None])
    c = (
        torch.utils.data.default_collate([DS(5)[0], DS(5)[3]])
        if False
        else torch.utils.data.default_collate([{"y": 1, "s": "a"}, {"y": 2, "s": "b"}])
    )
    out.append(str(c))

    class S(Sampler):
        def __init__(s, d):
            s.d = d

        def __iter__(s):
            return iter(range(len(s.d) - 1, -1, -1))

        def __len__(s):
            return len(s.d)

    out.append([y.tolist() for _, y in DataLoader(DS(5), 2, sampler=S(DS(5)), collate_fn=coll)])
    out.append(len(list(WeightedRandomSampler([0.1, 0.9], 5))))
    it = iter(DataLoader(DS(3), collate_fn=coll))
    next(it)
    out.append(len(it))
    return out
