"""torch.special: functions of one or two numbers, element by element."""

from rushlight import names as _names
from rushlight.tensors.functions_special import SPECIAL as _SPECIAL
from rushlight.tensors.namespace import TABLE as _TABLE

__getattr__ = _names.getattr_of(__name__)

__all__ = [
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "chebyshev_polynomial_t",
    "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w", "digamma",
    "entr", "erf", "erfc", "erfcx", "erfinv", "exp2", "expit", "expm1", "gammainc", "gammaincc",
    "gammaln", "hermite_polynomial_h", "hermite_polynomial_he", "i0", "i0e", "i1", "i1e",
    "laguerre_polynomial_l", "legendre_polynomial_p", "log1p", "log_ndtr", "log_softmax", "logit",
    "logsumexp", "modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0",
    "modified_bessel_k1", "multigammaln", "ndtr", "ndtri", "polygamma", "psi", "round",
    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w", "sinc", "softmax", "spherical_bessel_j0", "xlog1py", "xlogy",
    "zeta",
]  # fmt: skip

airy_ai = _SPECIAL["airy_ai"]
bessel_j0 = _SPECIAL["bessel_j0"]
bessel_j1 = _SPECIAL["bessel_j1"]
bessel_y0 = _SPECIAL["bessel_y0"]
bessel_y1 = _SPECIAL["bessel_y1"]
chebyshev_polynomial_t = _SPECIAL["chebyshev_polynomial_t"]
chebyshev_polynomial_u = _SPECIAL["chebyshev_polynomial_u"]
chebyshev_polynomial_v = _SPECIAL["chebyshev_polynomial_v"]
chebyshev_polynomial_w = _SPECIAL["chebyshev_polynomial_w"]
entr = _SPECIAL["entr"]
erfcx = _SPECIAL["erfcx"]
expit = _SPECIAL["expit"]
gammainc = _SPECIAL["gammainc"]
gammaincc = _SPECIAL["gammaincc"]
gammaln = _SPECIAL["gammaln"]
hermite_polynomial_h = _SPECIAL["hermite_polynomial_h"]
hermite_polynomial_he = _SPECIAL["hermite_polynomial_he"]
i0 = _SPECIAL["i0"]
i0e = _SPECIAL["i0e"]
i1 = _SPECIAL["i1"]
i1e = _SPECIAL["i1e"]
laguerre_polynomial_l = _SPECIAL["laguerre_polynomial_l"]
legendre_polynomial_p = _SPECIAL["legendre_polynomial_p"]
log_ndtr = _SPECIAL["log_ndtr"]
log_softmax = _SPECIAL["log_softmax"]
logsumexp = _SPECIAL["logsumexp"]
modified_bessel_i0 = _SPECIAL["modified_bessel_i0"]
modified_bessel_i1 = _SPECIAL["modified_bessel_i1"]
modified_bessel_k0 = _SPECIAL["modified_bessel_k0"]
modified_bessel_k1 = _SPECIAL["modified_bessel_k1"]
multigammaln = _SPECIAL["multigammaln"]
ndtr = _SPECIAL["ndtr"]
ndtri = _SPECIAL["ndtri"]
polygamma = _SPECIAL["polygamma"]
scaled_modified_bessel_k0 = _SPECIAL["scaled_modified_bessel_k0"]
scaled_modified_bessel_k1 = _SPECIAL["scaled_modified_bessel_k1"]
shifted_chebyshev_polynomial_t = _SPECIAL["shifted_chebyshev_polynomial_t"]
shifted_chebyshev_polynomial_u = _SPECIAL["shifted_chebyshev_polynomial_u"]
shifted_chebyshev_polynomial_v = _SPECIAL["shifted_chebyshev_polynomial_v"]
shifted_chebyshev_polynomial_w = _SPECIAL["shifted_chebyshev_polynomial_w"]
sinc = _SPECIAL["sinc"]
softmax = _SPECIAL["softmax"]
spherical_bessel_j0 = _SPECIAL["spherical_bessel_j0"]
xlog1py = _SPECIAL["xlog1py"]
zeta = _SPECIAL["zeta"]
digamma = _TABLE["digamma"]
erf = _TABLE["erf"]
erfc = _TABLE["erfc"]
erfinv = _TABLE["erfinv"]
exp2 = _TABLE["exp2"]
expm1 = _TABLE["expm1"]
log1p = _TABLE["log1p"]
logit = _TABLE["logit"]
round = _TABLE["round"]
xlogy = _TABLE["xlogy"]
psi = digamma
