"""Scripts that generate, compare and solve: GAN, VAE, diffusion, contrastive, graphs, physics."""

import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from pieces import I, N, fill, kept, r
from torch import distributions as D
from torch import optim


@kept
def case_dcgan():
    def weights_init(m):
        name = m.__class__.__name__
        if name.find("Conv") != -1:
            nn.init.normal_(m.weight.data, 0.0, 0.02)
        elif name.find("BatchNorm") != -1:
            nn.init.normal_(m.weight.data, 1.0, 0.02)
            nn.init.constant_(m.bias.data, 0)

    netG = nn.Sequential(
        nn.ConvTranspose2d(8, 16, 4, 1, 0, bias=False), nn.BatchNorm2d(16), nn.ReLU(True),
        nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(True),
        nn.ConvTranspose2d(8, 1, 4, 2, 1, bias=False), nn.Tanh(),
    )  # fmt: skip
    netD = nn.Sequential(
        nn.Conv2d(1, 8, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(8, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(16, 1, 4, 1, 0, bias=False), nn.Sigmoid(),
    )  # fmt: skip
    for net in (netG, netD):
        net.apply(weights_init)
        fill(net, 0.3)
    criterion = nn.BCELoss()
    optD = optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optG = optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
    out = []
    for k in range(2):
        netD.zero_grad()
        real = N(4, 1, 16, 16, k=k).tanh()
        label = torch.full((4,), 1.0, dtype=torch.float)
        errD_real = criterion(netD(real).view(-1), label)
        errD_real.backward()
        fake = netG(N(4, 8, 1, 1, k=k + 5))
        label.fill_(0.0)
        errD_fake = criterion(netD(fake.detach()).view(-1), label)
        errD_fake.backward()
        optD.step()
        netG.zero_grad()
        label.fill_(1.0)
        output = netD(fake).view(-1)
        errG = criterion(output, label)
        errG.backward()
        optG.step()
        out += [(errD_real + errD_fake).item(), errG.item(), output.mean().item()]
    eps = torch.tensor([0.1, 0.5, 0.7, 0.9]).view(4, 1, 1, 1)
    mix = (eps * real + (1 - eps) * fake.detach()).requires_grad_(True)
    score = netD.eval()(mix)
    (g,) = torch.autograd.grad(outputs=score, inputs=mix, grad_outputs=torch.ones_like(score),
                               create_graph=True, retain_graph=True)  # fmt: skip
    penalty = ((g.view(4, -1).norm(2, dim=1) - 1) ** 2).mean()
    netD.zero_grad()
    penalty.backward()
    return out, r([penalty, *[p.grad.norm() for p in netD.parameters() if p.grad is not None]])


@kept
def case_vae_vq_flow():
    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc21, self.fc22 = nn.Linear(20, 10), nn.Linear(10, 3), nn.Linear(10, 3)
            self.fc3, self.fc4 = nn.Linear(3, 10), nn.Linear(10, 20)

        def forward(self, x, eps):
            h = F.relu(self.fc1(x.view(-1, 20)))
            mu, logvar = self.fc21(h), self.fc22(h)
            std = torch.exp(0.5 * logvar)
            assert torch.randn_like(std).shape == std.shape
            return torch.sigmoid(self.fc4(F.relu(self.fc3(mu + eps * std)))), mu, logvar

    model = fill(VAE(), 0.4)
    opt = optim.Adam(model.parameters(), 1e-2)
    losses = []
    for k in range(3):
        x = N(6, 4, 5, k=k).sigmoid()
        recon, mu, logvar = model(x, N(6, 3, k=k + 9))
        bce = F.binary_cross_entropy(recon, x.view(-1, 20), reduction="sum")
        kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        other = D.kl_divergence(D.Normal(mu, (0.5 * logvar).exp()), D.Normal(0.0, 1.0)).sum()
        opt.zero_grad()
        (bce + kld).backward()
        opt.step()
        losses += [bce.item(), kld.item(), other.item()]

    book = fill(nn.Embedding(7, 4), 1.0)
    z = N(5, 4).requires_grad_()
    dist = z.pow(2).sum(1, keepdim=True) + book.weight.pow(2).sum(1) - 2 * z @ book.weight.t()
    idx = dist.argmin(1)
    q = torch.zeros(5, 7).scatter_(1, idx.unsqueeze(1), 1) @ book.weight
    vq = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(q.detach(), z)
    (vq + (z + (q - z).detach()).sum()).backward()
    perp = torch.exp(-(p := torch.bincount(idx, minlength=7) / 5).mul((p + 1e-10).log()).sum())

    s, t = fill(nn.Linear(2, 2), 0.5), fill(nn.Linear(2, 2), 0.3)
    x = N(6, 4)
    a, b = x.chunk(2, dim=1)
    y = torch.cat([a, b * torch.exp(s(a).tanh()) + t(a)], 1)
    base = D.MultivariateNormal(torch.zeros(4), torch.eye(4))
    nll = -(base.log_prob(y) + s(a).tanh().sum(1)).mean()
    nll.backward()
    gumbel = F.gumbel_softmax(N(3, 5), tau=0.5, hard=True)
    return losses, r(
        [vq, z.grad.norm(), book.weight.grad.norm(), perp, nll, s.weight.grad.norm(), gumbel.sum()]
    )


@kept
def case_ddpm():
    def sinusoid(t, d):
        half = d // 2
        f = torch.exp(torch.arange(half, device=t.device) * -(math.log(10000) / (half - 1)))
        e = t[:, None] * f[None, :]
        return torch.cat((e.sin(), e.cos()), dim=-1)

    class Block(nn.Module):
        def __init__(self, i, o, d):
            super().__init__()
            self.mlp = nn.Sequential(nn.SiLU(), nn.Linear(d, o * 2))
            self.conv, self.norm = nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(2, o)
            self.res = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

        def forward(self, x, t):
            scale, shift = self.mlp(t)[:, :, None, None].chunk(2, dim=1)
            return F.silu(self.norm(self.conv(x)) * (scale + 1) + shift) + self.res(x)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.time = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 16))
            self.a, self.b, self.c = Block(1, 4, 16), Block(4, 8, 16), Block(12, 4, 16)
            self.qkv, self.out = nn.Conv2d(8, 24, 1, bias=False), nn.Conv2d(4, 1, 1)

        def forward(self, x, t):
            t = self.time(sinusoid(t, 8))
            h1 = self.a(x, t)
            h = self.b(F.avg_pool2d(h1, 2), t)
            b, c, hh, w = h.shape
            q, k, v = self.qkv(h).reshape(b, 3, 2, c // 2, hh * w).unbind(1)
            sim = torch.einsum("bhdi,bhdj->bhij", q * c**-0.5, k)
            h = h + torch.einsum("bhij,bhdj->bhid", sim.softmax(-1), v).reshape(b, c, hh, w)
            up = F.interpolate(h, scale_factor=2.0, mode="nearest-exact")
            return self.out(self.c(torch.cat((up, h1), 1), t))

    T = 20
    betas = torch.linspace(1e-4, 0.02, T, dtype=torch.float64)
    ac = torch.cumprod(1 - betas, 0)
    prev = F.pad(ac[:-1], (1, 0), value=1.0)
    post = betas * (1.0 - prev) / (1.0 - ac)

    def extract(a, t, shape):
        return a.gather(-1, t).reshape(t.shape[0], *((1,) * (len(shape) - 1))).float()

    net = fill(Net(), 0.3)
    opt = optim.Adam(net.parameters(), 1e-3)
    losses = []
    for k in range(3):
        x, noise, t = N(3, 1, 8, 8, k=k), N(3, 1, 8, 8, k=k + 7), I(T, 3, k=k)
        xt = extract(ac.sqrt(), t, x.shape) * x + extract((1 - ac).sqrt(), t, x.shape) * noise
        loss = F.huber_loss(net(xt, t), noise, delta=0.5)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    x = N(2, 1, 8, 8)
    with torch.no_grad():
        for i in reversed(range(15, T)):
            t = torch.full((2,), i, dtype=torch.long)
            mean = (x - extract(betas / (1 - ac).sqrt(), t, x.shape) * net(x, t)) / (
                1 - betas[i]
            ).sqrt()
            x = (mean + (post[i].sqrt() * N(2, 1, 8, 8, k=i) if i > 15 else 0)).float()
    return losses, r(x.flatten()[::11].tolist())


@kept
def case_contrastive_siamese():
    enc = fill(
        nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 4)), 0.5
    )

    def nt_xent(a, b, temp=0.5):
        z = F.normalize(torch.cat([a, b]), dim=1)
        sim = torch.mm(z, z.T) / temp
        sim.fill_diagonal_(-float("inf"))
        n = a.size(0)
        return F.cross_entropy(sim, torch.cat([torch.arange(n, 2 * n), torch.arange(n)]))

    def info_nce_mask(f, labels, temp=0.1):
        mask = torch.eq(labels.view(-1, 1), labels.view(1, -1)).float()
        logits = torch.div(f @ f.T, temp)
        logits = logits - logits.max(dim=1, keepdim=True)[0].detach()
        keep = torch.scatter(torch.ones_like(mask), 1, torch.arange(len(f)).view(-1, 1), 0)
        lp = logits - torch.log((torch.exp(logits) * keep).sum(1, keepdim=True))
        return -((mask * keep * lp).sum(1) / (mask * keep).sum(1).clamp(min=1)).mean()

    opt = optim.Adagrad(enc.parameters(), lr=0.05)
    queue, ptr = F.normalize(N(4, 16, k=77), dim=0), 0
    losses = []
    for k in range(3):
        x = N(8, 6, k=k)
        a, b = enc(x), enc(x + 0.1 * N(8, 6, k=k + 5))
        l1 = nt_xent(a, b)
        l2 = info_nce_mask(F.normalize(a, dim=-1), I(3, 8, k=k))
        anchor, pos, neg = a[:4], b[:4], a[4:]
        l3 = nn.TripletMarginLoss(margin=1.0, p=2)(anchor, pos, neg)
        l3 = l3 + nn.TripletMarginWithDistanceLoss(
            distance_function=lambda u, v: 1.0 - F.cosine_similarity(u, v)
        )(anchor, pos, neg)
        y = torch.tensor([1, -1, 1, -1, 1, 1, -1, -1])
        l4 = nn.CosineEmbeddingLoss(margin=0.2)(a, b, y) + nn.MarginRankingLoss(0.1)(
            a[:, 0], b[:, 0], y
        )
        d = F.pairwise_distance(a, b, keepdim=True)
        t = (y > 0).float().unsqueeze(1)
        l5 = torch.mean((1 - t) * d.pow(2) + t * torch.clamp(2.0 - d, min=0.0).pow(2))
        logits = (
            torch.cat([(a * b.detach()).sum(1, keepdim=True), a @ queue.clone().detach()], 1) / 0.2
        )
        l6 = F.cross_entropy(logits, torch.zeros(8, dtype=torch.long))
        queue[:, ptr : ptr + 8] = F.normalize(b.detach(), dim=1).T
        ptr = (ptr + 8) % 16
        dm = torch.cdist(a, b)
        hard = (dm + 1e5 * torch.eye(8)).min(1)[0]
        l7 = F.relu(dm.diag() - hard + 0.3).mean() + F.multi_margin_loss(a, I(4, 8, k=k))
        scale = nn.Parameter(torch.ones([]) * np.log(1 / 0.07))
        lp = scale.exp() * F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).t()
        l8 = (F.cross_entropy(lp, torch.arange(8)) + F.cross_entropy(lp.t(), torch.arange(8))) / 2
        c = (
            F.batch_norm(a, None, None, training=True).T
            @ F.batch_norm(b, None, None, training=True)
        ) / 8
        l9 = (
            torch.diagonal(c).add(-1).pow(2).sum()
            + 0.005 * (c - torch.diag(torch.diag(c))).pow(2).sum()
        )
        parts = [l1, l2, l3, l4, l5, l6, l7, l8, l9]
        opt.zero_grad()
        torch.stack([p.reshape(()) for p in parts]).sum().backward()
        opt.step()
        losses += r(parts)
    return losses


