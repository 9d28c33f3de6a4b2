"""Scripts in the form of well-known examples: physics, Gaussian processes, Fourier layers, distributions."""

import numpy as np
import torch
import torch.nn as nn
from torch import optim

device = torch.device("cpu")
from pieces import N, fill, kept, r

RTOL = {"pinn": 0.005, "fno_complex_sparse": 0.001}


@kept
def case_pinn():
    net = fill(
        nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 1)),
        0.5,
    )
    o = optim.Adam(net.parameters(), lr=0.001)
    L = []
    for i in range(4):
        X = N(16, 2, k=i).requires_grad_(True)
        u = net(X)
        g = torch.autograd.grad(u, X, torch.ones_like(u), create_graph=True, retain_graph=True)[0]
        ux, ut = (g[:, 0:1], g[:, 1:2])
        uxx = torch.autograd.grad(ux, X, torch.ones_like(ux), create_graph=True)[0][:, 0:1]
        f = ut + u * ux - 0.01 / np.pi * uxx
        l = f.pow(2).mean() + (net(N(8, 2, k=50 + i)) ** 2).mean()
        o.zero_grad()
        l.backward()
        o.step()
        L.append(l.item())
    o2 = optim.LBFGS(net.parameters(), line_search_fn="strong_wolfe", max_iter=6)
    X = N(16, 2, k=77).requires_grad_(True)

    def cl():
        o2.zero_grad()
        u = net(X)
        g = torch.autograd.grad(u.sum(), X, create_graph=True)[0]
        l = (g.pow(2).sum(1) - 1).pow(2).mean()
        l.backward()
        return l

    L.append(o2.step(cl).item())
    L.append(cl().item())
    return r(L, 3)


@kept
def case_gp_by_hand():
    X = N(20, 1).double()
    y = torch.sin(X[:, 0] * 2)
    ls = torch.zeros(1, dtype=torch.double, requires_grad=True)
    s = torch.tensor([-1.0], dtype=torch.double, requires_grad=True)
    o = optim.Adam([ls, s], lr=0.1)
    L = []
    for i in range(4):
        K = torch.exp(-0.5 * torch.cdist(X / ls.exp(), X / ls.exp()).pow(2)) + (
            s.exp() + 0.001
        ) * torch.eye(20, dtype=torch.double)
        Lc = torch.linalg.cholesky(K)
        a = torch.cholesky_solve(y[:, None], Lc)
        nll = 0.5 * y @ a[:, 0] + Lc.diagonal().log().sum()
        o.zero_grad()
        nll.backward()
        o.step()
        L.append(nll.item())
    d = torch.distributions.MultivariateNormal(torch.zeros(20).double(), K.detach())
    L.append(d.log_prob(y).item())
    return r(L)


@kept
def case_fno_complex_sparse():

    class SC(nn.Module):
        def __init__(s):
            super().__init__()
            s.w = nn.Parameter(torch.view_as_complex(N(3, 3, 4, 2) * 0.2))

        def forward(s, x):
            xf = torch.fft.rfft(x)
            o = torch.zeros(x.size(0), 3, x.size(-1) // 2 + 1, dtype=torch.cfloat)
            o[:, :, :4] = torch.einsum("bix,iox->box", xf[:, :, :4], s.w)
            return torch.fft.irfft(o, n=x.size(-1))

    m = SC()
    o = optim.Adam(m.parameters(), lr=0.01)
    L = []
    for i in range(3):
        o.zero_grad()
        l = (m(N(2, 3, 16, k=i)) - N(2, 3, 16, k=9)).pow(2).mean()
        l.backward()
        o.step()
        L.append(l.item())
    idx = torch.tensor([[0, 1, 2, 2], [1, 0, 2, 0]])
    A = torch.sparse_coo_tensor(idx, torch.ones(4), (3, 3))
    x = N(3, 2).requires_grad_()
    torch.sparse.mm(A, x).pow(2).sum().backward()
    L.append(x.grad.sum().item())
    L.append((A.to_dense() + A.t().to_dense()).sum().item())
    L.append(A.coalesce().indices().sum().item())
    c = A.to_dense().to_sparse_csr()
    L.append((c @ N(3, 2)).sum().item())
    s = torch.stft(N(64), 16, 4, window=torch.hann_window(16), return_complex=True)
    L.append(s.abs().sum().item())
    L.append(torch.istft(s, 16, 4, window=torch.hann_window(16)).sum().item())
    return r(L)


@kept
def case_ode_dist():
    f = fill(nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2)), 0.5)
    y = N(3, 2).requires_grad_()
    z = y
    for i in range(6):
        k1 = f(z)
        k2 = f(z + 0.05 * k1)
        k3 = f(z + 0.05 * k2)
        k4 = f(z + 0.1 * k3)
        z = z + 0.1 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    z.pow(2).sum().backward()
    L = [z.sum().item(), y.grad.norm().item()]
    import torch.distributions as D

    mu = torch.zeros(3, requires_grad=True)
    q = D.Independent(D.Normal(mu, torch.ones(3)), 1)
    p = D.MultivariateNormal(torch.ones(3), torch.eye(3) * 2)
    kl = D.kl_divergence(D.Normal(mu, 1.0), D.Normal(torch.ones(3), 2.0)).sum()
    kl.backward()
    L += [
        kl.item(),
        mu.grad.sum().item(),
        p.log_prob(torch.zeros(3)).item(),
        D.Beta(2.0, 3.0).log_prob(torch.tensor(0.3)).item(),
        D.Categorical(logits=N(4)).entropy().item(),
        D.MixtureSameFamily(D.Categorical(torch.ones(2)), D.Normal(torch.tensor([0.0, 1.0]), 1.0))
        .log_prob(torch.tensor(0.5))
        .item(),
        D.TransformedDistribution(D.Normal(0.0, 1.0), [D.ExpTransform()])
        .log_prob(torch.tensor(2.0))
        .item(),
        D.Dirichlet(torch.ones(3) * 2).log_prob(torch.tensor([0.2, 0.3, 0.5])).item(),
        D.StudentT(3.0).log_prob(torch.tensor(1.0)).item(),
    ]
    return r(L)
