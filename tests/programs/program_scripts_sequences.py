"""Scripts about texts and sequences: language models, translation, speech, word vectors."""

import math
from collections import Counter

import torch
import torch.nn as nn
import torch.nn.functional as F
from pieces import I, N, fill, kept, r
from torch import Tensor, optim
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

TEXT = "the quick brown fox jumps over the lazy dog and runs away from the slow bear " * 3


@kept
def case_char_lstm():
    chars = sorted(set(TEXT))
    stoi = {c: i for i, c in enumerate(chars)}
    data = torch.tensor([stoi[c] for c in TEXT], dtype=torch.long)

    class CharRNN(nn.Module):
        def __init__(self, vocab, emb=8, hidden=16, layers=2):
            super().__init__()
            self.layers, self.hidden = layers, hidden
            self.encoder = nn.Embedding(vocab, emb)
            self.rnn = nn.LSTM(emb, hidden, layers, batch_first=True, dropout=0.0)
            self.decoder = nn.Linear(hidden, vocab)

        def forward(self, x, state=None):
            y, state = self.rnn(self.encoder(x), state)
            return self.decoder(y), state

        def init_hidden(self, batch):
            weight = next(self.parameters()).data
            return (
                weight.new(self.layers, batch, self.hidden).zero_(),
                weight.new_zeros(self.layers, batch, self.hidden),
            )

    model = fill(CharRNN(len(chars)), 0.3)
    model.rnn.flatten_parameters()
    opt = optim.Adam(model.parameters(), lr=0.01)
    hidden, losses = model.init_hidden(4), []
    nbatch = data.size(0) // 4
    stream = data.narrow(0, 0, nbatch * 4).view(4, -1)
    for i in range(0, 30, 10):
        x, y = stream[:, i : i + 10], stream[:, i + 1 : i + 11]
        hidden = tuple(h.detach() for h in hidden)
        opt.zero_grad()
        out, hidden = model(x, hidden)
        loss = F.cross_entropy(out.reshape(-1, len(chars)), y.reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.05)
        opt.step()
        losses.append(loss.item())
    model.eval()
    text, state = "th", None
    with torch.no_grad():
        for _ in range(8):
            out, state = model(torch.tensor([[stoi[text[-1]]]]), state)
            text += chars[out[0, -1].div(0.8).softmax(0).argmax().item()]
    ppl = math.exp(min(losses[-1], 20))
    return losses, [ppl], text


