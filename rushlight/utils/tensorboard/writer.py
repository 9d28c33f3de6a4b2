"""SummaryWriter: what a training shows, step by step."""

from __future__ import annotations

import socket
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from rushlight.utils.tensorboard import summaries
from rushlight.utils.tensorboard.event_file import EventFile
from rushlight.utils.tensorboard.more import MoreMethods
from rushlight.utils.tensorboard.pictures import to_pixels


class FileWriter:
    """Events of one folder, as bytes of messages."""

    def __init__(
        self, log_dir: Any, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = ""
    ) -> None:
        self._log_dir = str(log_dir)
        self._file = EventFile(log_dir, filename_suffix)

    def get_logdir(self) -> str:
        return self._log_dir

    def add_summary(self, summary: bytes, global_step: Any = None, walltime: Any = None) -> None:
        """summary: values, as `summaries` makes them."""
        self._file.write_summary(summary, global_step, walltime)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def reopen(self) -> None:
        """Nothing to do: a closed file goes on when it is written to."""


class SummaryWriter(MoreMethods):
    """Writes event files into `log_dir` (./runs/<time>_<host><comment> if None).

    purge_step: TensorBoard hides what an earlier writer, which crashed, wrote from this step on.
    max_queue: accepted; events wait in the file's buffer, flush_secs at most.

    >>> import tempfile
    >>> with SummaryWriter(tempfile.mkdtemp()) as writer:
    ...     writer.add_scalar("loss", 0.5, global_step=1)
    """

    def __init__(
        self, log_dir: Any = None, comment: str = "", purge_step: int | None = None,
        max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = "",
    ) -> None:  # fmt: skip
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = str(Path("runs") / f"{now}_{socket.gethostname()}{comment}")
        self.log_dir, self.purge_step = log_dir, purge_step
        self._suffix, self._flush_seconds = filename_suffix, flush_secs
        self._others: dict[str, EventFile] = {}
        self._file = EventFile(log_dir, filename_suffix)
        if purge_step is not None:
            self._file.write_session_start(purge_step)
        self._flushed = time.monotonic()

    @property
    def file_writer(self) -> Any:
        """What writes the events."""
        return self._file

    all_writers = property(lambda self: {str(self.log_dir): self._file, **self._others})

    def get_logdir(self) -> Any:
        """The folder."""
        return self.log_dir

    def _write(self, value: bytes, step: Any, wall_time: Any) -> None:
        if step is not None:
            step = int(summaries.number(step, "global_step"))
        self._file.write_summary(value, step, wall_time)
        if time.monotonic() - self._flushed > self._flush_seconds:
            self.flush()

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: Any = None, walltime: Any = None,
        new_style: bool = False, double_precision: bool = False,
    ) -> None:  # fmt: skip
        """A number, or a tensor of one element. double_precision: acts with new_style, as in
        PyTorch."""
        value = summaries.scalar(tag, scalar_value, new_style, double_precision)
        self._write(value, global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: Any = None,
        walltime: Any = None,
    ) -> None:  # fmt: skip
        """Several numbers in one diagram; each is a run of its own, in a folder below."""
        for tag, value in tag_scalar_dict.items():
            folder = f"{self.log_dir}/{main_tag.replace('/', '_')}_{tag}"
            file = self._others.get(folder)
            if file is None:
                file = self._others[folder] = EventFile(folder, self._suffix)
            file.write_summary(summaries.scalar(main_tag, value), global_step, walltime)

    def add_tensor(
        self, tag: str, tensor: Any, global_step: Any = None, walltime: Any = None
    ) -> None:
        """A tensor of numbers, as they are."""
        self._write(summaries.numbers(tag, tensor), global_step, walltime)

    def add_histogram(
        self, tag: str, values: Any, global_step: Any = None, bins: Any = "tensorflow",
        walltime: Any = None, max_bins: int | None = None,
    ) -> None:  # fmt: skip
        """How numbers are spread. bins: "tensorflow", edges, or a way that numpy knows."""
        edges = _wide_edges() if bins == "tensorflow" else bins
        self._write(summaries.histogram(tag, values, edges, max_bins), global_step, walltime)

    def add_histogram_raw(
        self, tag: str, min: float, max: float, num: int, sum: float, sum_squares: float,
        bucket_limits: Any, bucket_counts: Any, global_step: Any = None, walltime: Any = None,
    ) -> None:  # fmt: skip
        """A histogram that was counted elsewhere."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        self._write(summaries.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits,
                                            bucket_counts), global_step, walltime)  # fmt: skip

    def add_image(
        self, tag: str, img_tensor: Any, global_step: Any = None, walltime: Any = None,
        dataformats: str = "CHW",
    ) -> None:  # fmt: skip
        """An image: numbers from 0 to 1, or bytes."""
        pixels = to_pixels(summaries.to_array(img_tensor), dataformats)
        self._write(summaries.image(tag, pixels), global_step, walltime)

    def add_images(
        self, tag: str, img_tensor: Any, global_step: Any = None, walltime: Any = None,
        dataformats: str = "NCHW",
    ) -> None:  # fmt: skip
        """Several images, as one grid."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_text(
        self, tag: str, text_string: str, global_step: Any = None, walltime: Any = None
    ) -> None:
        """A text in Markdown."""
        self._write(summaries.words(tag, str(text_string)), global_step, walltime)

    def add_hparams(
        self, hparam_dict: dict[str, Any], metric_dict: dict[str, Any],
        hparam_domain_discrete: Any = None, run_name: str | None = None, global_step: Any = None,
    ) -> None:  # fmt: skip
        """The settings of a run with what came of it; a run of its own, in a folder below.

        hparam_domain_discrete: accepted; TensorBoard finds the values in the runs.
        """
        if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        file = EventFile(Path(self.log_dir) / (run_name or str(time.time())), self._suffix)
        for value in summaries.hparams(hparam_dict, metric_dict):
            file.write_summary(value, None, None)
        for tag, metric in metric_dict.items():
            file.write_summary(summaries.scalar(tag, metric), global_step, None)
        file.close()

    def flush(self) -> None:
        """Write what waits."""
        self._flushed = time.monotonic()
        for file in (self._file, *self._others.values()):
            file.flush()

    def close(self) -> None:
        """Close all files."""
        for file in (self._file, *self._others.values()):
            file.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _wide_edges() -> list[float]:
    """Edges from -1e20 to 1e20, each 1.1 times the one before it."""
    found, edge = [], 1e-12
    while edge < 1e20:
        found.append(edge)
        edge *= 1.1
    return [*(-e for e in reversed(found)), 0.0, *found]
