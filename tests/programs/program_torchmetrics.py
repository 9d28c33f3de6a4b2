"""torchmetrics: a slice, over several batches."""

import torch
import torchmetrics.functional as F
from harness import integers, numbers
from torchmetrics import (
    AUROC,
    Accuracy,
    AveragePrecision,
    CohenKappa,
    ConfusionMatrix,
    F1Score,
    MatthewsCorrCoef,
    MeanMetric,
    MeanSquaredError,
    MetricCollection,
    PearsonCorrCoef,
    Precision,
    R2Score,
    Recall,
    SpearmanCorrCoef,
)
from torchmetrics.image import PeakSignalNoiseRatio, StructuralSimilarityIndexMeasure
from torchmetrics.text import CharErrorRate, Perplexity, WordErrorRate


def batches(metric, make):
    for step in range(3):
        metric.update(*make(step))
    return metric.compute()


def classes(step):
    return numbers(20, 4, seed=step).softmax(-1), integers(4, 20, seed=step)


def case_classification(record):
    for kind in (Accuracy, Precision, Recall, F1Score, AUROC, AveragePrecision, CohenKappa,
                 ConfusionMatrix, MatthewsCorrCoef):  # fmt: skip
        record.put(kind.__name__, batches(kind(task="multiclass", num_classes=4), classes))
    record.put("binary", batches(AUROC(task="binary"), lambda s: (
        numbers(30, seed=s).sigmoid(), integers(2, 30, seed=s))))  # fmt: skip


def case_regression(record):
    def pair(step):
        x = numbers(25, seed=step)
        return x, x + 0.5 * numbers(25, seed=step + 9)

    for kind in (MeanSquaredError, PearsonCorrCoef, R2Score, SpearmanCorrCoef):
        record.put(kind.__name__, batches(kind(), pair))


def case_images(record):
    def pair(step):
        x = numbers(2, 3, 24, 24, seed=step).sigmoid()
        return x, (x + 0.1 * numbers(2, 3, 24, 24, seed=step + 5)).clamp(0, 1)

    record.put("ssim", batches(StructuralSimilarityIndexMeasure(data_range=1.0), pair))
    record.put("psnr", batches(PeakSignalNoiseRatio(data_range=1.0), pair))
    record.put("tv", F.image.total_variation(pair(0)[0]))


def case_text(record):
    metric = Perplexity()
    record.put("perplexity", batches(metric, lambda s: (
        numbers(2, 7, 11, seed=s).softmax(-1), integers(11, 2, 7, seed=s))))  # fmt: skip
    for kind in (CharErrorRate, WordErrorRate):
        record.put(kind.__name__, kind()(["this is one", "two words"], ["this is won", "to word"]))


def case_collection(record):
    metrics = MetricCollection({
        "accuracy": Accuracy(task="multiclass", num_classes=4),
        "f1": F1Score(task="multiclass", num_classes=4, average="macro"),
    })  # fmt: skip
    for step in range(2):
        metrics.update(*classes(step))
    for name, value in metrics.compute().items():
        record.put(name, value)
    mean = MeanMetric()
    mean.update(torch.tensor([1.0, 2.0]), weight=torch.tensor([1.0, 3.0]))
    record.put("mean", mean.compute())
    state = metrics.state_dict()
    record.put("states", len(state))
