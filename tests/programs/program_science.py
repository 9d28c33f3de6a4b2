"""gpytorch, zuko, nflows, normflows, torchsde, torch-geometric, e3nn, tensordict, torchopt, pyro."""

import torch
import torch.nn as nn
import torch.nn.functional as F

device = torch.device("cpu")
from pieces import N, fill, kept, r

RTOL = {"gpytorch_exact": 0.002, "gpytorch_svgp": 1e-3}


def gn(m):
    return sum((p.grad.double().norm().item() for p in m.parameters() if p.grad is not None))


@kept
def case_gpytorch_exact():
    import gpytorch

    class M(gpytorch.models.ExactGP):
        def __init__(s, x, y, l):
            super().__init__(x, y, l)
            s.mean_module = gpytorch.means.ConstantMean()
            s.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(s, x):
            return gpytorch.distributions.MultivariateNormal(s.mean_module(x), s.covar_module(x))

    x = torch.linspace(0, 1, 20)
    y = torch.sin(x * 6.28) + N(20, sc=0.1)
    l = gpytorch.likelihoods.GaussianLikelihood()
    m = M(x, y, l)
    m.train()
    l.train()
    o = torch.optim.Adam(m.parameters(), lr=0.1)
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(l, m)
    L = []
    for i in range(5):
        o.zero_grad()
        lo = -mll(m(x), y)
        lo.backward()
        L.append(lo.item())
        o.step()
    m.eval()
    l.eval()
    with torch.no_grad(), gpytorch.settings.fast_pred_var():
        p = l(m(torch.linspace(0, 1, 7)))
        lo, up = p.confidence_region()
    return (r(L), r(p.mean.sum()), r((up - lo).sum(), 3))


@kept
def case_gpytorch_svgp():
    import gpytorch

    class G(gpytorch.models.ApproximateGP):
        def __init__(s, z):
            v = gpytorch.variational.CholeskyVariationalDistribution(
                z.size(0),
                mean_init_std=0.0,  # else the start is drawn
            )
            super().__init__(
                gpytorch.variational.VariationalStrategy(s, z, v, learn_inducing_locations=True)
            )
            s.m = gpytorch.means.ZeroMean()
            s.k = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=1.5))

        def forward(s, x):
            return gpytorch.distributions.MultivariateNormal(s.m(x), s.k(x))

    x = N(30, 1)
    y = torch.sin(x[:, 0])
    m = G(x[:6].clone())
    l = gpytorch.likelihoods.GaussianLikelihood()
    mll = gpytorch.mlls.VariationalELBO(l, m, 30)
    o = torch.optim.Adam([*m.parameters(), *l.parameters()], lr=0.05)
    L = []
    m.train()
    for i in range(3):
        o.zero_grad()
        lo = -mll(m(x), y)
        lo.backward()
        o.step()
        L.append(lo.item())
    return r(L, 3)


@kept
def case_pyro_svi():
    import pyro
    import pyro.distributions as dist
    from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO

    pyro.clear_param_store()
    pyro.set_rng_seed(0)
    x = N(30)
    y = 2 * x + 0.5 + N(30, k=1) * 0.1

    def model(x, y=None):
        a = pyro.sample("a", dist.Normal(0.0, 5.0))
        b = pyro.sample("b", dist.Normal(0.0, 5.0))
        s = pyro.sample("s", dist.HalfNormal(1.0))
        with pyro.plate("d", len(x)):
            return pyro.sample("o", dist.Normal(a * x + b, s), obs=y)

    g = pyro.infer.autoguide.AutoNormal(model)
    svi = SVI(model, g, pyro.optim.Adam({"lr": 0.1}), Trace_ELBO())
    for i in range(60):
        l = svi.step(x, y)
    q = g.median()
    ok = abs(float(q["a"]) - 2) < 0.5 and abs(float(q["b"]) - 0.5) < 0.5
    k = MCMC(NUTS(model, jit_compile=False), num_samples=10, warmup_steps=10, disable_progbar=True)
    k.run(x, y)
    return (ok, tuple(k.get_samples()["a"].shape))


@kept
def case_flows():
    import nflows.distributions as D
    import nflows.flows
    import nflows.transforms as T
    import normflows as nf
    import zuko

    f = fill(zuko.flows.NSF(3, context=2, transforms=2, hidden_features=(8, 8)))
    lp = f(N(4, 2)).log_prob(N(4, 3))
    lp.sum().backward()
    a = [lp.sum().item(), gn(f)]
    m = fill(zuko.flows.MAF(3, transforms=2, hidden_features=(8,)))
    a.append(m().log_prob(N(4, 3)).sum().item())
    t = T.CompositeTransform(
        [
            T.MaskedAffineAutoregressiveTransform(3, 8),
            T.RandomPermutation(3) if False else T.ReversePermutation(3),
            T.MaskedPiecewiseRationalQuadraticAutoregressiveTransform(
                3, 8, num_bins=4, tails="linear", tail_bound=3.0
            ),
        ]
    )
    fl = nflows.flows.Flow(t, D.StandardNormal([3]))
    fill(fl)
    l = -fl.log_prob(N(5, 3)).mean()
    l.backward()
    a += [l.item(), gn(fl), tuple(fl.sample(4).shape)[0]]
    fs = []
    for i in range(2):
        fs += [
            nf.flows.AffineCouplingBlock(nf.nets.MLP([1, 8, 2], init_zeros=True)),
            nf.flows.Permute(2, mode="swap"),
        ]
    nm = fill(nf.NormalizingFlow(nf.distributions.base.DiagGaussian(2), fs))
    l = nm.forward_kld(N(6, 2))
    l.backward()
    a += [l.item(), gn(nm)]
    return r(a)


