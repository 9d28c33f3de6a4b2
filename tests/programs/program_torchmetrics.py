"""torchmetrics: a slice, over several batches."""

import doctest
import importlib
import pkgutil

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

# Examples that need a download, or a package that is not here.
WITHOUT = frozenset(
    """bert_score infolm rouge_score cluster_accuracy mean_average_precision
    _get_tv_model_features""".split()
)


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


def own_examples():
    """The examples in the package's docstrings, with their printed results: those that draw no
    random numbers."""
    for info in pkgutil.walk_packages(F.__path__, "torchmetrics.functional."):
        if not info.ispkg and "deprecated" not in info.name:
            try:
                module = importlib.import_module(info.name)
            except ImportError:  # it needs a package that is not here
                continue
            for test in doctest.DocTestFinder(exclude_empty=True).find(module):
                if test.examples and "rand" not in (test.docstring or ""):
                    yield test


def case_own_examples(record):
    """All but those that fail on PyTorch too (`WITHOUT`)."""
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    ran = 0
    for test in own_examples():
        if test.name.rpartition(".")[2] not in WITHOUT:
            said = []
            failed, _ = doctest.DocTestRunner(optionflags=options).run(test, out=said.append)
            assert not failed, "".join(said)
            ran += 1
    record.put("ran", ran)
