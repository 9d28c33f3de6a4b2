"""Expressions on tensors that the parity tests and the stored golden texts share.

Each is one line of statements divided by `;`; the last one is the value. `torch` is the module
under test.
"""

from __future__ import annotations

import numpy as np

SETUP = """
F = torch.nn.functional
def arr(*shape, dtype='float32', seed=0, low=-2.0, high=2.0):
    rng = np.random.default_rng(seed)
    return torch.tensor(rng.uniform(low, high, shape).astype(dtype))
def ints(*shape, low=-5, high=6, seed=1):
    return torch.tensor(np.random.default_rng(seed).integers(low, high, shape))
x = arr(3, 4)
y = arr(3, 4, seed=2)
v = arr(4, seed=3)
b3 = arr(2, 3, 4, seed=4)
p = arr(3, 4, low=0.1, high=2.0, seed=5)
i = ints(3, 4)
j = ints(3, 4, low=1, high=5, seed=2)
m = x > 0
ix = torch.tensor([2, 0, 1])
d = arr(3, 4, dtype='float64', seed=6)
z = torch.tensor(2.5)
one = torch.tensor(3)
"""

EXPRESSIONS = """
x + y
x - 2
2 - x
x * 3.5
x / i
i / 2
i // 2
i % 3
-7 // j
x ** 2
2 ** x
p ** y
i ** 2
i & 3
i | j
i ^ j
~i
~m
i << 1
i >> 1
x @ v
x @ x.T
v @ x.T
b3 @ b3.transpose(1, 2)
b3 @ v
x == y
x < 0
i >= 2
m & (y > 0)
x + 1j if False else x
x + z
i + z
i + 1.5
i * one
one + z
m + 1
m + m
m.float() * 2
x.half() + 1
x.half() + x
x.bfloat16() * 1.1
d + x
d + z
i.to(torch.int32) + i
i.to(torch.uint8) + i.to(torch.int8)
i.int() * 2.0
torch.add(x, y, alpha=2)
torch.sub(x, y, alpha=3)
torch.div(x, y, rounding_mode='floor')
torch.div(i, j, rounding_mode='trunc')
torch.div(x, y, rounding_mode='trunc')
torch.fmod(i, 3)
torch.remainder(x, 0.7)
torch.maximum(x, y)
torch.clamp(x, -0.5, 0.5)
x.clamp(min=0)
torch.clamp(x, max=y)
i.clamp(0, 2)
x.abs()
i.abs()
x.neg()
x.exp()
i.exp()
p.log()
p.sqrt()
p.rsqrt()
x.sin()
x.tanh()
x.sigmoid()
x.relu()
x.sign()
x.floor()
x.round()
torch.round(x, decimals=1)
x.trunc()
x.frac()
x.erf()
p.lgamma()
p.log1p()
x.expm1()
p.reciprocal()
x.square()
x.logit(0.1)
torch.atan2(x, y)
torch.hypot(x, y)
torch.lerp(x, y, 0.3)
torch.addcmul(x, y, y, value=0.5)
torch.addcdiv(x, y, p, value=0.5)
torch.where(m, x, y)
torch.where(m, x, 0.0)
torch.where(m, 1.0, 0.0)
torch.where(m)
torch.nan_to_num(x / 0)
torch.logaddexp(x, y)
torch.xlogy(p, p)
torch.isnan(x / x)
torch.isclose(x, x + 1e-9)
torch.allclose(x, x)
x.sum()
i.sum()
m.sum()
x.sum(0)
x.sum((0, 1))
x.sum(-1, keepdim=True)
x.sum(dtype=torch.float64)
x.mean()
x.mean(1)
x.prod()
x.prod(1)
i.prod(0)
x.std()
x.var(0)
x.var(1, unbiased=False)
x.std(dim=1, correction=0, keepdim=True)
torch.var_mean(x, 1)
x.max()
x.min()
x.max(1)
x.min(0, keepdim=True)
torch.max(x, y)
x.amax(1)
x.amin((0, 1))
x.argmax()
x.argmax(1)
x.argmin(0, keepdim=True)
x.any()
m.all(1)
i.any(0)
x.norm()
x.norm(1)
x.norm(dim=1)
torch.linalg.norm(x)
torch.linalg.vector_norm(x, 3, 1)
x.logsumexp(1)
x.softmax(1)
x.log_softmax(0)
x.cumsum(1)
i.cumsum(0)
x.cumprod(1)
x.cummax(1)
x.logcumsumexp(1)
x.median()
x.median(1)
i.mode(1)
x.kthvalue(2, 1)
x.sort(1)
x.sort(0, descending=True)
x.argsort(1)
x.topk(2)
x.topk(2, 0, largest=False)
torch.unique(i)
torch.unique(i, return_inverse=True, return_counts=True)
torch.unique_consecutive(torch.tensor([1, 1, 2, 2, 1]), return_counts=True)
x.nonzero()
m.nonzero()
x.count_nonzero()
torch.quantile(x, 0.3)
torch.quantile(x, torch.tensor([0.1, 0.9]), 1)
torch.diff(x)
torch.bincount(j.flatten())
x.view(4, 3)
x.view(-1)
x.reshape(2, 6)
x.t()
x.T.reshape(-1)
x.transpose(0, 1)
b3.permute(2, 0, 1)
b3.movedim(0, 2)
x.unsqueeze(1)
x.unsqueeze(-1)
x[None].squeeze()
x[None].squeeze(0)
v.expand(3, 4)
x.unsqueeze(1).expand(-1, 2, -1)
b3.flatten(1)
b3.unflatten(2, (2, 2))
x.split(2)
x.split([1, 3], 1)
x.chunk(2, 1)
x.unbind(1)
x.narrow(1, 1, 2)
x.select(0, 1)
x.diagonal()
b3.diagonal(1, 1, 2)
x.unfold(1, 2, 1)
torch.tensor_split(x, 3, 1)
x.as_strided((2, 2), (1, 2), 1)
torch.cat([x, y])
torch.cat([x, i], 1)
torch.stack([x, y], 1)
torch.hstack([v, v])
torch.vstack([v, v])
x.repeat(2, 1)
x.tile(2)
x.flip(0)
x.roll(1, 1)
x.roll(2)
x.rot90()
x.tril()
x.triu(1)
torch.diag(v)
torch.diag(x)
torch.diag_embed(x)
torch.outer(v, v)
torch.kron(x, v)
x.repeat_interleave(2, 1)
x.repeat_interleave(torch.tensor([1, 0, 2]), 0)
x.gather(1, i.abs() % 4)
x.scatter(1, i.abs()[:, :1] % 4, 9.0)
x.scatter_add(1, (i.abs() % 4), y)
x.scatter_reduce(1, (i.abs() % 4), y, 'amax')
x.index_select(1, ix)
x.index_add(0, ix, y)
x.index_copy(0, ix, y)
x.index_fill(0, torch.tensor([0, 2]), -1)
x.masked_fill(m, 0)
x.masked_select(m)
x.take(torch.tensor([0, 5]))
torch.take_along_dim(x, x.argsort(1), 1)
torch.searchsorted(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.5, 2.0, 9.0]))
torch.bucketize(torch.tensor([0.5, 2.0, 9.0]), torch.tensor([1.0, 2.0, 3.0]), right=True)
torch.einsum('ij,kj->ik', x, y)
torch.einsum('bij,j->bi', b3, v)
torch.einsum('ii->i', x[:, :3])
torch.einsum('...ij,...jk', b3, b3.mT)
torch.tensordot(b3, x, ([1, 2], [0, 1]))
torch.bmm(b3, b3.mT)
torch.addmm(x[:, :3], x, x.T, beta=0.5, alpha=2)
torch.baddbmm(b3[:, :, :3], b3, b3.mT)
torch.mv(x, v)
torch.dot(v, v)
torch.trace(x)
torch.cdist(x, y)
torch.linalg.cross(x[:, :3], y[:, :3])
torch.arange(5)
torch.arange(1, 2, 0.3)
torch.arange(5, 0, -2)
torch.linspace(0, 1, 7)
torch.linspace(-3, 3, 4)
torch.logspace(0, 2, 3)
torch.eye(3)
torch.eye(2, 3, dtype=torch.int64)
torch.full((2, 2), 7)
torch.full((2,), 1.5)
torch.full((2,), True)
torch.zeros(2, 3, dtype=torch.int32)
torch.ones_like(i)
torch.full_like(x, 3)
x.new_zeros(2)
x.new_tensor([1, 2])
torch.tensor([[1, 2], [3, 4]])
torch.tensor([1, 2.5])
torch.tensor([True, False])
torch.tensor(3)
torch.tensor([])
torch.tensor([[], []])
torch.tensor(np.float64(2))
torch.tensor(np.arange(3, dtype=np.int32))
torch.tensor([np.float32(1), np.float32(2)])
torch.tensor([torch.tensor(1), torch.tensor(2)])
torch.as_tensor([1, 2])
torch.Tensor([1, 2])
torch.meshgrid(torch.arange(2), torch.arange(3), indexing='ij')
torch.meshgrid(torch.arange(2), torch.arange(3), indexing='xy')
torch.tril_indices(3, 3)
torch.cartesian_prod(torch.arange(2), torch.arange(3))
torch.broadcast_tensors(v, x)
torch.block_diag(x, x)
torch.result_type(i, 1.5)
torch.promote_types(torch.int32, torch.float16)
torch.can_cast(torch.float32, torch.int32)
x.to(torch.int64)
x.int()
x.bool()
x.double()
x.type(torch.float16)
x.type()
x.type_as(i)
i.float()
x.dtype
x.shape
x.t().stride()
x[:, 1].stride()
x[1:, ::2].stride()
x[1:, ::2].storage_offset()
x.unsqueeze(1).stride()
x[None].stride()
x[:, None, :].stride()
v.expand(3, 4).stride()
x.t().is_contiguous()
x.size(1)
x.numel()
x.dim()
len(x)
x.tolist()
i.tolist()
z.item()
float(z)
int(one)
bool(one)
3.0 in torch.tensor([1.0, 3.0])
[float(r.sum()) for r in x]
x[0]
x[-1]
x[0, 1]
x[1:]
x[:, ::2]
x[..., 0]
x[None, :, 1]
x[:, None]
x[ix]
x[:, ix]
x[ix, ix]
x[ix, 1]
x[ix[:, None], ix]
x[m]
x[m.any(1)]
x[[0, 2]]
x[[0, 1], [2, 3]]
x[torch.tensor([-1, 0])]
b3[0, :, ix]
b3[:, ix, ix]
b3[ix[:2] % 2, :, ix[:2]]
b3[:, None, ix]
b3[b3 > 0]
b3[:, m[:, 0]]
x[True].shape
x[torch.tensor(1)]
x[np.array([0, 1])]
x[1:1]
x[()]
x.clone().index_put_((ix,), y)
a = x.clone(); a[0] = 5; a
a = x.clone(); a[:, 1] = v[:3]; a
a = x.clone(); a[m] = 0; a
a = x.clone(); a[m] = y[m]; a
a = x.clone(); a[ix] = y; a
a = x.clone(); a[ix, ix] = torch.tensor([1., 2., 3.]); a
a = x.clone(); a[:, ix] = 1; a
a = x.clone(); a[1:, ::2] = 7; a
a = x.clone(); a[..., -1] += 10; a
a = x.clone(); a[None, 0] = 3; a
a = i.clone(); a[0] = 2.7; a
a = x.clone(); b = a.view(-1); b[3] = 100; a
a = x.clone(); a.t()[0] = 8; a
a = x.clone(); a[1].add_(5); a
a = x.clone(); a.diagonal().fill_(2); a
a = x.clone(); a.select(1, 2).zero_(); a
a = x.clone(); a.unfold(1, 2, 2)[0] = 1; a
a = b3.clone(); a.permute(2, 0, 1)[1] = 4; a
a = x.clone(); a.as_strided((3,), (5,)).zero_(); a
a = x.clone(); a.mul_(2).add_(1); (a, a._version)
a = x.clone(); a.clamp_(0, 1); a
a = x.clone(); a.copy_(i); a
a = x.clone(); a.masked_fill_(m, 1); a
a = x.clone(); a.index_add_(0, ix, y, alpha=2); a
a = x.clone(); a.scatter_(1, i.abs() % 4, y); a.shape
a = x.clone(); a += y; a
a = x.clone(); a.exp_(); a
a = x.clone(); a.fill_diagonal_(0); a
o = torch.empty(3, 4); torch.add(x, y, out=o); o
o = torch.empty(0); torch.mul(x, 2, out=o); o
a = torch.zeros(3); n = a.numpy(); n[1] = 5; a
a = torch.zeros(3); n = a.numpy(); a[2] = 4; torch.tensor(n)
n = np.zeros(3); a = torch.from_numpy(n); n[0] = 1; a + 1
n = np.zeros((2, 3)); a = torch.from_numpy(n); a.t()[1] = 3; torch.tensor(n)
n = np.zeros((2, 3)); a = torch.from_numpy(n.T); a[1] = 3; torch.tensor(n)
F.linear(x, y, v[:3])
F.softmax(x, 1)
F.gelu(x)
F.gelu(x, approximate='tanh')
F.silu(x)
F.elu(x, 0.5)
F.leaky_relu(x, 0.2)
F.softplus(x, 2, 1)
F.hardtanh(x, -0.5, 0.5)
F.relu6(x * 4)
F.hardswish(x * 3)
F.mish(x)
F.logsigmoid(x)
F.glu(x)
F.selu(x)
F.celu(x, 0.7)
F.prelu(x, v)
F.threshold(x, 0.1, 20)
F.softshrink(x)
F.layer_norm(x, (4,), v, v)
F.rms_norm(x, (4,), v)
F.group_norm(b3.permute(0, 2, 1), 2, v, v)
F.batch_norm(x, None, None, v, v, training=True)
rm = torch.zeros(4); rv = torch.ones(4); F.batch_norm(x, rm, rv, training=True); (rm, rv)
F.batch_norm(x, v, v.abs() + 1)
F.instance_norm(b3)
F.cross_entropy(x, ix)
F.cross_entropy(x, ix, weight=v.abs(), label_smoothing=0.1, reduction='sum')
F.cross_entropy(x, x.softmax(1))
F.nll_loss(x.log_softmax(1), ix, reduction='none')
F.mse_loss(x, y)
F.l1_loss(x, y, reduction='sum')
F.smooth_l1_loss(x, y, beta=0.5)
F.huber_loss(x, y, delta=0.5)
F.binary_cross_entropy(x.sigmoid(), y.sigmoid())
F.binary_cross_entropy_with_logits(x, y.sigmoid(), pos_weight=v.abs())
F.kl_div(x.log_softmax(1), y.softmax(1), reduction='batchmean')
F.cosine_similarity(x, y)
F.normalize(x)
F.pad(x, (1, 2))
F.pad(x, (1, 1, 2, 0), value=3)
F.pad(b3, (1, 2), mode='reflect')
F.pad(b3, (1, 2), mode='replicate')
F.pad(b3, (1, 2), mode='circular')
F.pad(x, (-1, 1))
F.one_hot(ix)
F.one_hot(ix, 5)
F.embedding(ix, x)
F.conv1d(b3, arr(2, 3, 2))
F.conv2d(arr(1, 2, 5, 5), arr(3, 2, 3, 3), v[:3], stride=2, padding=1)
F.conv2d(arr(1, 2, 5, 5), arr(2, 1, 3, 3), padding='same', groups=2)
F.conv_transpose2d(arr(1, 2, 3, 3), arr(2, 2, 2, 2), stride=2)
F.max_pool2d(arr(1, 2, 4, 4), 2)
F.max_pool2d(arr(1, 2, 5, 5), 3, 2, 1, return_indices=True)
F.avg_pool2d(arr(1, 2, 4, 4), 2)
F.adaptive_avg_pool2d(arr(1, 2, 5, 5), 2)
F.adaptive_max_pool2d(arr(1, 2, 5, 5), 2)
F.interpolate(arr(1, 2, 3, 3), scale_factor=2)
F.interpolate(arr(1, 2, 3, 3), size=(5, 4), mode='bilinear', align_corners=False)
F.unfold(arr(1, 2, 4, 4), 2)
F.pixel_shuffle(arr(1, 4, 2, 2), 2)
F.scaled_dot_product_attention(b3, b3, b3)
F.scaled_dot_product_attention(b3, b3, b3, is_causal=True)
F.scaled_dot_product_attention(b3, b3, b3, attn_mask=m[:, :3])
F.triplet_margin_loss(x, y, x + y)
F.dropout(x, 0.5, training=False)
F.bilinear(x, y, arr(2, 4, 4))
""".strip().splitlines()

