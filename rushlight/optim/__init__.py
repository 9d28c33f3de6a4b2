"""`torch.optim`: optimizers and learning rate schedulers."""

from rushlight import names as _names
from rushlight.optim import lr_scheduler
from rushlight.optim.adagrad import Adagrad
from rushlight.optim.adam import Adam, AdamW
from rushlight.optim.optimizer import Optimizer
from rushlight.optim.rmsprop import RMSprop
from rushlight.optim.sgd import SGD

__getattr__ = _names.getattr_of(__name__)

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]
