"""`torch.optim`: optimizers and learning rate schedulers."""

from rushlight import names as _names
from rushlight.optim import lr_scheduler, swa_utils
from rushlight.optim.adadelta import Adadelta
from rushlight.optim.adafactor import Adafactor
from rushlight.optim.adagrad import Adagrad
from rushlight.optim.adam import Adam, AdamW
from rushlight.optim.adamax import Adamax
from rushlight.optim.asgd import ASGD
from rushlight.optim.lbfgs import LBFGS
from rushlight.optim.muon import Muon
from rushlight.optim.nadam import NAdam
from rushlight.optim.optimizer import Optimizer
from rushlight.optim.radam import RAdam
from rushlight.optim.rmsprop import RMSprop
from rushlight.optim.rprop import Rprop
from rushlight.optim.sgd import SGD
from rushlight.optim.sparse_adam import SparseAdam
from rushlight.optim.swap import swap_in_optimizer_params_and_state

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "ASGD",
    "LBFGS",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SGD",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
    "swap_in_optimizer_params_and_state",
]
_names.lend(__name__, "rushlight.optim.helpers", "rushlight.optim", "rushlight")
