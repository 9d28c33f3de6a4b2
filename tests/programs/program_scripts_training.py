"""Scripts about ways of training: scaling, resuming, distilling, meta-learning, pruning."""

import copy
import io
import os
import random
import tempfile
from collections import OrderedDict, deque, namedtuple
from contextlib import nullcontext

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from pieces import I, N, fill, kept, r
from torch import optim
from torch.autograd import Variable, grad
from torch.utils.data import DataLoader, Dataset


class Config:
    block, vocab, layers, heads, width = 12, 19, 2, 2, 16


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.qkv = nn.Linear(c.width, 3 * c.width, bias=False)
        self.proj = nn.Linear(c.width, c.width, bias=False)
        self.heads = c.heads
        self.flash = hasattr(F, "scaled_dot_product_attention")
        self.register_buffer(
            "mask", torch.tril(torch.ones(c.block, c.block)).view(1, 1, c.block, c.block)
        )

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.qkv(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in (q, k, v))
        if self.flash and self.training:
            y = F.scaled_dot_product_attention(
                q, k, v, attn_mask=None, dropout_p=0.0, is_causal=True
            )
        else:
            att = (q @ k.transpose(-2, -1)) * k.size(-1) ** -0.5
            att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
            y = F.softmax(att, dim=-1) @ v
        return self.proj(y.transpose(1, 2).contiguous().view(B, T, C))


class GPT(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.transformer = nn.ModuleDict(dict(
            wte=nn.Embedding(c.vocab, c.width), wpe=nn.Embedding(c.block, c.width),
            h=nn.ModuleList([nn.ModuleDict({
                "ln_1": nn.LayerNorm(c.width), "attn": Attention(c), "ln_2": nn.LayerNorm(c.width),
                "mlp": nn.Sequential(OrderedDict(fc=nn.Linear(c.width, 4 * c.width),
                                                 act=nn.GELU(approximate="tanh"),
                                                 proj=nn.Linear(4 * c.width, c.width))),
            }) for _ in range(c.layers)]),
            ln_f=nn.LayerNorm(c.width),
        ))  # fmt: skip
        self.lm_head = nn.Linear(c.width, c.vocab, bias=False)
        self.transformer.wte.weight = self.lm_head.weight
        self.apply(self._init)

    def _init(self, m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            torch.nn.init.normal_(m.weight, mean=0.0, std=0.02)
            if getattr(m, "bias", None) is not None:
                torch.nn.init.zeros_(m.bias)

    def forward(self, idx, targets=None):
        pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
        x = self.transformer.wte(idx) + self.transformer.wpe(pos)
        for b in self.transformer.h:
            x = x + b.attn(b.ln_1(x))
            x = x + b.mlp(b.ln_2(x))
        x = self.transformer.ln_f(x)
        if targets is None:
            return self.lm_head(x[:, [-1], :]), None
        y = self.lm_head(x)
        return y, F.cross_entropy(y.view(-1, y.size(-1)), targets.view(-1), ignore_index=-1)

    @torch.no_grad()
    def generate(self, idx, n, top_k=None):
        for _ in range(n):
            logits, _ = self(idx[:, -self.c.block :])
            logits = logits[:, -1, :] / 0.9
            if top_k is not None:
                v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
                logits[logits < v[:, [-1]]] = -float("Inf")
            idx = torch.cat((idx, F.softmax(logits, -1).argmax(-1, keepdim=True)), dim=1)
        return idx


@kept
def case_gpt_accumulate_resume():
    device_type = "cuda" if torch.cuda.is_available() else "cpu"
    ctx = nullcontext() if device_type == "cpu" else torch.amp.autocast(device_type=device_type)
    data = np.random.default_rng(0).integers(0, 19, 400).astype(np.uint16)
    path = os.path.join(tempfile.mkdtemp(), "train.bin")
    data.tofile(path)
    mem = np.memmap(path, dtype=np.uint16, mode="r")

    def get_batch(k):
        ix = I(len(mem) - 12, 4, k=k)
        x = torch.stack([torch.from_numpy(mem[i : i + 12].astype(np.int64)) for i in ix])
        y = torch.stack([torch.from_numpy(mem[i + 1 : i + 13].astype(np.int64)) for i in ix])
        return x, y

    def make():
        m = GPT(Config())
        p = {n: q for n, q in m.named_parameters() if q.requires_grad}
        groups = [{"params": [q for q in p.values() if q.dim() >= 2], "weight_decay": 0.1},
                  {"params": [q for q in p.values() if q.dim() < 2], "weight_decay": 0.0}]  # fmt: skip
        return m, optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95), fused=False)

    model, opt = make()
    fill(model, 0.2)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    losses = []

    def run(model, opt, steps):
        for it in steps:
            for g in opt.param_groups:
                g["lr"] = 1e-2 * (it + 1) / 4
            for micro in range(2):
                with ctx:
                    _, loss = model(*get_batch(2 * it + micro))
                    loss = loss / 2
                scaler.scale(loss).backward()
            scaler.unscale_(opt)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
            opt.zero_grad(set_to_none=True)
            losses.append(loss.item() * 2)

    run(model, opt, range(3))
    file = os.path.join(os.path.dirname(path), "ckpt.pt")
    torch.save({"model": model.state_dict(), "optimizer": opt.state_dict(), "iter": 3}, file)
    run(model, opt, range(3, 5))
    again, opt2 = make()
    ck = torch.load(file, map_location="cpu")
    state = {k.removeprefix("_orig_mod."): v for k, v in ck["model"].items()}
    again.load_state_dict(state)
    opt2.load_state_dict(ck["optimizer"])
    run(again, opt2, range(ck["iter"], 5))
    same = losses[3:5] == losses[5:7]
    again.eval()
    out = again.generate(torch.zeros((1, 1), dtype=torch.long), 6, top_k=5)
    return losses, [float(same)], out[0].tolist(), [sum(p.numel() for p in again.parameters())]


