"""torchvision, kornia, monai, segmentation-models-pytorch, pytorch-metric-learning, captum, opacus."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

device = torch.device("cpu")
from pieces import I, N, fill, kept, r

RTOL = {"kornia": 0.001, "monai": 0.001, "captum": 0.001, "metric_seg": 0.001, "vision": 0.001}


def gn(m):
    return sum((p.grad.double().norm().item() for p in m.parameters() if p.grad is not None))


@kept
def case_captum():
    from captum.attr import (
        DeepLift,
        FeatureAblation,
        GuidedBackprop,
        InputXGradient,
        IntegratedGradients,
        LayerConductance,
        LayerGradCam,
        Occlusion,
        Saliency,
    )

    n = fill(
        nn.Sequential(
            nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(27, 3)
        ),
        0.3,
    )
    n.eval()
    x = N(2, 1, 8, 8)
    out = []
    for A in [
        IntegratedGradients(n),
        Saliency(n),
        DeepLift(n),
        InputXGradient(n),
        GuidedBackprop(n),
        FeatureAblation(n),
    ]:
        out.append(A.attribute(x.clone().requires_grad_(), target=1).abs().sum().item())
    out.append(
        Occlusion(n)
        .attribute(x, sliding_window_shapes=(1, 4, 4), strides=(1, 4, 4), target=0)
        .abs()
        .sum()
        .item()
    )
    out.append(LayerGradCam(n, n[0]).attribute(x, target=1).sum().item())
    out.append(LayerConductance(n, n[0]).attribute(x, target=1, n_steps=5).sum().item())
    return r(out, 3)


@kept
def case_kornia():
    import kornia as K
    import kornia.augmentation as A

    x = N(2, 3, 12, 12).sigmoid()
    out = [
        K.filters.gaussian_blur2d(x, (3, 3), (1.0, 1.0)).sum(),
        K.filters.sobel(x).sum(),
        K.color.rgb_to_hsv(x).sum(),
        K.color.rgb_to_lab(x).sum(),
        K.color.rgb_to_grayscale(x).sum(),
        K.geometry.rotate(x, torch.tensor([30.0, 10.0])).sum(),
        K.geometry.resize(x, (6, 6)).sum(),
        K.losses.ssim_loss(x, x * 0.9, 5),
        K.metrics.psnr(x, x * 0.9, 1.0),
        K.filters.median_blur(x, (3, 3)).sum(),
        K.morphology.dilation(x, torch.ones(3, 3)).sum(),
        K.enhance.equalize(x).sum() if False else K.enhance.adjust_gamma(x, 2.0).sum(),
        K.filters.canny(x)[1].sum(),
        K.geometry.homography_warp(x, torch.eye(3)[None].repeat(2, 1, 1), (12, 12)).sum(),
        K.geometry.conversions.axis_angle_to_rotation_matrix(N(2, 3)).sum(),
        K.feature.harris_response(x, 0.04).sum(),
        K.losses.focal_loss(N(2, 3, 4, 4), I(3, 2, 4, 4), 0.25, reduction="mean"),
        K.filters.unsharp_mask(x, (3, 3), (1.0, 1.0)).sum(),
        K.geometry.warp_perspective(x, torch.eye(3)[None].repeat(2, 1, 1), (8, 8)).sum(),
    ]
    aug = A.AugmentationSequential(
        A.RandomHorizontalFlip(p=1.0),
        A.ColorJitter(0.0, 0.0, 0.0, 0.0, p=1.0),
        A.Normalize(torch.tensor([0.5] * 3), torch.tensor([0.2] * 3)),
        data_keys=["input"],
    )
    out.append(aug(x).sum())
    return r(out)


@kept
def case_monai():
    from monai.inferers import sliding_window_inference
    from monai.losses import DiceCELoss, FocalLoss, TverskyLoss
    from monai.metrics import DiceMetric
    from monai.networks.nets import SegResNet, UNet

    u = fill(
        UNet(
            spatial_dims=2,
            in_channels=1,
            out_channels=2,
            channels=(4, 8, 16),
            strides=(2, 2),
            num_res_units=1,
        )
    )
    x = N(2, 1, 16, 16)
    y = u(x)
    l = DiceCELoss(to_onehot_y=True, softmax=True)(y, I(2, 2, 1, 16, 16))
    l.backward()
    out = [y.sum(), l, gn(u)]
    u.eval()
    with torch.no_grad():
        out.append(sliding_window_inference(N(1, 1, 24, 24), (16, 16), 2, u).sum())
    d = DiceMetric()
    d(
        F.one_hot(y.argmax(1), 2).permute(0, 3, 1, 2),
        F.one_hot(I(2, 2, 16, 16), 2).permute(0, 3, 1, 2),
    )
    out.append(d.aggregate())
    s = fill(
        SegResNet(
            spatial_dims=3,
            init_filters=8,
            in_channels=1,
            out_channels=2,
            blocks_down=(1, 1),
            blocks_up=(1,),
        )
    )
    out.append(s(N(1, 1, 8, 8, 8)).sum())
    out += [
        FocalLoss()(y.detach(), F.one_hot(I(2, 2, 16, 16), 2).permute(0, 3, 1, 2).float()),
        TverskyLoss(sigmoid=True)(
            y.detach(), F.one_hot(I(2, 2, 16, 16), 2).permute(0, 3, 1, 2).float()
        ),
    ]
    from monai.transforms import Compose, EnsureType, Resize, ScaleIntensity

    t = Compose([EnsureType(), ScaleIntensity(), Resize((8, 8))])
    out.append(t(np.arange(144, dtype="f4").reshape(1, 12, 12)).sum())
    return r(out)


@kept
def case_metric_seg():
    import segmentation_models_pytorch as smp
    from pytorch_metric_learning import losses, miners

    e = F.normalize(N(8, 6)).requires_grad_()
    y = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])
    out = []
    for L in [
        losses.TripletMarginLoss(),
        losses.ContrastiveLoss(),
        losses.NTXentLoss(),
        losses.MultiSimilarityLoss(),
        losses.CircleLoss(),
        losses.SupConLoss(),
        losses.LiftedStructureLoss(),
        losses.NPairsLoss(),
        losses.FastAPLoss(),
    ]:
        l = L(e, y)
        l.backward()
        out += [l.item()]
    a = losses.ArcFaceLoss(4, 6)
    fill(a)
    l = a(e, y)
    l.backward()
    p = losses.ProxyAnchorLoss(4, 6)
    fill(p)
    out += [l.item(), p(e, y).item(), e.grad.norm().item()]
    t = miners.MultiSimilarityMiner()(e, y)
    out.append(len(t[0]))
    out.append(len(miners.TripletMarginMiner()(e, y)[0]))
    u = fill(
        smp.Unet(
            "resnet18",
            encoder_weights=None,
            classes=2,
            decoder_channels=(16, 8, 8, 4, 4),
            encoder_depth=5,
        )
    )
    u.train()
    z = u(N(2, 3, 32, 32))
    l = smp.losses.DiceLoss("multiclass")(z, I(2, 2, 32, 32))
    l.backward()
    out += [z.sum(), l.item()]
    tp, fp, fn, tn = smp.metrics.get_stats(
        z.argmax(1), I(2, 2, 32, 32), mode="multiclass", num_classes=2
    )
    out.append(smp.metrics.iou_score(tp, fp, fn, tn, reduction="micro"))
    f = fill(smp.FPN("mobilenet_v2", encoder_weights=None, classes=1))
    f.eval()
    out.append(f(N(1, 3, 32, 32)).mean())
    return r(out, 3)


@kept
def case_opacus():
    from opacus import GradSampleModule, PrivacyEngine

    m = fill(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)))
    g = GradSampleModule(m)
    F.cross_entropy(g(N(5, 6)), I(2, 5)).backward()
    out = [p.grad_sample.norm().item() for p in g.parameters()]
    m = fill(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)))
    o = torch.optim.SGD(m.parameters(), lr=0.1)
    dl = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(N(20, 6), I(2, 20)), batch_size=5
    )
    pe = PrivacyEngine()
    m, o, dl = pe.make_private(
        module=m, optimizer=o, data_loader=dl, noise_multiplier=1.0, max_grad_norm=1.0
    )
    for x, y in dl:
        o.zero_grad()
        F.cross_entropy(m(x), y).backward()
        o.step()
    return (r(out), pe.get_epsilon(1e-05) > 0)


@kept
def case_vision():
    import torchvision as tv
    import torchvision.transforms as T1
    import torchvision.transforms.v2 as T
    from PIL import Image

    out = []
    for n in [
        "resnet18",
        "mobilenet_v2",
        "vgg11",
        "densenet121",
        "squeezenet1_0",
        "shufflenet_v2_x0_5",
        "efficientnet_b0",
    ]:
        m = fill(getattr(tv.models, n)(num_classes=3), 0.05)
        m.eval()
    out.append(m(N(1, 3, 32, 32)).sum())
    im = Image.fromarray((np.arange(768) % 255).astype("u1").reshape(16, 16, 3))
    t = T1.Compose(
        [T1.Resize(12), T1.CenterCrop(8), T1.ToTensor(), T1.Normalize([0.5] * 3, [0.2] * 3)]
    )(im)
    out.append(t.sum())
    out.append(
        T.Compose(
            [T.ToImage(), T.ToDtype(torch.float32, scale=True), T.Resize((8, 8), antialias=True)]
        )(im).sum()
    )
    g = tv.utils.make_grid(N(4, 3, 4, 4))
    out.append(g.sum())
    out.append(tv.ops.box_iou(torch.tensor([[0.0, 0, 2, 2]]), torch.tensor([[1.0, 1, 3, 3]])).sum())
    out.append(tv.ops.sigmoid_focal_loss(N(4), (N(4) > 0).float(), reduction="mean"))
    v = fill(
        tv.models.vit_b_16(num_classes=2, image_size=32)
        if False
        else tv.models.VisionTransformer(32, 16, 1, 2, 16, 32, num_classes=3)
    )
    out.append(v(N(1, 3, 32, 32)).sum())
    out.append(T.functional.gaussian_blur(N(3, 8, 8), 3).sum())
    out.append(T.functional.rotate(N(3, 8, 8), 30.0).sum())
    out.append(T.functional.adjust_hue(N(3, 8, 8).sigmoid(), 0.1).sum())
    return r(out, 3)
