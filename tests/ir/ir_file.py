"""One IR test: a text file with a graph (or a tile program) and what a pass of the compiler makes.

    # A product that is read transposed is computed transposed.
    donated: 0
    hints: T=1000
    %0 = buffer : f32[4, T]
    return %0
    ---
    the expected text

The folder is named like the pass. In: the file. Out: the state's text after the pass, in the form
that DUMP and DEBUG show. Before the pass run only those earlier ones whose facts it requires, so
what a graph pass gets is what the file says. A file `*.bad.ir` expects the text of an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rushlight.compiler.compilation import Compilation
from rushlight.compiler.given import Graph, NumberSlot
from rushlight.compiler.lower.decompose_math import expand
from rushlight.compiler.pipeline import PASSES
from rushlight.compiler.sizes import Hints
from rushlight.compiler.texts import state_text
from rushlight.compiler.tile.ir import Program
from rushlight.compiler.tile.text import to_text as program_text
from rushlight.compiler.tile.text_parse import parse_program
from rushlight.compiler.tile.verify import verify_program
from rushlight.ir.node import Node, make_node, scalar_node, topological
from rushlight.ir.passes import Pass, Pipeline
from rushlight.ir.symint_walk import variables
from rushlight.ir.text import parse_graph

FOLDER = Path(__file__).parent
MARK = "---\n"
# Not `build`: it makes code, which the tests of backends look at.
NAMES = tuple(step.name for step in PASSES if step.name != "build")


@dataclass(frozen=True)
class Built:
    """What the builder of these tests makes of a tile program: nothing."""

    program: Program
    scratch: tuple = ()


@dataclass(frozen=True)
class IrFile:
    path: Path
    comment: str
    settings: dict[str, str]
    source: str
    expected: str

    @classmethod
    def read(cls, path: Path) -> IrFile:
        head, _, expected = path.read_text(encoding="utf-8").partition(MARK)
        comment, settings, source = [], {}, []
        for line in head.splitlines(keepends=True):
            name, colon, value = line.partition(": ")
            if line.startswith("#"):
                comment.append(line)
            elif colon and name in ("donated", "hints"):
                settings[name] = value.strip()
            else:
                source.append(line)
        return cls(path, "".join(comment), settings, "".join(source), expected)

    @property
    def expects_error(self) -> bool:
        return self.path.name.endswith(".bad.ir")

    def write(self, found: str) -> None:
        head = self.path.read_text(encoding="utf-8").partition(MARK)[0]
        self.path.write_text(head + MARK + found, encoding="utf-8")

    def result(self) -> str:
        """The text after the pass; for a `*.bad.ir` the error that it raised."""
        try:
            found = self._run()
        except Exception as error:
            if not self.expects_error:
                raise
            return f"{type(error).__name__}: {error}\n"
        if self.expects_error:
            raise AssertionError(f"{self.path} raised no error but gave\n{found}")
        return found

    def _run(self) -> str:
        name = self.path.parent.name
        if self.source.startswith("program "):
            assert name == "expand_math", f"{name} does not take a tile program"
            return _expanded(self.source)
        step = PASSES[NAMES.index(name)]
        state = _start(self.source, self.settings)
        state = Pipeline(name, steps_for(step)).run(state, verify=True)
        if step.kind == "code":
            return _built_text(state)
        return "".join(
            f"{kernel}:\n{text}" if kernel else text
            for kernel, text in state_text(state, step.kind).items()
        )


def steps_for(step: Pass) -> list[Pass]:
    """The pass, after those earlier ones that ensure what it requires."""
    needed, chosen = set(step.requires), [step]
    for earlier in reversed(PASSES[: PASSES.index(step)]):
        if needed & set(earlier.ensures):
            needed |= set(earlier.requires)
            chosen.insert(0, earlier)
    return chosen


def _start(source: str, settings: dict[str, str]) -> Compilation:
    roots, numbers = _with_slots(parse_graph(source))
    inputs = tuple(node for node in topological(roots) if node.leaf == "buffer")
    donated = frozenset(inputs[int(i)] for i in settings.get("donated", "").split())
    pairs = (item.split("=") for item in settings.get("hints", "").split())
    hints = Hints({name: int(value) for name, value in pairs})
    names = {name for node in topological(roots) for size in node.shape for name in variables(size)}
    graph = Graph(
        inputs, tuple(roots), donated, tuple(sorted(names)), hints, repr, numbers=numbers
    )  # fmt: skip
    return Compilation(graph, _build, roots=list(roots))


def _build(programs: Sequence[Program]) -> list[Built]:
    return [Built(program) for program in programs]


def _with_slots(roots: list[Node]) -> tuple[list[Node], tuple]:
    """The graph with a number slot in each scalar leaf, as the engine gives it, and the numbers."""
    numbers: list = []
    new: dict[Node, Node] = {}
    for node in topological(roots):
        if node.leaf == "scalar":
            new[node] = scalar_node(NumberSlot(len(numbers)), node.dtype)
            numbers.append(node.attrs[0])
        elif node.leaf:
            new[node] = node
        else:
            src = tuple(new[source] for source in node.src)
            new[node] = make_node(node.op, src, node.attrs, node.shape, node.dtype)
    return [new[root] for root in roots], tuple(numbers)


def _expanded(source: str) -> str:
    program = parse_program(source)
    verify_program(program, expanded=False)
    program = expand(program)
    verify_program(program, expanded=True)
    return program_text(program)


def _built_text(state: Compilation) -> str:
    """Which kernels share a program: the backend gets each of these once."""
    programs: list[Program] = []
    lines = []
    for step, executable in zip(state.steps, state.executables, strict=True):
        name = state.kernel_name(step.group)
        if executable is None:
            lines.append(f"{name}: on the host\n")
            continue
        if executable.program not in programs:
            programs.append(executable.program)
        number = programs.index(executable.program)
        lines.append(f"{name}: program {number}, {executable.program.name}\n")
    return "".join(lines)