@kept
def case_distillation_ema_swa():
    teacher = fill(nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 4)), 0.5).eval()
    student = fill(nn.Sequential(nn.Linear(6, 5), nn.ReLU6(), nn.Linear(5, 4)), 0.5)
    for p in teacher.parameters():
        p.requires_grad = False
    ema = copy.deepcopy(student)
    [p.detach_() for p in ema.parameters()]
    swa_model = optim.swa_utils.AveragedModel(student)
    opt = optim.SGD(student.parameters(), lr=0.2, momentum=0.9, dampening=0.1)
    cyc = optim.lr_scheduler.CyclicLR(opt, 0.1, 0.3, step_size_up=2, mode="triangular2")
    swa_sched = optim.swa_utils.SWALR(opt, swa_lr=0.05, anneal_epochs=2)
    kl = nn.KLDivLoss(reduction="batchmean", log_target=True)
    losses, lrs, T = [], [], 3.0
    for k in range(5):
        x, y = N(8, 6, k=k), I(4, 8, k=k)
        out = student(x)
        with torch.no_grad():
            soft = F.log_softmax(teacher(x) / T, 1)
        loss = 0.7 * T * T * kl(F.log_softmax(out / T, 1), soft) + 0.3 * F.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            for a, b in zip(ema.parameters(), student.parameters()):
                a.mul_(0.99).add_(b.data, alpha=0.01)
        if k < 2:
            cyc.step()
        else:
            swa_model.update_parameters(student)
            swa_sched.step()
        losses.append(loss.item())
        lrs.append(opt.param_groups[0]["lr"])
    return losses, lrs, r([p.norm() for m in (ema, swa_model.module) for p in m.parameters()])