@kept
def case_graph_networks():
    n, edges = 7, torch.tensor([[0, 1, 2, 3, 4, 5, 6, 0, 2, 5], [1, 2, 3, 4, 5, 6, 0, 3, 5, 1]])
    idx = torch.cat([edges, edges.flip(0), torch.arange(n).repeat(2, 1)], 1)
    deg = torch.zeros(n).scatter_add_(0, idx[0], torch.ones(idx.size(1)))
    w = deg.pow(-0.5)[idx[0]] * deg.pow(-0.5)[idx[1]]
    adj = torch.sparse_coo_tensor(idx, w, (n, n)).coalesce()

    class GraphConvolution(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.weight = nn.Parameter(torch.FloatTensor(i, o))
            self.bias = nn.Parameter(torch.FloatTensor(o))
            stdv = 1.0 / math.sqrt(self.weight.size(1))
            self.weight.data.uniform_(-stdv, stdv)
            self.bias.data.uniform_(-stdv, stdv)

        def forward(self, x, adj):
            return torch.spmm(adj, torch.mm(x, self.weight)) + self.bias

        def __repr__(self):
            return f"{self.__class__.__name__} ({self.weight.shape[0]} -> {self.weight.shape[1]})"

    class GCN(nn.Module):
        def __init__(self):
            super().__init__()
            self.gc1, self.gc2 = GraphConvolution(5, 6), GraphConvolution(6, 3)

        def forward(self, x, adj):
            x = F.dropout(F.relu(self.gc1(x, adj)), 0.0, training=self.training)
            return F.log_softmax(self.gc2(x, adj), dim=1)

    class GAT(nn.Module):
        def __init__(self):
            super().__init__()
            self.W = nn.Parameter(torch.zeros(5, 4))
            self.a = nn.Parameter(nn.init.xavier_uniform_(torch.empty(8, 1), gain=1.414))

        def forward(self, x, adj):
            h = x @ self.W
            e = F.leaky_relu(h @ self.a[:4] + (h @ self.a[4:]).T, 0.2)
            att = torch.where(adj > 0, e, -9e15 * torch.ones_like(e))
            return F.elu(F.softmax(att, dim=1) @ h)

    class MPNN(nn.Module):
        def __init__(self):
            super().__init__()
            self.msg, self.upd = nn.Linear(10, 5), nn.GRUCell(5, 5)

        def forward(self, x):
            m = self.msg(torch.cat([x[idx[0]], x.index_select(0, idx[1])], -1)).relu()
            mean = torch.zeros_like(x).index_add_(0, idx[1], m) / deg.unsqueeze(1)
            mx = torch.full_like(x, -10.0).scatter_reduce(
                0, idx[1, :, None].expand_as(m), m, "amax"
            )
            return self.upd(mean + mx, x)

    gcn, gat, mp = fill(GCN(), 0.5), fill(GAT(), 0.5), fill(MPNN(), 0.5)
    opt = optim.Adam(
        [*gcn.parameters(), *gat.parameters(), *mp.parameters()], lr=0.05, weight_decay=5e-4
    )
    x, y, train = N(n, 5), I(3, n), torch.LongTensor([0, 2, 3, 5])
    losses = []
    for _ in range(3):
        opt.zero_grad()
        out = gcn(x, adj)
        loss = (
            F.nll_loss(out[train], y[train])
            + gat(x, adj.to_dense()).pow(2).mean()
            + mp(x).pow(2).mean()
        )
        loss.backward()
        opt.step()
        losses.append(loss.item())
    csr = adj.to_sparse_csr()
    both = torch.sparse.mm(adj, x) - csr @ x
    lap = torch.diag(deg) - adj.to_dense()
    ev = torch.linalg.eigvalsh(lap)
    pool = torch.zeros(2, 3).index_add(0, torch.tensor([0, 0, 0, 1, 1, 1, 1]), out.detach())
    acc = (out.max(1)[1].type_as(y) == y).double().sum() / n
    return (
        losses,
        repr(gcn),
        r(
            [
                both.abs().max() < 1e-6,
                ev.sum(),
                pool.norm(),
                acc,
                adj._nnz(),
                csr.crow_indices()[-1],
            ]
        ),
    )


@kept
def case_mixture_of_experts():
    class MoE(nn.Module):
        def __init__(self, d=6, experts=4, k=2):
            super().__init__()
            self.gate = nn.Linear(d, experts, bias=False)
            self.noise = nn.Linear(d, experts)
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(d, 8), nn.SiLU(), nn.Linear(8, d)) for _ in range(experts)
            )
            self.w = nn.Parameter(torch.empty(experts, d, d))
            self.k = k

        def forward(self, x):
            flat = x.view(-1, x.size(-1))
            logits = self.gate(flat) + self.noise(flat).sigmoid() * 0.1
            top, sel = torch.topk(F.softmax(logits, dim=1, dtype=torch.float), self.k, dim=-1)
            top = (top / top.sum(dim=-1, keepdim=True)).to(flat.dtype)
            out = torch.zeros_like(flat)
            mask = F.one_hot(sel, num_classes=4).permute(2, 1, 0)
            for e in range(4):
                where, tok = torch.where(mask[e])
                if tok.shape[0] == 0:
                    continue
                cur = flat[None, tok].reshape(-1, flat.size(1))
                out.index_add_(0, tok, self.experts[e](cur) * top[tok, where, None])
            order = sel[:, 0].argsort(stable=True)
            sizes = sel[:, 0].bincount(minlength=4)
            parts = torch.split(flat[order], sizes.tolist())
            dense = torch.cat([p @ self.w[i] for i, p in enumerate(parts)])
            out = out + torch.empty_like(dense).index_copy(0, order, dense)
            cap = torch.cumsum(F.one_hot(sel[:, 0], 4), 0).gather(1, sel[:, :1]) <= 5
            gates = torch.zeros_like(logits).scatter(1, sel, top)
            load = (gates > 0).float().sum(0)
            aux = (gates.mean(0) * load / load.sum()).sum() * 4
            z = torch.logsumexp(logits, -1).pow(2).mean()
            return (out * cap).view_as(x), aux + 1e-3 * z

    model = fill(MoE(), 0.4)
    opt = optim.AdamW(model.parameters(), 1e-2, foreach=True)
    losses = []
    for k in range(3):
        y, aux = model(N(2, 7, 6, k=k))
        loss = y.pow(2).mean() + 0.01 * aux
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses, r([0.0 if p.grad is None else p.grad.norm() for p in model.parameters()])


