"""`torch.nn.attention`: `flex_attention` is a module of it, imported by its full name."""

from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)
