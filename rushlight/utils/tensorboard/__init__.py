"""`torch.utils.tensorboard`: event files that TensorBoard shows."""

from rushlight.utils.tensorboard.event_file import RecordWriter
from rushlight.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]