@kept
def case_sde_ode():
    import torchsde

    class S(nn.Module):
        noise_type = "diagonal"
        sde_type = "ito"

        def __init__(s):
            super().__init__()
            s.mu = fill(nn.Linear(3, 3))
            s.sg = fill(nn.Linear(3, 3))

        def f(s, t, y):
            return s.mu(y)

        def g(s, t, y):
            return s.sg(y) * 0 + 0.0

    s = S()
    ys = torchsde.sdeint(s, N(4, 3), torch.linspace(0, 1, 5), method="euler", dt=0.1)
    ys.sum().backward()
    a = [ys[-1].sum().item(), gn(s)]
    s.zero_grad()
    ys = torchsde.sdeint_adjoint(
        s, N(4, 3), torch.linspace(0, 1, 3), method="euler", dt=0.1, adjoint_method="euler"
    )
    ys[-1].sum().backward()
    return r(a + [gn(s)], 3)


@kept
def case_geometric():
    import torch_geometric.nn as g
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader

    ei = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 3, 2, 0, 3]])
    x = N(4, 5)
    out = []
    for c in [
        g.GCNConv(5, 6),
        g.GATConv(5, 3, heads=2),
        g.SAGEConv(5, 6),
        g.GINConv(nn.Sequential(nn.Linear(5, 6), nn.ReLU())),
        g.TransformerConv(5, 3, heads=2),
        g.GATv2Conv(5, 3, heads=2),
        g.ChebConv(5, 6, 2),
        g.GraphConv(5, 6),
        g.EdgeConv(nn.Linear(10, 6)),
        g.TAGConv(5, 6),
        g.ARMAConv(5, 6),
        g.PNAConv(5, 6, ["mean", "max", "std"], ["identity"], deg=torch.tensor([0, 0, 4])),
    ]:
        fill(c)
        y = c(x, ei)
        y.pow(2).sum().backward()
        out += [y.sum().item(), gn(c)]
    ds = [
        Data(
            x=N(3 + i, 5, k=i),
            edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]),
            y=torch.tensor([i % 2]),
        )
        for i in range(4)
    ]

    class Net(nn.Module):
        def __init__(s):
            super().__init__()
            s.c1 = g.GCNConv(5, 8)
            s.c2 = g.GCNConv(8, 8)
            s.l = nn.Linear(8, 2)

        def forward(s, d):
            h = F.relu(s.c1(d.x, d.edge_index))
            h = s.c2(h, d.edge_index)
            return s.l(
                g.global_mean_pool(h, d.batch)
                + g.global_max_pool(h, d.batch)
                + g.global_add_pool(h, d.batch)
            )

    n = fill(Net(), 0.3)
    o = torch.optim.Adam(n.parameters(), lr=0.01)
    for ep in range(2):
        for b in DataLoader(ds, batch_size=2):
            l = F.cross_entropy(n(b), b.y)
            o.zero_grad()
            l.backward()
            o.step()
            out.append(l.item())
    from torch_geometric.utils import (
        add_self_loops,
        degree,
        scatter,
        softmax,
        to_dense_adj,
    )

    out += [
        degree(ei[0]).sum().item(),
        to_dense_adj(ei).sum().item(),
        add_self_loops(ei)[0].size(1),
        softmax(N(8), ei[0]).sum().item(),
        scatter(N(8, 2), ei[0], reduce="max").sum().item(),
    ]
    return r(out)


@kept
def case_e3nn():
    from e3nn import o3

    ir = o3.Irreps("2x0e+1x1o")
    tp = o3.FullyConnectedTensorProduct(ir, ir, ir)
    fill(tp)
    x = N(4, ir.dim)
    y = tp(x, x)
    y.sum().backward()
    sh = o3.spherical_harmonics([0, 1, 2], N(5, 3), True)
    l = fill(o3.Linear(ir, ir))
    D = ir.D_from_matrix(o3.rand_matrix() * 0 + torch.eye(3))
    return r([y.sum(), gn(tp), sh.sum(), l(x).sum(), D.sum(), o3.wigner_3j(1, 1, 1).abs().sum()])


@kept
def case_tdict():
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule, TensorDictSequential

    t = TensorDict({"a": N(4, 3), "b": {"c": N(4)}}, batch_size=[4])
    out = [
        t["b", "c"].sum(),
        t[1:3]["a"].sum(),
        t.to(torch.float64)["a"].sum(),
        torch.stack([t, t])["a"].sum(),
        t.reshape(2, 2)["a"].shape[0],
        t.apply(lambda x: x + 1)["a"].sum(),
        torch.cat([t, t], 0).shape[0],
    ]
    m = TensorDictSequential(
        TensorDictModule(fill(nn.Linear(3, 2)), ["a"], ["h"]),
        TensorDictModule(nn.Tanh(), ["h"], ["y"]),
    )
    out.append(m(t)["y"].sum())
    p = TensorDict.from_module(m[0].module)
    with p.data.clone().zero_().to_module(m[0].module):
        out.append(m(t)["y"].abs().sum())
    return r(out)


@kept
def case_torchopt():
    import torchopt

    m = fill(nn.Linear(3, 2))
    o = torchopt.Adam(m.parameters(), lr=0.1)
    out = []
    for i in range(3):
        o.zero_grad()
        l = m(N(4, 3)).pow(2).sum()
        l.backward()
        o.step()
        out.append(l.item())
    m = fill(nn.Linear(3, 2))
    mo = torchopt.MetaSGD(m, lr=0.1)
    st = torchopt.extract_state_dict(m)
    mp = torch.tensor(1.0, requires_grad=True)
    mo.step(mp * m(N(4, 3)).pow(2).sum())
    m(N(4, 3, k=2)).pow(2).sum().backward()
    out.append(mp.grad.item())
    return r(out)
