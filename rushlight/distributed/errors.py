"""The errors of torch.distributed."""


class DistError(RuntimeError):
    """An error of the distributed package."""


class DistBackendError(DistError):
    """A way to send failed."""


class DistNetworkError(DistError):
    """A network failed."""


class DistStoreError(DistError):
    """A key-value store failed, or a key did not come in time."""


class QueueEmptyError(DistStoreError):
    """Nothing is in the queue of a store."""


for _kind in (DistError, DistBackendError, DistNetworkError, DistStoreError, QueueEmptyError):
    _kind.__module__ = "torch.distributed"