@kept
def case_seq2seq_attention():
    class Encoder(nn.Module):
        def __init__(self, vocab, hidden):
            super().__init__()
            self.embedding = nn.Embedding(vocab, hidden, padding_idx=0)
            self.gru = nn.GRU(hidden, hidden, bidirectional=True)
            self.fc = nn.Linear(hidden * 2, hidden)

        def forward(self, src, lengths):
            packed = pack_padded_sequence(self.embedding(src), lengths, enforce_sorted=False)
            out, h = self.gru(packed)
            out, lens = pad_packed_sequence(out)
            return out, torch.tanh(self.fc(torch.cat((h[-2], h[-1]), dim=1))), lens

    class Attention(nn.Module):
        def __init__(self, hidden):
            super().__init__()
            self.attn = nn.Linear(hidden * 3, hidden)
            self.v = nn.Parameter(torch.rand(hidden))

        def forward(self, h, enc, mask):
            src = enc.shape[0]
            h = h.unsqueeze(1).repeat(1, src, 1)
            energy = torch.tanh(self.attn(torch.cat((h, enc.permute(1, 0, 2)), dim=2)))
            score = torch.bmm(self.v.repeat(enc.size(1), 1).unsqueeze(1), energy.transpose(1, 2))
            return score.squeeze(1).masked_fill(mask == 0, -1e10).softmax(dim=1)

    class Decoder(nn.Module):
        def __init__(self, vocab, hidden):
            super().__init__()
            self.embedding = nn.Embedding(vocab, hidden)
            self.attention = Attention(hidden)
            self.gru = nn.GRUCell(hidden * 3, hidden)
            self.out = nn.Linear(hidden * 4, vocab)

        def forward(self, token, h, enc, mask):
            e = self.embedding(token)
            a = self.attention(h, enc, mask)
            ctx = torch.einsum("bs,sbh->bh", a, enc)
            h = self.gru(torch.cat((e, ctx), 1), h)
            return self.out(torch.cat([h, ctx, e], dim=-1)), h, a

    enc, dec = fill(Encoder(11, 8), 0.3), fill(Decoder(9, 8), 0.3)
    seqs = [I(10, n, k=n) + 1 for n in (5, 3, 6)]
    src = pad_sequence(seqs, padding_value=0)
    trg = I(9, 4, 3)
    opt = optim.Adam(list(enc.parameters()) + list(dec.parameters()), 1e-2)
    crit = nn.CrossEntropyLoss(ignore_index=0)
    losses = []
    for _ in range(3):
        out, h, lens = enc(src, torch.tensor([len(s) for s in seqs]))
        mask = (src != 0).permute(1, 0)
        outputs = torch.zeros(4, 3, 9)
        token = trg[0]
        for t in range(1, 4):
            y, h, att = dec(token, h, out, mask)
            outputs[t] = y
            token = trg[t] if t % 2 else y.argmax(1)
        loss = crit(outputs[1:].view(-1, 9), trg[1:].view(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    beams = torch.log_softmax(y, -1).topk(3, dim=-1)
    return losses, r(att.flatten().tolist()), r(beams.values.sum(0).tolist()), lens.tolist()


@kept
def case_transformer_lm():
    class PositionalEncoding(nn.Module):
        def __init__(self, d, max_len=50):
            super().__init__()
            position = torch.arange(max_len).unsqueeze(1)
            div = torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
            pe = torch.zeros(max_len, 1, d)
            pe[:, 0, 0::2] = torch.sin(position * div)
            pe[:, 0, 1::2] = torch.cos(position * div)
            self.register_buffer("pe", pe)

        def forward(self, x: Tensor) -> Tensor:
            return x + self.pe[: x.size(0)]

    class Model(nn.Module):
        def __init__(self, tokens=17, d=16):
            super().__init__()
            self.pos = PositionalEncoding(d)
            layer = nn.TransformerEncoderLayer(d, 4, 32, 0.0)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.embed = nn.Embedding(tokens, d)
            self.d = d
            self.head = nn.Linear(d, tokens, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, src, mask=None):
            x = self.pos(self.embed(src) * math.sqrt(self.d))
            if mask is None:
                mask = nn.Transformer.generate_square_subsequent_mask(len(src))
            return self.head(self.encoder(x, mask, is_causal=True))

    model = fill(Model(), 0.2)
    opt = optim.SGD(model.parameters(), lr=1.0)
    sched = optim.lr_scheduler.StepLR(opt, 1.0, gamma=0.95)
    ids = I(17, 36)
    data = ids[:32].view(4, 8).t().contiguous()
    losses = []
    for _ in range(3):
        out = model(data[:-1])
        loss = F.cross_entropy(out.view(-1, 17), data[1:].reshape(-1))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()
        sched.step()
        losses.append(loss.item())
    full = fill(
        nn.Transformer(16, 2, 1, 1, 32, 0.0, activation="gelu", batch_first=True, norm_first=True),
        0.2,
    )
    src, tgt = N(2, 5, 16), N(2, 4, 16, k=2)
    pad = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    y = full(src, tgt, tgt_mask=full.generate_square_subsequent_mask(4), src_key_padding_mask=pad,
             memory_key_padding_mask=pad)  # fmt: skip
    y.square().mean().backward()
    model.eval()
    with torch.no_grad():
        z = model(data)
    norms = [p.grad.norm() for p in full.parameters()]
    return losses, r(y.flatten()[::9].tolist()), r(norms), r(z.flatten()[::29].tolist())


@kept
def case_word2vec_sparse():
    words = TEXT.split()
    counts = Counter(words)
    vocab = {w: i for i, (w, _) in enumerate(sorted(counts.items(), key=lambda p: (-p[1], p[0])))}
    ids = torch.tensor([vocab[w] for w in words])

    class SkipGram(nn.Module):
        def __init__(self, n, d=6):
            super().__init__()
            self.u = nn.Embedding(n, d, sparse=True)
            self.v = nn.Embedding(n, d, sparse=True)

        def forward(self, pos_u, pos_v, neg_v):
            eu, ev, en = self.u(pos_u), self.v(pos_v), self.v(neg_v)
            score = F.logsigmoid(torch.clamp((eu * ev).sum(1), -10, 10))
            neg = F.logsigmoid(-torch.bmm(en, eu.unsqueeze(2)).squeeze(2).clamp(-10, 10)).sum(1)
            return -(score + neg).mean()

    model = fill(SkipGram(len(vocab)), 0.3)
    opt = optim.SparseAdam(list(model.parameters()), lr=0.05)
    sched = optim.lr_scheduler.CosineAnnealingLR(opt, 4)
    losses = []
    for i in range(3):
        loss = model(ids[i : i + 12], ids[i + 1 : i + 13], I(len(vocab), 12, 3, k=i))
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        losses.append(loss.item())
    g = model.u.weight.grad
    facts = [g.is_sparse, g.layout == torch.sparse_coo, g.coalesce().indices().shape[1]]

    class TextClassifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.EmbeddingBag(20, 6, sparse=True, mode="mean")
            self.fc = nn.Linear(6, 3)
            self.embedding.weight.data.uniform_(-0.5, 0.5)
            self.fc.bias.data.zero_()

        def forward(self, text, offsets):
            return self.fc(self.embedding(text, offsets))

    bag = fill(TextClassifier(), 0.3)
    sgd = optim.SGD(bag.parameters(), lr=5.0)
    for i in range(2):
        out = bag(I(20, 15, k=i), torch.tensor([0, 4, 4, 11]))
        loss = F.cross_entropy(out, torch.tensor([0, 2, 1, 1]))
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        losses.append(loss.item())
    w = model.u.weight.detach()
    near = F.cosine_similarity(w[0:1], w).topk(3).indices.tolist()
    weighted = F.embedding_bag(I(12, 3, 4), w, mode="sum", per_sample_weights=N(3, 4))
    big = F.embedding_bag(I(12, 3, 4), w, mode="max")
    return losses, [float(f) for f in facts], near, r([w.norm(), weighted.sum(), big.sum()])


@kept
def case_time_series_cells():
    class Sequence(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm1, self.lstm2 = nn.LSTMCell(1, 9), nn.LSTMCell(9, 9)
            self.linear = nn.Linear(9, 1)

        def forward(self, input, future=0):
            outputs = []
            h = [torch.zeros(input.size(0), 9, dtype=torch.double) for _ in range(4)]
            for step in input.split(1, dim=1):
                h[0], h[1] = self.lstm1(step, (h[0], h[1]))
                h[2], h[3] = self.lstm2(h[0], (h[2], h[3]))
                outputs += [self.linear(h[2])]
            for _ in range(future):
                h[0], h[1] = self.lstm1(outputs[-1], (h[0], h[1]))
                h[2], h[3] = self.lstm2(h[0], (h[2], h[3]))
                outputs += [self.linear(h[2])]
            return torch.cat(outputs, dim=1)

    t = torch.arange(12, dtype=torch.float64)
    data = torch.sin((t + torch.tensor([[0.0], [3.0], [5.0]])) / 4)
    model = fill(Sequence().double(), 0.3)
    opt = optim.LBFGS(model.parameters(), lr=0.8, max_iter=3, line_search_fn="strong_wolfe")
    losses = []

    def closure():
        opt.zero_grad()
        loss = F.mse_loss(model(data[1:, :-1]), data[1:, 1:])
        loss.backward()
        losses.append(loss.item())
        return loss

    for _ in range(2):
        opt.step(closure)
    with torch.no_grad():
        pred = model(data[:1, :-1], future=5)
    return losses, r(pred.flatten().tolist())


@kept
def case_ctc_speech():
    class Acoustic(nn.Module):
        def __init__(self, mels=8, classes=6):
            super().__init__()
            self.conv = nn.Sequential(
                nn.Conv1d(mels, 12, 3, stride=2, padding=1),
                nn.BatchNorm1d(12),
                nn.Hardtanh(0, 20, inplace=True),
            )
            self.rnn = nn.GRU(12, 10, bidirectional=True, batch_first=True)
            self.ln = nn.LayerNorm(20)
            self.fc = nn.Linear(20, classes)

        def forward(self, x):
            y, _ = self.rnn(self.conv(x).transpose(1, 2))
            return F.log_softmax(self.fc(F.gelu(self.ln(y))), dim=-1)

    wave = N(2, 640)
    spec = torch.stft(wave, 64, 16, window=torch.hann_window(64), return_complex=True)
    power = spec.abs().pow(2)
    bank = N(33, 8, k=3).abs()
    mel = torch.matmul(power.transpose(1, 2), bank).transpose(1, 2).clamp(min=1e-5).log()
    mel = (mel - mel.mean(-1, keepdim=True)) / mel.std(-1, keepdim=True)
    back = torch.istft(spec, 64, 16, window=torch.hann_window(64), length=640)
    model = fill(Acoustic(), 0.3)
    ctc = nn.CTCLoss(blank=0, zero_infinity=True)
    opt = optim.AdamW(model.parameters(), lr=5e-3)
    targets = torch.tensor([[1, 2, 2, 3], [4, 5, 0, 0]])
    losses = []
    for _ in range(3):
        lp = model(mel).transpose(0, 1)
        loss = ctc(
            lp, targets, torch.full((2,), lp.size(0), dtype=torch.long), torch.tensor([4, 2])
        )
        flat = F.ctc_loss(
            lp, torch.tensor([1, 2, 2, 3, 4, 5]), (lp.size(0),) * 2, (4, 2), reduction="none"
        )
        opt.zero_grad()
        (loss + flat.mean()).backward()
        opt.step()
        losses += [loss.item(), flat.sum().item()]
    best = lp.argmax(-1).t()
    text = [[int(k) for k in torch.unique_consecutive(row) if k != 0] for row in best]
    shifted = torch.roll(mel, 1, -1)
    masked = mel.clone()
    masked[:, 2:4, :] = 0
    masked[:, :, 5:9] = mel.mean()
    return (
        losses,
        str(text),
        r([(back - wave).abs().max() < 1e-5, mel.sum(), shifted.norm(), masked.norm()]),
    )