@kept
def case_maml():
    from torch.func import functional_call, vmap
    from torch.func import grad as fgrad

    net = fill(nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1)), 0.6)
    names = [n for n, _ in net.named_parameters()]
    meta = optim.Adam(net.parameters(), lr=0.05)
    amp, ph = N(3).abs() + 0.5, N(3, k=1)
    losses = []
    for k in range(3):
        total = 0.0
        for a, p in zip(amp, ph):
            xs, xq = N(5, 1, k=k), N(5, 1, k=k + 50)
            ys, yq = a * torch.sin(xs + p), a * torch.sin(xq + p)
            fast = dict(net.named_parameters())
            for _ in range(2):
                inner = F.mse_loss(functional_call(net, fast, xs), ys)
                gs = grad(inner, list(fast.values()), create_graph=True)
                fast = {n: w - 0.1 * g for (n, w), g in zip(fast.items(), gs)}
            total = total + F.mse_loss(functional_call(net, fast, (xq,)), yq)
        meta.zero_grad()
        total.backward()
        meta.step()
        losses.append(total.item())

    params = {k: v.detach() for k, v in net.named_parameters()}

    def loss_fn(p, x, y):
        return F.mse_loss(functional_call(net, p, x), y)

    def adapt(x, y):
        g = fgrad(loss_fn)(params, x, y)
        return loss_fn({n: params[n] - 0.1 * g[n] for n in names}, x, y)

    x = N(3, 5, 1, k=9)
    each = vmap(adapt)(x, amp[:, None, None] * torch.sin(x + ph[:, None, None]))
    return losses, r(each.tolist())


@kept
def case_prune_norms_fake_quant():
    from torch.nn.utils import (
        parametrizations,
        prune,
        remove_weight_norm,
        spectral_norm,
        weight_norm,
    )

    torch.manual_seed(0)
    model = fill(nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3)), 0.4)
    prune.random_unstructured(model[0], "bias", amount=2)
    mask = model[0].bias_mask.sum()
    prune.remove(model[0], "bias")
    prune.global_unstructured(
        [(model[0], "weight"), (model[2], "weight")],
        pruning_method=prune.L1Unstructured,
        amount=0.4,
    )
    prune.ln_structured(model[2], "weight", amount=0.34, n=2, dim=0)
    sparsity = [float((m.weight == 0).sum()) for m in (model[0], model[2])]
    keys = ",".join(sorted(model.state_dict()))
    model(N(4, 8)).sum().backward()
    g = model[0].weight_orig.grad.norm()
    prune.remove(model[0], "weight")

    sn = spectral_norm(fill(nn.Linear(5, 4), 0.4))
    sn.weight_u.copy_(F.normalize(N(4), dim=0))
    for _ in range(10):
        sn(N(2, 5))
    wn = weight_norm(fill(nn.Conv1d(3, 4, 3), 0.3), dim=None)
    wn2 = parametrizations.weight_norm(fill(nn.Linear(4, 4), 0.3))
    a = wn2(N(2, 4)).norm()
    remove_weight_norm(wn)
    torch.nn.utils.parametrize.remove_parametrizations(wn2, "weight")

    x = N(4, 5).requires_grad_()
    q = torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 15)
    c = torch.fake_quantize_per_channel_affine(
        x, torch.tensor([0.1, 0.2, 0.05, 0.3]), torch.zeros(4, dtype=torch.int32), 0, -8, 7
    )
    (q.sum() + (c * 2).sum()).backward()

    class Round(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t, scale):
            ctx.save_for_backward(t, scale)
            return torch.round(t / scale).clamp(-8, 7) * scale

        @staticmethod
        def backward(ctx, g):
            t, scale = ctx.saved_tensors
            inside = (t / scale).abs() <= 7
            return g * inside.type_as(g), None

    w = N(3, 3).requires_grad_()
    Round.apply(w, torch.tensor(0.3)).pow(2).sum().backward()
    ste = (w + (w.round() - w).detach()).sum()
    return (
        sparsity, keys,
        r([mask, g, torch.linalg.matrix_norm(sn.weight, 2), a, wn.weight.norm(), wn2.weight.norm(), q.sum(), c.sum(), x.grad.sum(), w.grad.sum(), ste]),
    )  # fmt: skip


