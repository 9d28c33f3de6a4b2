"""torch._dynamo.exc: errors of PyTorch's tracer. Programs catch them; they are not raised here."""

from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "BackendCompilerFailed", "InternalTorchDynamoError", "RecompileError",
    "TorchDynamoException", "TorchRuntimeError", "Unsupported", "UserError",
]  # fmt: skip


class TorchDynamoException(RuntimeError):
    """The base of them all."""


class InternalTorchDynamoError(TorchDynamoException):
    """A fault of the tracer."""


class Unsupported(TorchDynamoException):
    """Code that cannot be traced."""


class BackendCompilerFailed(TorchDynamoException):
    """The compiler behind the tracer failed."""


class UserError(Unsupported):
    """A wrong use of the tracer."""


class TorchRuntimeError(TorchDynamoException):
    """The traced program raised."""


class RecompileError(TorchDynamoException):
    """It was compiled again although that was forbidden."""
