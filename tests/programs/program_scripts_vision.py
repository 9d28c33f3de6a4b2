"""Scripts about images as people write them: classifiers, segmentation, detection, restoration."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from pieces import I, N, fill, kept, r
from torch import optim
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def train(model, opt, batches, loss_of):
    model.train()
    history = []
    for batch in batches:
        opt.zero_grad()
        loss = loss_of(model, *batch)
        loss.backward()
        opt.step()
        history.append(loss.item())
    return history


def summary(model):
    return [float(p.detach().norm()) for p in model.parameters()]


@kept
def case_mnist_cnn():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(1, 8, 3, 1)
            self.conv2 = nn.Conv2d(8, 16, 3, 1)
            self.dropout1 = nn.Dropout(0.0)
            self.fc1 = nn.Linear(16 * 12 * 12, 32)
            self.fc2 = nn.Linear(32, 10)

        def forward(self, x):
            x = F.relu(self.conv1(x))
            x = F.relu(self.conv2(x))
            x = F.max_pool2d(x, 2)
            x = self.dropout1(x)
            x = torch.flatten(x, 1)
            return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)

    torch.manual_seed(1)
    model = fill(Net().to(device))
    loader = DataLoader(TensorDataset(N(24, 1, 28, 28), I(10, 24)), batch_size=8, shuffle=False)
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    losses = []
    for _ in range(2):
        model.train()
        for data, target in loader:
            data, target = data.to(device, non_blocking=True), target.to(device)
            optimizer.zero_grad(set_to_none=True)
            loss = F.nll_loss(model(data), target)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
    model.eval()
    test_loss, correct = 0, 0
    with torch.no_grad():
        for data, target in loader:
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()
            pred = output.argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
    return losses, [test_loss / len(loader.dataset), scheduler.get_last_lr()[0]], summary(model)


@kept
def case_residual_channels_last():
    class Block(nn.Module):
        def __init__(self, cin, cout, stride=1):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(cin, cout, 3, stride, 1, bias=False),
                nn.BatchNorm2d(cout),
                nn.ReLU(inplace=True),
                nn.Conv2d(cout, cout, 3, 1, 1, bias=False),
                nn.BatchNorm2d(cout),
            )
            self.short = nn.Identity()
            if stride != 1 or cin != cout:
                self.short = nn.Sequential(
                    nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout)
                )

        def forward(self, x):
            return F.relu(self.body(x) + self.short(x), inplace=True)

    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), Block(8, 8), Block(8, 16, 2), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(16, 5),
    )  # fmt: skip
    for m in model.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
            nn.init.constant_(m.weight, 1)
            nn.init.constant_(m.bias, 0)
    model = fill(model, 0.3).to(memory_format=torch.channels_last)
    x = N(4, 3, 16, 16).to(memory_format=torch.channels_last)
    no_decay = [p for n, p in model.named_parameters() if p.ndim <= 1 or n.endswith("bias")]
    decay = [p for n, p in model.named_parameters() if p.ndim > 1 and not n.endswith("bias")]
    opt = optim.SGD(
        [{"params": decay, "weight_decay": 5e-2}, {"params": no_decay, "lr": 0.05}],
        lr=0.1, momentum=0.9, nesterov=True,
    )  # fmt: skip
    crit = nn.CrossEntropyLoss(label_smoothing=0.1)
    sched = optim.lr_scheduler.OneCycleLR(opt, max_lr=[0.1, 0.05], total_steps=5)
    losses = []
    for k in range(4):
        loss = crit(model(x), I(5, 4, k=k))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        opt.step()
        sched.step()
        losses.append(loss.item())
    stats = [float(b.float().sum()) for b in model.buffers()]
    with torch.inference_mode():
        y = model.eval()(x)
    return losses, stats, r(y.flatten().tolist())


@kept
def case_unet_segmentation():
    def double(cin, cout):
        return nn.Sequential(
            nn.Conv2d(cin, cout, 3, padding="same"), nn.BatchNorm2d(cout), nn.ReLU(True),
            nn.Conv2d(cout, cout, 3, padding="same", padding_mode="reflect"), nn.GroupNorm(2, cout),
            nn.LeakyReLU(0.1, True),
        )  # fmt: skip

    class UNet(nn.Module):
        def __init__(self, classes=3, widths=(4, 8)):
            super().__init__()
            self.downs, self.ups = nn.ModuleList(), nn.ModuleList()
            cin = 1
            for w in widths:
                self.downs.append(double(cin, w))
                cin = w
            self.mid = double(cin, 2 * cin)
            for w in reversed(widths):
                self.ups.append(nn.ConvTranspose2d(2 * w, w, 2, 2))
                self.ups.append(double(2 * w, w))
            self.out = nn.Conv2d(widths[0], classes, 1)
            self.pool = nn.MaxPool2d(2)

        def forward(self, x):
            skips = []
            for down in self.downs:
                x = down(x)
                skips.append(x)
                x = self.pool(x)
            x = self.mid(x)
            for i in range(0, len(self.ups), 2):
                x = self.ups[i](x)
                skip = skips.pop()
                if x.shape[2:] != skip.shape[2:]:
                    dy, dx = skip.size(2) - x.size(2), skip.size(3) - x.size(3)
                    x = F.pad(x, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
                x = self.ups[i + 1](torch.cat((skip, x), dim=1))
            return self.out(x)

    def dice(logits, target, smooth=1.0):
        probs = logits.softmax(1)
        hot = F.one_hot(target, 3).permute(0, 3, 1, 2).float()
        inter = (probs * hot).sum((0, 2, 3))
        return (
            1 - ((2 * inter + smooth) / (probs.sum((0, 2, 3)) + hot.sum((0, 2, 3)) + smooth)).mean()
        )

    model = fill(UNet(), 0.3)
    opt = optim.RMSprop(model.parameters(), lr=1e-3, weight_decay=1e-8, momentum=0.9)
    target = I(3, 2, 18, 20)
    target[:, :2] = 255

    def loss_of(m, x):
        y = m(x)
        t = target.clone()
        t[t == 255] = 0
        return F.cross_entropy(y, target, ignore_index=255) + dice(y, t)

    losses = train(model, opt, [(N(2, 1, 18, 20, k=k),) for k in range(3)], loss_of)
    model.eval()
    with torch.no_grad():
        y = model(N(1, 1, 18, 20))
        mask = y.argmax(1)
        conf = torch.bincount(mask.flatten() * 3 + target[:1].clamp(max=2).flatten(), minlength=9)
        up = F.interpolate(y, size=(9, 31), mode="bilinear", align_corners=False)
        near = F.interpolate(y, scale_factor=2, mode="nearest")
        cub = F.interpolate(y, scale_factor=0.5, mode="bicubic", antialias=True)
    return losses, r(up.flatten()[::37].tolist()), r([near.sum(), cub.norm(), conf.sum()])


@kept
def case_super_resolution():
    class Net(nn.Module):
        def __init__(self, up):
            super().__init__()
            self.c1 = nn.Conv2d(1, 8, (5, 5), (1, 1), (2, 2))
            self.c2 = nn.Conv2d(8, 8, 3, 1, 1)
            self.c3 = nn.Conv2d(8, up**2, 3, 1, 1)
            self.shuffle = nn.PixelShuffle(up)
            self.act = nn.PReLU(8)
            for c, gain in ((self.c1, nn.init.calculate_gain("relu")), (self.c3, 1)):
                nn.init.orthogonal_(c.weight, gain)

        def forward(self, x):
            return self.shuffle(self.c3(F.hardswish(self.c2(self.act(self.c1(x))))))

    model = fill(Net(3), 0.3)
    hr = N(2, 1, 24, 24)
    lr_ = F.avg_pool2d(hr, 3)
    opt = optim.Adam(model.parameters(), lr=1e-3, betas=(0.5, 0.999), amsgrad=True)
    losses = train(model, opt, [(lr_, hr)] * 3, lambda m, a, b: F.l1_loss(m(a), b))
    mse = F.mse_loss(model(lr_), hr)
    psnr = 10 * math.log10(1 / mse.item())
    down = F.pixel_unshuffle(hr, 3)
    tv = (hr[..., 1:, :] - hr[..., :-1, :]).abs().mean() + hr.diff(dim=-1).abs().mean()
    grid = F.affine_grid(
        torch.tensor([[[0.9, 0.1, 0.0], [0.0, 1.1, 0.2]]] * 2), hr.shape, align_corners=False
    )
    warped = F.grid_sample(hr, grid, mode="bilinear", padding_mode="border", align_corners=False)
    patches = F.unfold(hr, 4, stride=4)
    back = F.fold(patches, (24, 24), 4, stride=4)
    return losses, [psnr], r([down.sum(), tv, warped.norm(), (back - hr).abs().max()])


@kept
def case_style_lbfgs():
    class ContentLoss(nn.Module):
        def __init__(self, target):
            super().__init__()
            self.target = target.detach()

        def forward(self, x):
            self.loss = F.mse_loss(x, self.target)
            return x

    def gram(x):
        a, b, c, d = x.size()
        f = x.view(a * b, c * d)
        return torch.mm(f, f.t()).div(a * b * c * d)

    class StyleLoss(ContentLoss):
        def __init__(self, target):
            super().__init__(gram(target))

        def forward(self, x):
            self.loss = F.mse_loss(gram(x), self.target)
            return x

    base = fill(nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(inplace=True),
                              nn.Conv2d(6, 6, 3, padding=1), nn.AvgPool2d(2)), 0.3).eval()  # fmt: skip
    base.requires_grad_(False)
    model, contents, styles = nn.Sequential(), [], []
    content, style = N(1, 3, 12, 12), N(1, 3, 12, 12, k=4)
    for i, layer in enumerate(base.children()):
        model.add_module(f"l{i}", nn.ReLU(inplace=False) if isinstance(layer, nn.ReLU) else layer)
        if isinstance(layer, nn.Conv2d):
            c, s = ContentLoss(model(content)), StyleLoss(model(style))
            model.add_module(f"c{i}", c)
            model.add_module(f"s{i}", s)
            contents.append(c)
            styles.append(s)
    img = content.clone().requires_grad_(True)
    opt = optim.LBFGS([img], lr=0.5, max_iter=4, history_size=5)
    runs, seen = [0], []
    while runs[0] <= 6:

        def closure():
            with torch.no_grad():
                img.clamp_(-2, 2)
            opt.zero_grad()
            model(img)
            loss = 1000 * sum(s.loss for s in styles) + sum(c.loss for c in contents)
            loss.backward()
            runs[0] += 1
            seen.append(loss.item())
            return loss

        opt.step(closure)
    return seen[:6], [float(runs[0] > 6)], r([img.detach().clamp(0, 1).mean()])


@kept
def case_detection_loss():
    def iou(a, b):
        lt = torch.max(a[:, None, :2], b[None, :, :2])
        rb = torch.min(a[:, None, 2:], b[None, :, 2:])
        inter = (rb - lt).clamp(min=0).prod(2)
        area = lambda t: (t[:, 2] - t[:, 0]) * (t[:, 3] - t[:, 1])
        return inter / (area(a)[:, None] + area(b)[None] - inter + 1e-7)

    def ciou(p, t, eps=1e-7):
        x1, y1, x2, y2 = p.chunk(4, -1)
        a1, b1, a2, b2 = t.unbind(-1)
        w, h = (x2 - x1).squeeze(-1), (y2 - y1).squeeze(-1) + eps
        tw, th = a2 - a1, b2 - b1 + eps
        o = torch.diagonal(iou(p, t))
        cw = torch.maximum(x2[:, 0], a2) - torch.minimum(x1[:, 0], a1)
        ch = torch.maximum(y2[:, 0], b2) - torch.minimum(y1[:, 0], b1)
        rho = ((a1 + a2 - x1[:, 0] - x2[:, 0]) ** 2 + (b1 + b2 - y1[:, 0] - y2[:, 0]) ** 2) / 4
        v = (4 / math.pi**2) * torch.pow(torch.atan(tw / th) - torch.atan(w / h), 2)
        with torch.no_grad():
            alpha = v / (v - o + (1 + eps))
        return o - (rho / (cw**2 + ch**2 + eps) + v * alpha)

    class Head(nn.Module):
        def __init__(self, classes=3):
            super().__init__()
            self.stem = nn.Sequential(
                nn.Conv2d(3, 8, 3, 4, 1), nn.SiLU(), nn.Conv2d(8, 5 + classes, 1)
            )
            self.register_buffer("anchor", torch.tensor([10.0, 13.0]))
            self.grid = {}

        def make_grid(self, ny, nx):
            if (ny, nx) not in self.grid:
                yv, xv = torch.meshgrid([torch.arange(ny), torch.arange(nx)], indexing="ij")
                self.grid[ny, nx] = torch.stack((xv, yv), 2).view(1, ny, nx, 2).float()
            return self.grid[ny, nx]

        def forward(self, x):
            y = self.stem(x).permute(0, 2, 3, 1).contiguous()
            s = y.sigmoid()
            xy = (s[..., 0:2] * 2.0 - 0.5 + self.make_grid(*y.shape[1:3])) * 4
            wh = (s[..., 2:4] * 2) ** 2 * self.anchor
            box = torch.cat((xy - wh / 2, xy + wh / 2, y[..., 4:]), -1)
            return box.view(x.shape[0], -1, box.shape[-1])

    def nms(boxes, scores, threshold):
        order, keep = scores.argsort(descending=True), []
        while order.numel() > 0:
            i = order[0]
            keep.append(i.item())
            if order.numel() == 1:
                break
            over = iou(boxes[i].unsqueeze(0), boxes[order[1:]])[0]
            order = order[1:][over <= threshold]
        return torch.as_tensor(keep)

    model = fill(Head(), 0.3)
    opt = optim.AdamW(model.parameters(), 1e-3)
    targets = torch.tensor(
        [[0, 1, 2.0, 3.0, 14.0, 15.0], [1, 0, 5.0, 5.0, 20.0, 21.0], [1, 2, 1, 1, 9, 9]]
    )
    pos = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([2.0]))
    losses = []
    for k in range(3):
        out = model(N(2, 3, 32, 32, k=k))
        lbox = lobj = lcls = torch.zeros(1)
        obj = torch.zeros_like(out[..., 4])
        for b in range(2):
            t = targets[targets[:, 0] == b]
            best = iou(out[b, :, :4], t[:, 2:]).argmax(0)
            score = ciou(out[b, best, :4], t[:, 2:])
            lbox = lbox + (1.0 - score).mean()
            obj[b, best] = score.detach().clamp(0).type(obj.dtype)
            hot = torch.full_like(out[b, best, 5:], 0.05)
            hot[range(len(t)), t[:, 1].long()] = 0.95
            lcls = lcls + pos(out[b, best, 5:], hot)
        lobj = lobj + F.binary_cross_entropy_with_logits(out[..., 4], obj)
        loss = 0.05 * lbox + lobj + 0.5 * lcls
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    with torch.no_grad():
        found = model(N(1, 3, 32, 32))[0]
        keep = nms(found[:, :4], found[:, 4].sigmoid(), 0.3)
        conf, j = found[:, 5:].max(1, keepdim=True)
        top = torch.cat((found[:, :4], conf, j.float()), 1)[conf.view(-1) > conf.median()]
    return losses, keep[:8].tolist(), r([top.shape[0], top.sum()])
