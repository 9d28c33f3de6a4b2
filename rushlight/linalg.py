"""torch.linalg: products, norms, and factorizations by the host's LAPACK."""

from rushlight import names as _names
from rushlight.tensors.functions_matrix import LINALG as _LINALG

__getattr__ = _names.getattr_of(__name__)

__all__ = [
    "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals",
    "eigvalsh", "householder_product", "inv", "inv_ex", "ldl_factor", "ldl_factor_ex", "ldl_solve",
    "LinAlgError", "lstsq", "lu", "lu_factor", "lu_factor_ex", "lu_solve", "matmul",
    "matrix_exp", "matrix_norm", "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv",
    "qr", "slogdet", "solve", "solve_ex", "solve_triangular", "svd", "svdvals", "tensorinv",
    "tensorsolve", "vander", "vecdot", "vector_norm",
]  # fmt: skip

LinAlgError = _LINALG["LinAlgError"]
cholesky = _LINALG["cholesky"]
cholesky_ex = _LINALG["cholesky_ex"]
cond = _LINALG["cond"]
cross = _LINALG["cross"]
det = _LINALG["det"]
diagonal = _LINALG["diagonal"]
eig = _LINALG["eig"]
eigh = _LINALG["eigh"]
eigvals = _LINALG["eigvals"]
eigvalsh = _LINALG["eigvalsh"]
householder_product = _LINALG["householder_product"]
inv = _LINALG["inv"]
inv_ex = _LINALG["inv_ex"]
ldl_factor = _LINALG["ldl_factor"]
ldl_factor_ex = _LINALG["ldl_factor_ex"]
ldl_solve = _LINALG["ldl_solve"]
lstsq = _LINALG["lstsq"]
lu = _LINALG["lu"]
lu_factor = _LINALG["lu_factor"]
lu_factor_ex = _LINALG["lu_factor_ex"]
lu_solve = _LINALG["lu_solve"]
matmul = _LINALG["matmul"]
matrix_exp = _LINALG["matrix_exp"]
matrix_norm = _LINALG["matrix_norm"]
matrix_power = _LINALG["matrix_power"]
matrix_rank = _LINALG["matrix_rank"]
multi_dot = _LINALG["multi_dot"]
norm = _LINALG["norm"]
pinv = _LINALG["pinv"]
qr = _LINALG["qr"]
slogdet = _LINALG["slogdet"]
solve = _LINALG["solve"]
solve_ex = _LINALG["solve_ex"]
solve_triangular = _LINALG["solve_triangular"]
svd = _LINALG["svd"]
svdvals = _LINALG["svdvals"]
tensorinv = _LINALG["tensorinv"]
tensorsolve = _LINALG["tensorsolve"]
vander = _LINALG["vander"]
vecdot = _LINALG["vecdot"]
vector_norm = _LINALG["vector_norm"]
