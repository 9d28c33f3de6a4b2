"""The rarer methods of SummaryWriter."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from rushlight.base.errors import NotSupportedError
from rushlight.utils.tensorboard import summaries
from rushlight.utils.tensorboard.event_file import EventFile
from rushlight.utils.tensorboard.graph import graph_of
from rushlight.utils.tensorboard.messages import blob


def figure_pixels(figure: Any, close: bool) -> np.ndarray:
    """A matplotlib figure as bytes (height, width, 3)."""
    file = io.BytesIO()
    figure.savefig(file, format="rgba", dpi=figure.dpi)
    width, height = figure.canvas.get_width_height()
    pixels = np.frombuffer(file.getvalue(), np.uint8).reshape(height, width, 4)[..., :3]
    if close:
        figure.clf()
    return pixels


class MoreMethods:
    """Mixed into SummaryWriter, which has `_write` and the event file `_file`."""

    log_dir: Any
    _file: EventFile

    def _write(self, value: bytes, step: Any, wall_time: Any) -> None:
        raise NotImplementedError

    def add_figure(
        self, tag: str, figure: Any, global_step: Any = None, close: bool = True,
        walltime: Any = None,
    ) -> None:  # fmt: skip
        """A matplotlib figure, or a list of figures of one size, as an image."""
        figures = figure if isinstance(figure, list) else [figure]
        pixels = np.concatenate([figure_pixels(f, close) for f in figures])
        self._write(summaries.image(tag, pixels), global_step, walltime)

    def add_audio(
        self, tag: str, snd_tensor: Any, global_step: Any = None, sample_rate: int = 44100,
        walltime: Any = None,
    ) -> None:  # fmt: skip
        """A sound: numbers from -1 to 1, (L) or (1, L)."""
        self._write(summaries.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_pr_curve(
        self, tag: str, labels: Any, predictions: Any, global_step: Any = None,
        num_thresholds: int = 127, weights: Any = None, walltime: Any = None,
    ) -> None:  # fmt: skip
        """Precision and recall of predictions from 0 to 1 of labels that are 0 or 1."""
        value = summaries.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._write(value, global_step, walltime)

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:  # fmt: skip
        """The model's layers as a graph; the model is run once, in eval mode."""
        if input_to_model is None:
            raise ValueError("input_to_model: got None, allowed are the arguments of the model")
        self._file.write(blob(4, graph_of(model, input_to_model)), None, None)

    def add_embedding(
        self, mat: Any, metadata: Any = None, label_img: Any = None, global_step: Any = None,
        tag: str = "default", metadata_header: Any = None,
    ) -> None:  # fmt: skip
        """Points (N, D) with their labels, for the projector."""
        if label_img is not None:
            self._refuse("add_embedding with label_img")
        points = summaries.to_array(mat)
        step = 0 if global_step is None else int(global_step)
        place = Path(f"{step:05d}") / tag
        folder = Path(self.log_dir) / place
        folder.mkdir(parents=True, exist_ok=True)
        rows = ["\t".join(map(str, row)) for row in points.tolist()]
        (folder / "tensors.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
        lines = [f'tensor_name: "{tag}:{step:05d}"', f'tensor_path: "{place / "tensors.tsv"}"']
        if metadata is not None:
            labels = [row if isinstance(row, (list, tuple)) else [row] for row in metadata]
            labels = [metadata_header, *labels] if metadata_header else labels
            named = "\n".join("\t".join(map(str, row)) for row in labels)
            (folder / "metadata.tsv").write_text(named + "\n", encoding="utf-8")
            lines.append(f'metadata_path: "{place / "metadata.tsv"}"')
        with (Path(self.log_dir) / "projector_config.pbtxt").open("a", encoding="utf-8") as file:
            file.write("embeddings {\n" + "\n".join(lines) + "\n}\n")

    def add_video(self, *_: Any, **__: Any) -> NoReturn:
        """Not supported."""
        self._refuse("add_video")

    def add_mesh(self, *_: Any, **__: Any) -> NoReturn:
        """Not supported."""
        self._refuse("add_mesh")

    def add_custom_scalars(self, *_: Any, **__: Any) -> NoReturn:
        """Not supported."""
        self._refuse("add_custom_scalars")

    def add_image_with_boxes(self, *_: Any, **__: Any) -> NoReturn:
        """Not supported."""
        self._refuse("add_image_with_boxes")

    def _refuse(self, name: str) -> NoReturn:
        raise NotSupportedError(f"SummaryWriter.{name} is not supported; use add_image or add_text")
