"""vit-pytorch: ten architectures, forward and backward."""

import importlib

from harness import fill, numbers

COMMON = {"image_size": 32, "num_classes": 5, "dim": 32, "depth": 2, "heads": 2, "mlp_dim": 48}


def run(record, module, name, size=32, **settings):
    net = getattr(importlib.import_module(f"vit_pytorch.{module}"), name)(**settings)
    net = fill(net)
    net.eval()
    image = numbers(2, 3, size, size).requires_grad_()
    out = net(image)
    record.put("out", out)
    (out * numbers(*out.shape, seed=1)).sum().backward()
    record.put("grad image", image.grad)
    record.gradients(net)


def case_vit(record):
    run(record, "vit", "ViT", patch_size=8, **COMMON)


def case_simple_vit(record):
    run(record, "simple_vit", "SimpleViT", patch_size=8, **COMMON)


def case_deepvit(record):
    run(record, "deepvit", "DeepViT", patch_size=8, **COMMON)


def case_cait(record):
    settings = {k: v for k, v in COMMON.items()}
    run(record, "cait", "CaiT", patch_size=8, cls_depth=1, **settings)


def case_cct(record):
    run(record, "cct", "CCT", img_size=(32, 32), embedding_dim=32, n_conv_layers=1, kernel_size=7,
        stride=2, padding=3, pooling_kernel_size=3, pooling_stride=2, pooling_padding=1,
        num_layers=2, num_heads=2, mlp_ratio=2, num_classes=5,
        positional_embedding="learnable")  # fmt: skip


def case_cross_vit(record):
    run(record, "cross_vit", "CrossViT", image_size=32, num_classes=5, depth=1, sm_dim=24,
        sm_patch_size=8, sm_enc_depth=1, sm_enc_heads=2, sm_enc_mlp_dim=32, lg_dim=32,
        lg_patch_size=16, lg_enc_depth=1, lg_enc_heads=2, lg_enc_mlp_dim=32, cross_attn_depth=1,
        cross_attn_heads=2)  # fmt: skip


def case_pit(record):
    run(record, "pit", "PiT", image_size=32, patch_size=8, dim=32, num_classes=5, depth=(1, 1),
        heads=2, mlp_dim=48)  # fmt: skip


def case_levit(record):
    run(record, "levit", "LeViT", size=64, image_size=64, num_classes=5, stages=2, dim=(16, 24),
        depth=1, heads=(2, 2), mlp_mult=2)  # fmt: skip


def case_cvt(record):
    run(record, "cvt", "CvT", num_classes=5, s1_emb_dim=16, s1_depth=1, s2_emb_dim=24, s2_depth=1,
        s2_heads=2, s3_emb_dim=32, s3_depth=1, s3_heads=2)  # fmt: skip


def case_regionvit(record):
    run(record, "regionvit", "RegionViT", size=64, dim=(8, 16, 16, 16), depth=(1, 1, 1, 1),
        window_size=2, num_classes=5)  # fmt: skip


def case_mobile_vit(record):
    run(record, "mobile_vit", "MobileViT", size=64, image_size=(64, 64), dims=[16, 24, 32],
        channels=[8, 8, 12, 12, 16, 16, 20, 20, 24, 24, 32], num_classes=5)  # fmt: skip


def case_simple_flash(record):
    run(record, "simple_vit_with_qk_norm", "SimpleViT", patch_size=8, **COMMON)
