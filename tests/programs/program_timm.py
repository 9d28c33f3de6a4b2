"""timm: ResNet-18, ViT-tiny and ConvNeXt: forward, backward, one training step."""

import timm
import torch
from harness import fill, integers, numbers


def step(record, net, size=32, classes=7):
    images, labels = numbers(2, 3, size, size), integers(classes, 2)
    net.eval()
    with torch.no_grad():
        record.put("eval", net(images))
    net.train()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4)
    out = net(images)
    loss = torch.nn.functional.cross_entropy(out, labels)
    loss.backward()
    record.put("train", out)
    record.put("loss", loss)
    record.gradients(net)
    optimizer.step()
    net.eval()
    with torch.no_grad():
        record.put("after a step", net(images))


def case_resnet18(record):
    step(record, fill(timm.create_model("resnet18", num_classes=7)), 64)


def case_vit_tiny(record):
    net = timm.create_model("vit_tiny_patch16_224", img_size=32, num_classes=7, depth=3)
    step(record, fill(net))


def case_convnext(record):
    net = timm.create_model("convnext_atto", num_classes=7, depths=(1, 1, 2, 1),
                            dims=(8, 16, 24, 32))  # fmt: skip
    step(record, fill(net), 64)


def case_mobilenet(record):
    net = timm.create_model("mobilenetv3_small_050", num_classes=7)
    step(record, fill(net), 64)


def case_features(record):
    net = fill(timm.create_model("resnet18", features_only=True)).eval()
    with torch.no_grad():
        for i, level in enumerate(net(numbers(1, 3, 64, 64))):
            record.put(f"level {i}", level)


def case_swin(record):
    net = timm.create_model(
        "swin_tiny_patch4_window7_224", img_size=32, num_classes=7, window_size=4, embed_dim=24,
        depths=(1, 1), num_heads=(2, 2), drop_path_rate=0.0,
    )  # fmt: skip
    step(record, fill(net))