@kept
def case_physics_informed():
    class PINN(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(
                nn.Linear(2, 10), nn.Tanh(), nn.Linear(10, 10), nn.Tanh(), nn.Linear(10, 1)
            )
            self.nu = nn.Parameter(torch.tensor([0.05]))

        def forward(self, x, t):
            return self.net(torch.cat((x, t), 1))

        def residual(self, x, t):
            u = self(x, t)
            g = lambda a, b: torch.autograd.grad(
                a, b, torch.ones_like(a), retain_graph=True, create_graph=True
            )[0]
            ut, ux = g(u, t), g(u, x)
            return ut + u * ux - self.nu * g(ux, x)

    model = fill(PINN(), 0.6)
    x, t = torch.linspace(-1, 1, 9).view(-1, 1).requires_grad_(), N(9, 1).abs().requires_grad_()
    adam = optim.Adam(model.parameters(), 1e-2)
    losses = []
    for _ in range(3):
        adam.zero_grad()
        loss = (
            model.residual(x, t).pow(2).mean()
            + (model(x, 0 * t) + torch.sin(math.pi * x)).pow(2).mean()
        )
        loss.backward()
        adam.step()
        losses.append(loss.item())
    from torch.autograd.functional import hessian, jacobian, vhp
    from torch.func import jacfwd, jacrev, jvp, vmap

    f = lambda z: model.net(z).squeeze()
    z = N(2)
    H = hessian(f, z)
    H2 = jacfwd(jacrev(f))(z)
    lap = vmap(lambda q: torch.trace(torch.func.hessian(f)(q)))(N(4, 2))
    J = jacobian(lambda a, b: (a * b).cumsum(0), (N(3), N(3, k=1)))
    v = vhp(f, z, N(2, k=5))[1]
    _, tang = jvp(f, (z,), (N(2, k=6),))
    force = -torch.autograd.grad(model.net(pos := N(4, 2).requires_grad_()).sum(), pos)[0]
    y, vel = N(4, 2), torch.zeros(4, 2)
    for _ in range(3):
        vel = vel + 0.1 * force
        y = y + 0.1 * vel
    return (
        losses,
        r(H.flatten().tolist()),
        r([(H - H2).abs().max() < 1e-5, lap.sum(), J[0].sum(), v.sum(), tang, y.norm()]),
    )