REPRS = """
x
i
m
x[0, 0]
one
x.double()
x.half()
x * 1e6
x * 1e-6
x.round()
x.round() * 1e9
torch.tensor([])
torch.zeros(0, 3)
torch.zeros(2, 0, dtype=torch.int32)
b3
torch.arange(2000)
torch.arange(2000.).view(40, 50)
torch.arange(10000).view(10, 10, 100)
x / 0
torch.tensor([float('nan'), 1.0])
torch.tensor([float('inf'), 1.5])
torch.tensor([1e10, 1.0])
torch.arange(30) * 1000
x.clone().requires_grad_()
(x.clone().requires_grad_() * 2)
x.clone().requires_grad_().view(-1)
x.clone().requires_grad_().sum()
x.clone().requires_grad_()[0]
x.clone().requires_grad_().t()
x.clone().requires_grad_().exp()
x.clone().requires_grad_().mean(0)
x.bfloat16()
x.max(1)
x.sort(1)
torch.tensor([0.1, 100000.0])
torch.tensor(1e-8)
torch.tensor(123456789.0)
torch.Size([1, 2])
torch.float32
torch.finfo(torch.float32)
torch.iinfo(torch.int8)
torch.device('cpu')
f'{z:.3f}'
str(z)
torch.strided
torch.rand(100, 100) * 0
""".strip().splitlines()

