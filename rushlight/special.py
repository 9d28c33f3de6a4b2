"""torch.special: functions of one or two numbers, element by element."""

from rushlight import names as _names
from rushlight.tensors.families import FUNCTIONS as _FUNCTIONS
from rushlight.tensors.functions_special import SPECIAL as _SPECIAL
from rushlight.tensors.namespace import TABLE as _TABLE

__getattr__ = _names.getattr_of(__name__)

_SAME = """digamma erf erfc erfinv exp2 expm1 log1p logit round xlogy""".split()
globals().update(_SPECIAL)
globals().update({name: _TABLE[name] for name in _SAME})
psi = digamma = _TABLE["digamma"]
__all__ = sorted({*_SPECIAL, *_SAME, "psi"} & {*_FUNCTIONS, *globals()})
