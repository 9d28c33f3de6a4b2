"""skorch: a network as an estimator of scikit-learn."""

import tempfile

import numpy as np
import torch
from harness import fill, generator
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import EarlyStopping, LRScheduler


class Net(torch.nn.Module):
    def __init__(self, out=2, hidden=12):
        super().__init__()
        self.first = torch.nn.Linear(6, hidden)
        self.last = torch.nn.Linear(hidden, out)
        fill(self)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


def data():
    rng = generator("skorch")
    x = rng.standard_normal((60, 6)).astype(np.float32)
    return x, (x[:, 0] * x[:, 1] > 0).astype(np.int64)


def classifier(**options):
    return NeuralNetClassifier(
        Net, criterion=torch.nn.CrossEntropyLoss, max_epochs=6, lr=0.1, batch_size=16, verbose=0,
        train_split=None, optimizer=torch.optim.Adam, **options,
    )  # fmt: skip


def case_classifier(record):
    x, y = data()
    net = classifier(lr=0.02).fit(x, y) if False else classifier().set_params(lr=0.02).fit(x, y)
    record.put("losses", [row["train_loss"] for row in net.history])
    record.put("chances", net.predict_proba(x))
    record.put("score", net.score(x, y))


def case_regressor(record):
    x, _ = data()
    y = (x[:, :1] * 2 - x[:, 1:2]).astype(np.float32)
    net = NeuralNetRegressor(Net, module__out=1, max_epochs=5, lr=0.05, verbose=0, train_split=None,
                             callbacks=[LRScheduler("StepLR", step_size=2, gamma=0.5)])  # fmt: skip
    net.fit(x, y)
    record.put("losses", [row["train_loss"] for row in net.history])


def case_in_a_pipeline(record):
    x, y = data()
    pipe = make_pipeline(StandardScaler(), classifier())
    record.put("scores", cross_val_score(pipe, x, y, cv=3))


def case_save_and_load(record):
    x, y = data()
    net = classifier(callbacks=[EarlyStopping(monitor="train_loss", patience=2)]).fit(x, y)
    with tempfile.TemporaryDirectory() as folder:
        net.save_params(f_params=f"{folder}/params.pt")
        again = classifier().initialize()
        again.load_params(f_params=f"{folder}/params.pt")
    record.put("same", float(np.abs(again.predict_proba(x) - net.predict_proba(x)).max()))
