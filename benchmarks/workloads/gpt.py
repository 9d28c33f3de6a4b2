"""The small GPT that the workloads train: pre-norm blocks, fused qkv, causal attention."""

import numpy as np

from workloads import from_numpy


def build_gpt(torch, vocab=4096, block=256, layers=4, heads=8, width=256):
    """A new GPT with weights from a fixed seed, the same in every framework."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            b, t, c = x.shape
            parts = self.qkv(self.norm_1(x)).split(c, dim=2)
            q, k, v = (p.view(b, t, heads, c // heads).transpose(1, 2) for p in parts)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
            return x + self.contract(functional.gelu(self.expand(self.norm_2(x))))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocab, width), nn.Embedding(block, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)

        def forward(self, tokens):
            x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
            for layer in self.blocks:
                x = layer(x)
            return self.head(self.norm(x))

    model = GPT()
    fill_weights(torch, model)
    return model


def fill_weights(torch, model, seed=0):
    """Small normal weights from numpy and zero biases; the weights of norms stay one."""
    named = list(model.named_parameters())
    values = weights_of([tuple(p.shape) for _, p in named], seed)
    with torch.no_grad():
        for (name, p), value in zip(named, values, strict=True):
            if p.dim() >= 2 or name.endswith("bias"):
                p.copy_(from_numpy(torch, value))


def weights_of(shapes, seed=0):
    """An array for each shape: small normal numbers, zeros for one dim."""
    rng = np.random.default_rng(seed)
    return [
        rng.standard_normal(shape, dtype=np.float32) * np.float32(0.02)
        if len(shape) >= 2
        else np.zeros(shape, np.float32)
        for shape in shapes
    ]


def build_step(torch, model, batch=8, block=256, vocab=4096):
    """One whole training step on a fixed batch: forward, loss, backward, AdamW."""
    x, y = batch_of_tokens(torch, batch, block, vocab)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

    def step():
        optimizer.zero_grad()
        loss = loss_of(torch, model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def build_bfloat16_step(torch, model, batch=8, block=256, vocab=4096):
    """The same with bfloat16 parameters and activations; AdamW keeps float32 copies beside them."""
    masters = [p.detach().clone() for p in model.parameters()]
    model.bfloat16()
    x, y = batch_of_tokens(torch, batch, block, vocab)
    optimizer = torch.optim.AdamW(masters, lr=3e-4)

    def step():
        model.zero_grad()
        loss = loss_of(torch, model(x).float(), y)
        loss.backward()
        with torch.no_grad():
            for master, p in zip(masters, model.parameters(), strict=True):
                master.grad = p.grad.float()
            optimizer.step()
            for master, p in zip(masters, model.parameters(), strict=True):
                p.copy_(master)
        return loss.detach()

    return step


def batch_of_tokens(torch, batch, block, vocab):
    """Tokens, and the tokens that follow them."""
    tokens = from_numpy(torch, np.random.default_rng(1).integers(0, vocab, (batch, block + 1)))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def loss_of(torch, logits, y):
    return torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), y.view(-1))


def step_flop(model, batch, block):
    """Six per weight and token; attention adds about a tenth at this size."""
    looked_up = ("tokens.weight", "positions.weight")
    weights = sum(p.numel() for name, p in model.named_parameters() if name not in looked_up)
    return 6.0 * weights * batch * block
