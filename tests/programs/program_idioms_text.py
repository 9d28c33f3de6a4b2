"""Scripts in the form of well-known examples: a small GPT, language models, translation, series."""

import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim

device = torch.device("cpu")
from pieces import I, fill, kept, r

RTOL = {"lbfgs_sine": 0.005}


@kept
def case_nanogpt():

    class Cfg:
        n_layer = 2
        n_head = 2
        n_embd = 16
        block_size = 12
        vocab = 20
        dropout = 0.0

    class CSA(nn.Module):
        def __init__(s, c):
            super().__init__()
            s.c_attn = nn.Linear(c.n_embd, 3 * c.n_embd)
            s.c_proj = nn.Linear(c.n_embd, c.n_embd)
            s.nh = c.n_head
            s.register_buffer(
                "bias",
                torch.tril(torch.ones(c.block_size, c.block_size)).view(
                    1, 1, c.block_size, c.block_size
                ),
            )

        def forward(s, x):
            B, T, C = x.size()
            q, k, v = s.c_attn(x).split(C, dim=2)
            k = k.view(B, T, s.nh, C // s.nh).transpose(1, 2)
            q = q.view(B, T, s.nh, C // s.nh).transpose(1, 2)
            v = v.view(B, T, s.nh, C // s.nh).transpose(1, 2)
            a = q @ k.transpose(-2, -1) * (1.0 / math.sqrt(k.size(-1)))
            a = a.masked_fill(s.bias[:, :, :T, :T] == 0, float("-inf"))
            a = F.softmax(a, dim=-1)
            return s.c_proj((a @ v).transpose(1, 2).contiguous().view(B, T, C))

    class Block(nn.Module):
        def __init__(s, c):
            super().__init__()
            s.ln_1 = nn.LayerNorm(c.n_embd)
            s.attn = CSA(c)
            s.ln_2 = nn.LayerNorm(c.n_embd)
            s.mlp = nn.ModuleDict(
                dict(
                    c_fc=nn.Linear(c.n_embd, 4 * c.n_embd),
                    c_proj=nn.Linear(4 * c.n_embd, c.n_embd),
                    act=nn.GELU(approximate="tanh"),
                )
            )
            m = s.mlp
            s.mlpf = lambda x: m.c_proj(m.act(m.c_fc(x)))

        def forward(s, x):
            x = x + s.attn(s.ln_1(x))
            return x + s.mlpf(s.ln_2(x))

    class GPT(nn.Module):
        def __init__(s, c):
            super().__init__()
            s.c = c
            s.transformer = nn.ModuleDict(
                dict(
                    wte=nn.Embedding(c.vocab, c.n_embd),
                    wpe=nn.Embedding(c.block_size, c.n_embd),
                    h=nn.ModuleList([Block(c) for _ in range(c.n_layer)]),
                    ln_f=nn.LayerNorm(c.n_embd),
                )
            )
            s.lm_head = nn.Linear(c.n_embd, c.vocab, bias=False)
            s.transformer.wte.weight = s.lm_head.weight
            s.apply(s._init)

        def _init(s, m):
            if isinstance(m, nn.Linear):
                torch.nn.init.normal_(m.weight, mean=0.0, std=0.02)

        def configure_optimizers(s, wd, lr):
            d = {n: p for n, p in s.named_parameters() if p.requires_grad}
            dec = [p for n, p in d.items() if p.dim() >= 2]
            nod = [p for n, p in d.items() if p.dim() < 2]
            import inspect

            fused = "fused" in inspect.signature(torch.optim.AdamW).parameters
            return torch.optim.AdamW(
                [{"params": dec, "weight_decay": wd}, {"params": nod, "weight_decay": 0.0}],
                lr=lr,
                betas=(0.9, 0.95),
                fused=False,
            )

        def forward(s, idx, targets=None):
            b, t = idx.size()
            pos = torch.arange(0, t, dtype=torch.long, device=idx.device)
            x = s.transformer.wte(idx) + s.transformer.wpe(pos)
            for bl in s.transformer.h:
                x = bl(x)
            x = s.transformer.ln_f(x)
            if targets is None:
                return (s.lm_head(x[:, [-1], :]), None)
            lg = s.lm_head(x)
            return (
                lg,
                F.cross_entropy(lg.view(-1, lg.size(-1)), targets.view(-1), ignore_index=-1),
            )

        @torch.no_grad()
        def generate(s, idx, n, temperature=1.0, top_k=None):
            for _ in range(n):
                ic = idx if idx.size(1) <= s.c.block_size else idx[:, -s.c.block_size :]
                lg, _ = s(ic)
                lg = lg[:, -1, :] / temperature
                if top_k is not None:
                    v, _ = torch.topk(lg, min(top_k, lg.size(-1)))
                    lg[lg < v[:, [-1]]] = -float("Inf")
                p = F.softmax(lg, dim=-1)
                idx = torch.cat((idx, p.argmax(-1, keepdim=True)), dim=1)
            return idx

    m = fill(GPT(Cfg)).to(device)
    o = m.configure_optimizers(0.1, 0.01)
    data = np.random.default_rng(0).integers(0, 20, 500).astype(np.uint16)

    def batch(i):
        ix = [(i * 37 + j * 11) % 480 for j in range(4)]
        x = torch.stack([torch.from_numpy(data[j : j + 12].astype(np.int64)) for j in ix])
        y = torch.stack([torch.from_numpy(data[j + 1 : j + 13].astype(np.int64)) for j in ix])
        return (x, y)

    L = []
    scaler = torch.amp.GradScaler("cuda", enabled=False)
    for it in range(6):
        for g in o.param_groups:
            g["lr"] = 0.01 * (it + 1) / 6
        for micro in range(2):
            x, y = batch(it * 2 + micro)
            _, l = m(x, y)
            l = l / 2
            scaler.scale(l).backward()
        scaler.unscale_(o)
        torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        scaler.step(o)
        scaler.update()
        o.zero_grad(set_to_none=True)
        L.append(l.item() * 2)
    m.eval()
    return (r(L), m.generate(I(20, 1, 3), 14, top_k=5).tolist())


@kept
def case_word_lm():

    class RNNModel(nn.Module):
        def __init__(s, t):
            super().__init__()
            s.enc = nn.Embedding(30, 12)
            s.rnn = getattr(nn, t)(12, 12, 2, dropout=0.0)
            s.dec = nn.Linear(12, 30)
            s.dec.weight = s.enc.weight
            s.t = t

        def init_hidden(s, b):
            w = next(s.parameters())
            return (
                (w.new_zeros(2, b, 12), w.new_zeros(2, b, 12))
                if s.t == "LSTM"
                else w.new_zeros(2, b, 12)
            )

        def forward(s, x, h):
            o, h = s.rnn(s.enc(x), h)
            return (F.log_softmax(s.dec(o).view(-1, 30), 1), h)

    def repackage(h):
        return h.detach() if isinstance(h, torch.Tensor) else tuple((repackage(v) for v in h))

    res = []
    for t in ["LSTM", "GRU"]:
        m = fill(RNNModel(t), 0.3)
        h = m.init_hidden(4)
        d = I(30, 40, 4)
        lr = 0.5
        for i in range(0, 32, 8):
            m.zero_grad()
            h = repackage(h)
            o, h = m(d[i : i + 8], h)
            l = nn.NLLLoss()(o, d[i + 1 : i + 9].view(-1))
            l.backward()
            torch.nn.utils.clip_grad_norm_(m.parameters(), 0.25)
            for p in m.parameters():
                p.data.add_(p.grad, alpha=-lr)
            res.append(l.item())
    return r(res)


@kept
def case_lbfgs_sine():

    class Seq(nn.Module):
        def __init__(s):
            super().__init__()
            s.l1 = nn.LSTMCell(1, 8)
            s.l2 = nn.LSTMCell(8, 8)
            s.lin = nn.Linear(8, 1)

        def forward(s, x, future=0):
            outs = []
            h = torch.zeros(x.size(0), 8, dtype=torch.double)
            c = torch.zeros(x.size(0), 8, dtype=torch.double)
            h2 = torch.zeros_like(h)
            c2 = torch.zeros_like(h)
            for xt in x.split(1, dim=1):
                h, c = s.l1(xt, (h, c))
                h2, c2 = s.l2(h, (h2, c2))
                o = s.lin(h2)
                outs.append(o)
            for i in range(future):
                h, c = s.l1(o, (h, c))
                h2, c2 = s.l2(h, (h2, c2))
                o = s.lin(h2)
                outs.append(o)
            return torch.cat(outs, dim=1)

    m = Seq()
    m.double()
    fill(m, 0.3)
    x = torch.from_numpy(np.sin(np.arange(12)[None] / 3 + np.arange(3)[:, None]))
    o = optim.LBFGS(m.parameters(), lr=0.8, max_iter=5)
    L = []
    for i in range(2):

        def closure():
            o.zero_grad()
            l = nn.MSELoss()(m(x[:, :-1]), x[:, 1:])
            l.backward()
            L.append(l.item())
            return l

        o.step(closure)
    with torch.no_grad():
        p = m(x[:, :-1], future=4)
        y = p.detach().numpy()
    return (r(L, 3), r(y.mean(), 3))


@kept
def case_seq2seq():

    class Enc(nn.Module):
        def __init__(s):
            super().__init__()
            s.e = nn.Embedding(15, 8)
            s.gru = nn.GRU(8, 8, batch_first=True)

        def forward(s, x):
            return s.gru(s.e(x))

    class Bah(nn.Module):
        def __init__(s):
            super().__init__()
            s.Wa = nn.Linear(8, 8)
            s.Ua = nn.Linear(8, 8)
            s.Va = nn.Linear(8, 1)

        def forward(s, q, k):
            sc = s.Va(torch.tanh(s.Wa(q) + s.Ua(k))).squeeze(2).unsqueeze(1)
            w = F.softmax(sc, dim=-1)
            return (torch.bmm(w, k), w)

    class Dec(nn.Module):
        def __init__(s):
            super().__init__()
            s.e = nn.Embedding(15, 8)
            s.att = Bah()
            s.gru = nn.GRU(16, 8, batch_first=True)
            s.out = nn.Linear(8, 15)

        def forward(s, eo, eh, tgt=None):
            di = torch.empty(eo.size(0), 1, dtype=torch.long, device=device).fill_(0)
            h = eh
            outs = []
            for i in range(5):
                q = h.permute(1, 0, 2)
                ctx, _ = s.att(q, eo)
                o, h = s.gru(torch.cat((s.e(di), ctx), dim=2), h)
                o = s.out(o)
                outs.append(o)
                if tgt is not None:
                    di = tgt[:, i].unsqueeze(1)
                else:
                    _, ti = o.topk(1)
                    di = ti.squeeze(-1).detach()
            return (F.log_softmax(torch.cat(outs, dim=1), dim=-1), h)

    e, d = (fill(Enc(), 0.3), fill(Dec(), 0.3))
    oe, od = (optim.Adam(e.parameters(), lr=0.01), optim.Adam(d.parameters(), lr=0.01))
    x, y = (I(15, 3, 6), I(15, 3, 5, k=1))
    L = []
    for i in range(4):
        oe.zero_grad()
        od.zero_grad()
        eo, eh = e(x)
        o, _ = d(eo, eh, y if i % 2 else None)
        l = nn.NLLLoss()(o.view(-1, 15), y.view(-1))
        l.backward()
        oe.step()
        od.step()
        L.append(l.item())
    return r(L)


@kept
def case_nn_transformer():

    class TM(nn.Module):
        def __init__(s):
            super().__init__()
            s.enc = nn.TransformerEncoder(
                nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True),
                2,
                enable_nested_tensor=False,
            )
            s.emb = nn.Embedding(20, 16)
            s.lin = nn.Linear(16, 20)
            s.full = nn.Transformer(16, 2, 1, 1, 32, 0.0, batch_first=True, norm_first=True)

        def forward(s, x):
            m = nn.Transformer.generate_square_subsequent_mask(x.size(1))
            h = s.enc(s.emb(x) * 4, mask=m, is_causal=True, src_key_padding_mask=x == 0)
            return s.lin(s.full(h, h, tgt_mask=m))

    m = fill(TM())
    o = optim.SGD(m.parameters(), lr=0.5)
    sch = optim.lr_scheduler.StepLR(o, 1, gamma=0.95)
    x = I(20, 2, 7) + 1
    x[1, 5:] = 0
    L = []
    x = x.clamp(max=19)
    for i in range(4):
        o.zero_grad()
        l = F.cross_entropy(m(x)[:, :-1].flatten(0, 1), x[:, 1:].flatten(), ignore_index=0)
        l.backward()
        o.step()
        sch.step()
        L.append(l.item())
    m.eval()
    with torch.no_grad():
        L.append(m(x).mean().item())
    return (r(L), sch.get_last_lr())