ERRORS = """
x + torch.zeros(5)
x @ x
x.view(5)
x.t().view(-1)
x.view(-1, -1)
x.reshape(7)
x[5]
x[0, 9]
x[0, 0, 0]
x['a']
x[::-1]
z[0]
x[ix.float()]
x[torch.tensor([7])]
x[torch.tensor([0, 1]), torch.tensor([0, 1, 2])]
x[torch.tensor([True])]
x.sum(5)
x.sum((0, 0))
x.transpose(0, 3)
x.permute(0)
x.expand(2, 4)
x.squeeze(4)
torch.cat([x, b3])
torch.cat([])
torch.stack([x, v])
bool(x)
x.item()
int(x)
len(z)
iter(z)
torch.tensor([[1], [1, 2]])
torch.tensor('a')
torch.tensor(None)
torch.zeros(-1)
torch.zeros(2).requires_grad_().numpy()
i.requires_grad_()
torch.tensor([1], requires_grad=True)
x.mean(dtype=torch.int64) if False else i.mean()
torch.exp(1.0)
x.clone().requires_grad_().add_(1)
a = x.clone().requires_grad_(); a[0] = 1
a = x.clone().requires_grad_(); (a * 2).backward()
x.sum().backward()
a = x.clone().requires_grad_(); l = a.exp().sum(); l.backward(); l.backward()
a = x.clone().requires_grad_(); b = a.exp(); b.add_(1); b.sum().backward()
a = x.clone().requires_grad_(); b = a * 1; c = b * b; b.zero_(); c.sum().backward()
a = x.clone().requires_grad_(); torch.autograd.grad(a.sum(), y.clone().requires_grad_())
v.expand(3, 4).add_(1)
i.add_(1.5)
v.clone().add_(x)
a = i.clone(); a /= 2
m - m
x.gather(1, x)
x.masked_select(x)
x.topk(9)
x.split([1, 1])
x.split(-1)
x.chunk(0)
x.narrow(0, 2, 5)
x.unfold(1, 9, 1)
torch.arange(0, 5, 0)
torch.arange(5, 0)
torch.linspace(0, 1, -1)
torch.device('nope')
torch.from_numpy([1])
torch.randint(5, 5, (2,))
torch.multinomial(v.abs(), 9)
torch.clamp(x)
torch.nn.functional.linear(x, x.T)
torch.nn.functional.linear(x, d)
x @ d
torch.dot(x, x)
torch.nn.functional.cross_entropy(x, torch.tensor([0, 1]))
torch.nn.functional.conv2d(x, x)
torch.nn.functional.layer_norm(x, (3,))
torch.nn.functional.mse_loss(x, y, reduction='avg')
torch.nn.functional.dropout(x, 2.0)
torch.finfo(torch.int32)
torch.iinfo(torch.float32)
torch.bmm(x, x)
torch.mm(v, x)
a = x.clone().requires_grad_(); a.grad = v
a = (x.clone().requires_grad_() * 2); a.requires_grad_(False)
torch.zeros(2).register_hook(print)
torch.zeros(3, device='cuda')
""".strip().splitlines()


def run(module, text):
    space = {"torch": module, "np": np}
    exec(SETUP, space)
    *statements, last = [part.strip() for part in text.split(";")]
    for statement in statements:
        exec(statement, space)
    return eval(last, space)


def fault(module, text):
    try:
        run(module, text)
    except Exception as error:
        return type(error), str(error)
    return None, ""