@kept
def case_hooks_everywhere():
    seen = []
    model = fill(nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2)), 0.4)

    def pre(m, args, kwargs):
        seen.append(("pre", len(args), sorted(kwargs)))
        return (args[0] * 2,), kwargs

    def double(p):
        p.grad.mul_(2)

    h1 = model.register_forward_pre_hook(pre, with_kwargs=True)
    h2 = model[0].register_forward_hook(lambda m, i, o: o + 1)
    h3 = model[3].register_full_backward_hook(lambda m, gi, go: (gi[0] * 3,))
    h4 = model[3].register_full_backward_pre_hook(lambda m, go: (go[0] * 0.5,))
    h5 = model[0].weight.register_hook(lambda g: g.clamp(-1, 1))
    h6 = model[3].weight.register_post_accumulate_grad_hook(double)
    h7 = torch.nn.modules.module.register_module_forward_hook(
        lambda m, i, o: seen.append(type(m).__name__)
    )
    x = N(6, 4).requires_grad_()
    y = model(x)
    y.retain_grad()
    mid = []
    y.register_hook(lambda g: mid.append(g.norm()))
    y.pow(2).sum().backward(retain_graph=True)
    first = [p.grad.clone() for p in model.parameters()]
    for h in (h1, h2, h3, h4, h5, h6, h7):
        h.remove()
    y.grad.zero_()
    (gx,) = grad(y.sum(), x, retain_graph=True, allow_unused=True)
    model.zero_grad()
    out = model(Variable(N(6, 4)))
    out.backward(torch.ones_like(out))
    sd = OrderedDict()
    hk = model._register_state_dict_hook(lambda m, d, p, l: sd.update(n=len(d)))
    model.state_dict()
    hk.remove()
    lk = model.register_load_state_dict_post_hook(lambda m, inc: inc.missing_keys.clear())
    part = {k: v for k, v in model.state_dict().items() if "weight" in k}
    msg = str(model.load_state_dict(part, strict=False))
    lk.remove()
    return str(seen), msg, r([*[f.norm() for f in first], mid[0], gx.norm(), sd["n"]])


@kept
def case_reinforcement():
    Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))

    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.affine1 = nn.Linear(4, 12)
            self.action_head, self.value_head = nn.Linear(12, 2), nn.Linear(12, 1)
            self.saved, self.rewards = [], []

        def forward(self, x):
            x = F.relu(self.affine1(x))
            return F.softmax(self.action_head(x), dim=-1), self.value_head(x)

    model = fill(Policy(), 0.4)
    opt = optim.Adam(model.parameters(), lr=3e-2)
    rng = np.random.RandomState(0)
    losses = []
    for episode in range(3):
        state = rng.randn(4)
        for t in range(6):
            probs, value = model(torch.from_numpy(state).float())
            m = torch.distributions.Categorical(probs)
            action = torch.tensor(int(probs[0] < rng.rand()))
            model.saved.append((m.log_prob(action), value, m.entropy()))
            state = state * 0.9 + 0.1 * action.item() + rng.randn(4) * 0.1
            model.rewards.append(float(1 - abs(state[0])))
        R, returns = 0, deque()
        for rew in model.rewards[::-1]:
            R = rew + 0.99 * R
            returns.appendleft(R)
        returns = torch.tensor(returns)
        returns = (returns - returns.mean()) / (returns.std() + np.finfo(np.float32).eps.item())
        pol, val = [], []
        for (lp, v, ent), R in zip(model.saved, returns):
            pol.append(-lp * (R - v.item()) - 0.01 * ent)
            val.append(F.smooth_l1_loss(v, torch.tensor([R])))
        opt.zero_grad()
        loss = torch.stack(pol).sum() + torch.stack(val).sum()
        loss.backward()
        opt.step()
        losses.append(loss.item())
        del model.saved[:], model.rewards[:]

    q, target = (
        fill(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), 0.4),
        nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)),
    )
    target.load_state_dict(q.state_dict())
    memory = deque([], maxlen=50)
    for i in range(20):
        nxt = None if i % 5 == 4 else N(1, 4, k=i + 1)
        memory.append(
            Transition(N(1, 4, k=i), torch.tensor([[i % 3]]), nxt, torch.tensor([i / 10]))
        )
    oq = optim.AdamW(q.parameters(), lr=1e-2, amsgrad=True)
    random.seed(0)
    for _ in range(2):
        batch = Transition(*zip(*random.sample(memory, 8)))
        mask = torch.tensor(tuple(map(lambda s: s is not None, batch.next_state)), dtype=torch.bool)
        nxt = torch.cat([s for s in batch.next_state if s is not None])
        qa = q(torch.cat(batch.state)).gather(1, torch.cat(batch.action))
        nv = torch.zeros(8)
        with torch.no_grad():
            nv[mask] = target(nxt).max(1).values
        loss = nn.SmoothL1Loss()(qa, (nv * 0.9 + torch.cat(batch.reward)).unsqueeze(1))
        oq.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(q.parameters(), 100)
        oq.step()
        losses.append(loss.item())
        tsd, psd = target.state_dict(), q.state_dict()
        for key in psd:
            tsd[key] = psd[key] * 0.05 + tsd[key] * 0.95
        target.load_state_dict(tsd)
    mu, log_std = N(5, 2), N(5, 2, k=1).clamp(-5, 2)
    dist = torch.distributions.TransformedDistribution(
        torch.distributions.Independent(torch.distributions.Normal(mu, log_std.exp()), 1),
        [torch.distributions.TanhTransform(cache_size=1)],
    )
    lp = dist.log_prob(torch.tanh(N(5, 2, k=3)))
    return losses, r(lp.tolist()), r([p.norm() for p in target.parameters()])


