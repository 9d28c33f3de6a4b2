"""DUMP: the files are there, and graphs and tile programs read back to equal ones."""

import rushlight as torch
from rushlight.base.config import config
from rushlight.compiler.pipeline import PASSES
from rushlight.compiler.tile.text import to_text as program_text
from rushlight.compiler.tile.text_parse import parse_program
from rushlight.ir.text import parse_graph
from rushlight.ir.text import to_text as graph_text


def dump(tmp_path, **settings):
    with config.override(dump=str(tmp_path), **settings):
        x = torch.ones(20, 40) * 0.5
        torch.log_softmax(x, dim=1).tolist()
    return {path.name: path.read_text() for path in tmp_path.glob("p0/*")}


def expected_files():
    """One file per pass; of each kernel for those that make tile programs or code."""
    endings = {"tiles": ("_k0.txt",), "code": ()}
    names = ["00_graph.txt"]
    for number, step in enumerate(PASSES, 1):
        names += [f"{number:02}_{step.name}{end}" for end in endings.get(step.kind, (".txt",))]
        if step.kind == "code":
            names += [f"{number:02}_kernel_k0.ll", f"{number:02}_kernel_k0.s"]
    return names


def of(files, end):
    """The text of the one file with this ending."""
    (name,) = (name for name in files if name.endswith(end))
    return files[name]


def test_all_stages_are_written(tmp_path):
    files = dump(tmp_path)
    assert sorted(files) == expected_files()
    assert "define void" in of(files, "_k0.ll") and ".text" in of(files, "_k0.s")
    assert "log_softmax" in files["00_graph.txt"] and "log_softmax" not in files["01_decompose.txt"]
    index = (tmp_path / "index.html").read_text()
    assert all(f'href="p0/{name}"' in index for name in files)


def test_graphs_and_programs_read_back(tmp_path):
    files = dump(tmp_path)
    for name in ("00_graph.txt", "_decompose.txt", "_separate_roots.txt"):
        assert graph_text(parse_graph(of(files, name))) == of(files, name)
    for name in ("_build_kernels_k0.txt", "_expand_math_k0.txt"):
        assert program_text(parse_program(of(files, name))) == of(files, name)


def test_only_limits_the_files(tmp_path):
    assert sorted(dump(tmp_path / "a", only="pass:decompose")) == ["01_decompose.txt"]
    assert all("k1" in name for name in dump(tmp_path / "b", only="k1"))


def test_nothing_is_written_without_dump(tmp_path):
    torch.ones(3).tolist()
    assert list(tmp_path.iterdir()) == []
