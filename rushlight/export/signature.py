"""What the inputs and outputs of an exported program are."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto


class InputKind(Enum):
    """Where an input of the graph comes from."""

    USER_INPUT = auto()
    PARAMETER = auto()
    BUFFER = auto()
    CONSTANT_TENSOR = auto()


class OutputKind(Enum):
    """What an output of the graph is for."""

    USER_OUTPUT = auto()


@dataclass(frozen=True)
class InputSpec:
    """arg: the name in the graph; target: the name in the module; persistent: of a buffer."""

    kind: InputKind
    arg: str
    target: str | None = None
    persistent: bool | None = None

    def __str__(self) -> str:
        target = "" if self.target is None else f" target='{self.target}'"
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg}: {self.kind.name}{target}{persistent}"


@dataclass(frozen=True)
class OutputSpec:
    """arg: the name in the graph; empty for a value that is no tensor."""

    kind: OutputKind
    arg: str
    target: str | None = None

    def __str__(self) -> str:
        return f"{self.arg}: {self.kind.name}"


@dataclass
class ExportGraphSignature:
    """The inputs and outputs of the graph, in order."""

    input_specs: list[InputSpec] = field(default_factory=list)
    output_specs: list[OutputSpec] = field(default_factory=list)

    def _targets(self, kind: InputKind) -> tuple[str, ...]:
        return tuple(s.target for s in self.input_specs if s.kind is kind and s.target)

    def _named(self, kind: InputKind) -> dict[str, str]:
        return {s.arg: s.target for s in self.input_specs if s.kind is kind and s.target}

    @property
    def parameters(self) -> tuple[str, ...]:
        return self._targets(InputKind.PARAMETER)

    @property
    def buffers(self) -> tuple[str, ...]:
        return self._targets(InputKind.BUFFER)

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        found = [s for s in self.input_specs if s.kind is InputKind.BUFFER and not s.persistent]
        return tuple(s.target for s in found if s.target)

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def user_inputs(self) -> tuple[str, ...]:
        return tuple(s.arg for s in self.input_specs if s.kind is InputKind.USER_INPUT)

    @property
    def user_outputs(self) -> tuple[str, ...]:
        return tuple(s.arg for s in self.output_specs)

    @property
    def inputs_to_parameters(self) -> dict[str, str]:
        return self._named(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> dict[str, str]:
        return self._named(InputKind.BUFFER)

    def __str__(self) -> str:
        inputs = [str(spec) for spec in self.input_specs]
        outputs = [str(spec) for spec in self.output_specs]
        return "\n".join(["", "# inputs", *inputs, "", "# outputs", *outputs, ""])
