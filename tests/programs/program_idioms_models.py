"""Scripts in the form of well-known examples: GANs, autoencoders, style, graphs, games."""

import copy
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim

device = torch.device("cpu")
from pieces import N, fill, kept, r

RTOL = {"rl": 0.001}


@kept
def case_dcgan():
    netG = nn.Sequential(
        nn.ConvTranspose2d(8, 16, 4, 1, 0, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(True),
        nn.ConvTranspose2d(16, 3, 4, 2, 1, bias=False),
        nn.Tanh(),
    )
    netD = nn.Sequential(
        nn.Conv2d(3, 16, 4, 2, 1, bias=False),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(16, 1, 4, 1, 0, bias=False),
        nn.Sigmoid(),
    )

    def weights_init(m):
        cn = m.__class__.__name__
        if cn.find("Conv") != -1:
            torch.nn.init.normal_(m.weight, 0.0, 0.02)
        elif cn.find("BatchNorm") != -1:
            torch.nn.init.normal_(m.weight, 1.0, 0.02)
            torch.nn.init.zeros_(m.bias)

    netG.apply(weights_init)
    netD.apply(weights_init)
    fill(netG)
    fill(netD)
    crit = nn.BCELoss()
    oD = optim.Adam(netD.parameters(), lr=0.0002, betas=(0.5, 0.999))
    oG = optim.Adam(netG.parameters(), lr=0.0002, betas=(0.5, 0.999))
    out = []
    for i in range(3):
        netD.zero_grad()
        real = N(4, 3, 8, 8, k=i)
        label = torch.full((4,), 1.0, dtype=real.dtype, device=device)
        o = netD(real).view(-1)
        eR = crit(o, label)
        eR.backward()
        Dx = o.mean().item()
        fake = netG(N(4, 8, 1, 1, k=10 + i))
        label.fill_(0.0)
        o = netD(fake.detach()).view(-1)
        eF = crit(o, label)
        eF.backward()
        oD.step()
        netG.zero_grad()
        label.fill_(1.0)
        o = netD(fake).view(-1)
        eG = crit(o, label)
        eG.backward()
        oG.step()
        out.append([Dx, (eR + eF).item(), eG.item()])
    return r(out)


@kept
def case_vae():

    class VAE(nn.Module):
        def __init__(s):
            super().__init__()
            s.fc1 = nn.Linear(20, 16)
            s.fc21 = nn.Linear(16, 4)
            s.fc22 = nn.Linear(16, 4)
            s.fc3 = nn.Linear(4, 16)
            s.fc4 = nn.Linear(16, 20)

        def forward(s, x, eps):
            h = F.relu(s.fc1(x.view(-1, 20)))
            mu, lv = (s.fc21(h), s.fc22(h))
            z = mu + eps * torch.exp(0.5 * lv)
            return (torch.sigmoid(s.fc4(F.relu(s.fc3(z)))), mu, lv)

    m = fill(VAE())
    o = optim.Adam(m.parameters(), lr=0.001)
    L = []
    for i in range(5):
        x = torch.sigmoid(N(8, 1, 4, 5, k=i))
        o.zero_grad()
        rec, mu, lv = m(x, N(8, 4, k=99 + i))
        BCE = F.binary_cross_entropy(rec, x.view(-1, 20), reduction="sum")
        KLD = -0.5 * torch.sum(1 + lv - mu.pow(2) - lv.exp())
        l = BCE + KLD
        l.backward()
        o.step()
        L.append(l.item() / len(x))
    return r(L, 5)


@kept
def case_superres_siamese_ff():

    class Net(nn.Module):
        def __init__(s, up):
            super().__init__()
            s.c1 = nn.Conv2d(1, 8, 5, padding=2)
            s.c2 = nn.Conv2d(8, up**2, 3, padding=1)
            s.ps = nn.PixelShuffle(up)

        def forward(s, x):
            return s.ps(s.c2(F.relu(s.c1(x), inplace=True)))

    m = fill(Net(2))
    o = optim.Adam(m.parameters(), lr=0.001)
    L = []
    for i in range(3):
        o.zero_grad()
        l = F.mse_loss(m(N(2, 1, 6, 6, k=i)), N(2, 1, 12, 12, k=i + 5))
        l.backward()
        o.step()
        L.append(l.item())
    psnr = 10 * math.log10(1 / L[-1])

    class Layer(nn.Linear):
        def __init__(s, a, b):
            super().__init__(a, b)
            s.relu = nn.ReLU()
            s.opt = optim.Adam(s.parameters(), lr=0.02)
            s.threshold = 1.5

        def forward(s, x):
            d = x / (x.norm(2, 1, keepdim=True) + 0.0001)
            return s.relu(torch.mm(d, s.weight.T) + s.bias.unsqueeze(0))

        def train_(s, xp, xn):
            for _ in range(4):
                gp = s.forward(xp).pow(2).mean(1)
                gn = s.forward(xn).pow(2).mean(1)
                l = torch.log(
                    1 + torch.exp(torch.cat([-gp + s.threshold, gn - s.threshold]))
                ).mean()
                s.opt.zero_grad()
                l.backward()
                s.opt.step()
            return (s.forward(xp).detach(), s.forward(xn).detach(), l.item())

    a, b = (fill(Layer(6, 8)), fill(Layer(8, 8)))
    hp, hn, l1 = a.train_(N(5, 6), N(5, 6, k=2))
    _, _, l2 = b.train_(hp, hn)
    emb = fill(nn.Linear(6, 4))
    x1, x2 = (emb(N(5, 6)), emb(N(5, 6, k=3)))
    y = torch.tensor([1.0, -1, 1, -1, 1])
    l = (
        nn.CosineEmbeddingLoss()(x1, x2, y)
        + nn.TripletMarginLoss()(x1, x2, emb(N(5, 6, k=8)))
        + nn.MarginRankingLoss()(x1[:, 0], x2[:, 0], y)
    )
    l.backward()
    return (r(L), r(psnr), r([l1, l2, l.item(), emb.weight.grad.norm().item()]))


@kept
def case_rl():

    class Policy(nn.Module):
        def __init__(s):
            super().__init__()
            s.affine1 = nn.Linear(4, 16)
            s.action_head = nn.Linear(16, 2)
            s.value_head = nn.Linear(16, 1)
            s.saved = []
            s.rewards = []

        def forward(s, x):
            x = F.relu(s.affine1(x))
            return (F.softmax(s.action_head(x), dim=-1), s.value_head(x))

    from torch.distributions import Categorical

    m = fill(Policy(), 0.3)
    o = optim.Adam(m.parameters(), lr=0.03)
    out = []
    rng = np.random.default_rng(0)
    for ep in range(3):
        st = rng.standard_normal(4)
        for t in range(12):
            p, v = m(torch.from_numpy(st).float())
            c = Categorical(p)
            a = p.argmax()
            m.saved.append((c.log_prob(a), v))
            m.rewards.append(float(np.cos(st.sum()) + a.item()))
            st = 0.9 * st + 0.1 * rng.standard_normal(4)
        R = 0
        rets = []
        for rw in m.rewards[::-1]:
            R = rw + 0.99 * R
            rets.insert(0, R)
        rets = torch.tensor(rets)
        rets = (rets - rets.mean()) / (rets.std() + np.finfo(np.float32).eps.item())
        pl, vl = ([], [])
        for (lp, v), R in zip(m.saved, rets):
            adv = R - v.item()
            pl.append(-lp * adv)
            vl.append(F.smooth_l1_loss(v, torch.tensor([R])))
        o.zero_grad()
        l = torch.stack(pl).sum() + torch.stack(vl).sum()
        l.backward()
        o.step()
        del m.rewards[:]
        del m.saved[:]
        out.append(l.item())
    from collections import deque, namedtuple

    T = namedtuple("T", ("state", "action", "next_state", "reward"))
    pn = fill(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
    tn = copy.deepcopy(pn)
    tn.load_state_dict(pn.state_dict())
    mem = deque([], 100)
    for i in range(40):
        s = torch.tensor(rng.standard_normal(4), dtype=torch.float32).unsqueeze(0)
        mem.append(
            T(
                s,
                torch.tensor([[i % 2]], dtype=torch.long),
                None if i % 7 == 0 else s * 0.9,
                torch.tensor([float(i % 3)]),
            )
        )
    o = optim.AdamW(pn.parameters(), lr=0.001, amsgrad=True)
    for i in range(3):
        b = T(*zip(*list(mem)[i * 10 : i * 10 + 10]))
        nf = torch.tensor(tuple(map(lambda s: s is not None, b.next_state)), dtype=torch.bool)
        nfs = torch.cat([s for s in b.next_state if s is not None])
        q = pn(torch.cat(b.state)).gather(1, torch.cat(b.action))
        nv = torch.zeros(10)
        with torch.no_grad():
            nv[nf] = tn(nfs).max(1).values
        l = nn.SmoothL1Loss()(q, (nv * 0.9 + torch.cat(b.reward)).unsqueeze(1))
        o.zero_grad()
        l.backward()
        torch.nn.utils.clip_grad_value_(pn.parameters(), 100)
        o.step()
        ts, ps = (tn.state_dict(), pn.state_dict())
        for k in ps:
            ts[k] = ps[k] * 0.005 + ts[k] * (1 - 0.005)
        tn.load_state_dict(ts)
        out.append(l.item())
    return r(out)


@kept
def case_style_gcn_gat():

    def gram(y):
        b, c, h, w = y.size()
        f = y.view(b, c, h * w)
        return f.bmm(f.transpose(1, 2)) / (c * h * w)

    class TN(nn.Module):
        def __init__(s):
            super().__init__()
            s.c = nn.Sequential(
                nn.ReflectionPad2d(1),
                nn.Conv2d(3, 6, 3, 2),
                nn.InstanceNorm2d(6, affine=True),
                nn.ReLU(),
                nn.Upsample(scale_factor=2, mode="nearest"),
                nn.ReflectionPad2d(1),
                nn.Conv2d(6, 3, 3),
            )

        def forward(s, x):
            return s.c(x)

    m = fill(TN())
    x = N(2, 3, 8, 8)
    vgg = fill(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2)))
    for p in vgg.parameters():
        p.requires_grad = False
    l = F.mse_loss(gram(vgg(m(x))), gram(vgg(x))) * 1000.0
    l.backward()
    g = m.c[1].weight.grad.norm().item()

    class GCN(nn.Module):
        def __init__(s):
            super().__init__()
            s.w = nn.Parameter(torch.FloatTensor(5, 4))
            s.b = nn.Parameter(torch.FloatTensor(4))
            stdv = 1.0 / math.sqrt(4)
            s.w.data.uniform_(-stdv, stdv)
            s.b.data.uniform_(-stdv, stdv)

        def forward(s, x, adj):
            return torch.spmm(adj, torch.mm(x, s.w)) + s.b

    gc = fill(GCN())
    adj = torch.eye(6).to_sparse()
    y = gc(N(6, 5), adj)
    F.nll_loss(F.log_softmax(y, 1)[[0, 2]], torch.tensor([1, 3])).backward()

    class GAT(nn.Module):
        def __init__(s):
            super().__init__()
            s.W = nn.Parameter(torch.empty(5, 4))
            nn.init.xavier_uniform_(s.W.data, gain=1.414)
            s.a = nn.Parameter(torch.empty(8, 1))
            nn.init.xavier_uniform_(s.a.data)
            s.l = nn.LeakyReLU(0.2)

        def forward(s, h, adj):
            Wh = torch.mm(h, s.W)
            e = s.l(Wh @ s.a[:4] + (Wh @ s.a[4:]).T)
            at = torch.where(adj > 0, e, -9000000000000000.0 * torch.ones_like(e))
            return F.elu(F.softmax(at, dim=1) @ Wh)

    ga = fill(GAT(), 0.5)
    ya = ga(N(6, 5), torch.from_numpy((np.random.default_rng(1).random((6, 6)) > 0.5).astype("f4")))
    ya.sum().backward()
    return r([l, g, gc.w.grad.norm(), ya.sum(), ga.a.grad.norm()])