@kept
def case_boilerplate():
    import argparse
    import logging

    class Toy(Dataset):
        def __init__(self, n, transform=None):
            self.x, self.y, self.transform = N(n, 3), I(2, n), transform

        def __len__(self):
            return len(self.x)

        def __getitem__(self, i):
            if torch.is_tensor(i):
                i = i.tolist()
            x = self.x[i]
            return (self.transform(x) if self.transform else x), self.y[i]

    def worker(i):
        np.random.seed(torch.initial_seed() % 2**32)

    def seed_all(s):
        random.seed(s)
        np.random.seed(s)
        torch.manual_seed(s)
        torch.cuda.manual_seed(s)
        torch.cuda.manual_seed_all(s)
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False
        torch.use_deterministic_algorithms(True, warn_only=True)
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"

    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--no-cuda", action="store_true")
    args = parser.parse_args([])
    use = not args.no_cuda and torch.cuda.is_available()
    seed_all(3)
    device = torch.device(
        "cuda:0" if use else "mps" if torch.backends.mps.is_available() else "cpu"
    )
    kw = {"num_workers": 1, "pin_memory": True} if use else {}
    loader = DataLoader(Toy(20, lambda t: t * 2), 4, shuffle=True, worker_init_fn=worker,
                        generator=torch.Generator().manual_seed(0), **kw)  # fmt: skip
    model = fill(nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 2)), 0.4).to(device)
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)
    model = nn.DataParallel(model)
    if isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        model = model.module
    model.eval()
    best, wait, log, total = float("inf"), 0, logging.getLogger("t"), 0
    opt = optim.NAdam(model.parameters(), lr=args.lr)
    plateau = optim.lr_scheduler.ReduceLROnPlateau(
        opt, "min", factor=0.5, patience=0, threshold=1e-3
    )
    for epoch in range(2):
        run = 0.0
        for i, (x, y) in enumerate(loader, 0):
            x, y = x.to(device), y.to(device)
            loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0]))(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            run += loss.item() * x.size(0)
            total += y.size(0)
        plateau.step(run)
        log.info("epoch %d loss %.3f", epoch, run)
        if run < best:
            best, wait = run, 0
            buf = io.BytesIO()
            torch.save(model.state_dict(), buf)
        else:
            wait += 1
    buf.seek(0)
    model.load_state_dict(torch.load(buf, weights_only=True))
    torch.cuda.empty_cache()
    torch.use_deterministic_algorithms(False)
    params = sum(p.numel() for p in model.parameters() if p.requires_grad)
    text = repr(model) + str(opt).split("\n")[0] + str(plateau.state_dict()["mode"])
    return [total, params, float(best < 20)], text, str(torch.get_default_dtype()) + str(device)
