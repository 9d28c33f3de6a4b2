"""Each rule of tools/arch_check.py sees a planted violation, and the real tree has none."""

import textwrap
from pathlib import Path

import arch_check
import pytest

ROOT = Path(__file__).resolve().parents[2]


# The least tree in which every arrow has both ends.
SKELETON = (
    "__init__.py",
    "base/__init__.py",
    "ir/__init__.py",
    "ops/__init__.py",
    "autograd/__init__.py",
    "compiler/__init__.py",
    "runtime/__init__.py",
    "backends/__init__.py",
    "backends/cfamily/__init__.py",
    "backends/c/__init__.py",
    "backends/llvm/__init__.py",
    "engine/__init__.py",
    "tensors/__init__.py",
    "nn/__init__.py",
    "optim/__init__.py",
    "export/__init__.py",
)


@pytest.fixture
def tree(tmp_path):
    """A function that plants one file in an otherwise clean tree and gives the findings."""
    for name in SKELETON:
        path = tmp_path / "rushlight" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")

    def plant(name: str, text: str) -> list[str]:
        path = tmp_path / "rushlight" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return [str(finding) for finding in arch_check.Checker(tmp_path).run()]

    return plant


def test_own_tree_has_no_violation():
    assert [str(f) for f in arch_check.Checker(ROOT).run()] == []


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("base/a.py", "from rushlight.ir import node"),
        ("ir/a.py", "import rushlight.ops.elementwise"),
        ("ir/a.py", "from ..ops import elementwise"),
        ("ir/a.py", "from .. import ops"),
        ("ops/a.py", "from rushlight import autograd"),
        ("autograd/a.py", "from rushlight.compiler import pipeline"),
        ("compiler/a.py", "from rushlight.autograd import engine"),
        ("compiler/a.py", "import rushlight.backends.llvm"),
        ("runtime/a.py", "from rushlight.ir import node"),
        ("engine/a.py", "from rushlight.backends.llvm import emit"),
        ("engine/a.py", "from rushlight.tensors import tensor"),
        ("tensors/a.py", "from rushlight.nn import module"),
        ("tensors/a.py", "from rushlight.compiler import pipeline"),
        ("nn/a.py", "from rushlight.export import write"),
        ("nn/a.py", "from rushlight.tensors import tensor"),
        ("optim/a.py", "from rushlight.nn import Module"),
        ("ops/a.py", "import rushlight as torch"),
        ("surprise/a.py", "x = 1"),
    ],
)
def test_import_against_the_arrows_is_found(tree, name, statement):
    findings = tree(name, f"\n{statement}\n")
    assert findings
    assert findings[0].startswith(f"rushlight/{name}:")


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("ir/a.py", "from rushlight.base import config"),
        ("ir/a.py", "from . import node"),
        ("autograd/a.py", "from ..ops import elementwise"),
        ("compiler/a.py", "from rushlight.ops import matmul"),
        ("backends/llvm/a.py", "from rushlight.compiler import target"),
        ("backends/llvm/a.py", "from rushlight.backends.cfamily import tables"),
        ("backends/c/a.py", "from . import emit"),
        ("engine/a.py", "from rushlight.backends import require_backend"),
        ("tensors/a.py", "from rushlight.engine import realize"),
        ("nn/a.py", "import rushlight as torch"),
        ("nn/a.py", "from .module import Module"),
        ("export/a.py", "from rushlight.tensors import namespace"),
        ("ir/a.py", "import numpy as np"),
    ],
)
def test_import_along_the_arrows_passes(tree, name, statement):
    assert tree(name, f"{statement}\n") == []


def test_file_that_is_not_python_is_found(tree):
    (finding,) = tree("nn/a.py", "<<<<<<< HEAD")
    assert finding.startswith("rushlight/nn/a.py:1: is not Python")


def test_type_checking_import_follows_the_arrows(tree):
    text = """
        from typing import TYPE_CHECKING

        if TYPE_CHECKING:
            from rushlight.compiler import target
        """
    assert "ir may not import rushlight.compiler.target" in tree("ir/a.py", text)[0]


def test_exception_holds_for_its_file_and_module_only(tree):
    statement = "from rushlight.tensors.functional import relu"
    assert tree("nn/functional.py", statement) == []
    assert tree("nn/functional.py", "from rushlight.tensors.tensor import Tensor") != []
    assert tree("nn/conv.py", statement) != []


def test_backend_that_imports_its_sibling_is_found(tree):
    findings = tree("backends/c/a.py", "from rushlight.backends.llvm import emit\n")
    assert "backend c may not import backend llvm" in findings[0]


@pytest.mark.parametrize("name", ["engine/a.py", "engine/a_impl.py"])
def test_own_import_inside_a_function_is_found(tree, name):
    text = """
        def late():
            from rushlight.base import config
            return config
        """
    assert "inside a function" in tree(name, text)[0]


def test_third_party_import_inside_a_function_needs_an_impl_file(tree):
    text = """
        def late():
            import llvmlite
            return llvmlite
        """
    assert "only *_impl.py files" in tree("engine/a.py", text)[0]


def test_third_party_import_inside_a_function_of_an_impl_file_passes(tree):
    assert tree("engine/a_impl.py", "def late():\n    import llvmlite\n") == []


def test_module_getattr_may_defer(tree):
    text = """
        def __getattr__(name):
            from . import slow
            return getattr(slow, name)
        """
    assert tree("ops/a.py", text) == []


@pytest.mark.parametrize(
    "line",
    [
        'if backend.name == "llvm": pass',
        'if name in ("c", "llvm"): pass',
        'if "c" == backend.name: pass',
        'match name:\n    case "llvm" | "other": pass',
    ],
)
def test_comparison_with_a_backend_name_is_found(tree, line):
    findings = tree(
        "engine/a.py", f"def f(name, backend):\n    {line.replace(chr(10), chr(10) + '    ')}\n"
    )
    assert "backend name" in findings[0]


def test_ordinary_word_that_is_also_a_backend_passes(tree):
    assert tree("engine/a.py", 'def f(order):\n    return order == "c"\n') == []


def test_backend_may_compare_its_own_name(tree):
    assert tree("backends/llvm/a.py", 'def f(name):\n    return name == "llvm"\n') == []


@pytest.mark.parametrize(
    "text",
    [
        'import os\nx = os.environ["A"]\n',
        'import os\nx = os.getenv("A")\n',
        "from os import environ\n",
    ],
)
def test_environment_is_read_in_config_only(tree, text):
    assert "only base/config.py" in tree("runtime/a.py", text)[0]
    assert tree("runtime/a.py", "") == []
    assert tree("base/config.py", text) == []


@pytest.mark.parametrize(
    "text",
    [
        "import numpy as np\ny = np.matmul(1, 2)\n",
        "import numpy as np\ny = np.linalg.inv(1)\n",
        "import numpy\ny = numpy.exp(1)\n",
        "from numpy import einsum\n",
        "def f(a, b):\n    return a @ b\n",
    ],
)
@pytest.mark.parametrize("name", ["engine/a.py", "autograd/a.py", "backends/llvm/sub/a.py"])
def test_numpy_arithmetic_in_the_core_is_found(tree, name, text):
    assert "record an op" in tree(name, text)[0]


def test_numpy_that_moves_data_passes(tree):
    assert tree("engine/a.py", "import numpy as np\ny = np.ascontiguousarray(np.empty(3))\n") == []


def test_numpy_arithmetic_outside_the_core_passes(tree):
    assert tree("ops/a.py", "import numpy as np\ny = np.exp(1)\n") == []


@pytest.mark.parametrize("comment", ["# TODO mend", "# TODO: mend", "x = 1  # FIXME(someone)"])
def test_bare_todo_is_found(tree, comment):
    assert "TODO(#n)" in tree("ir/a.py", comment + "\n")[0]


@pytest.mark.parametrize("line", ["# TODO(#12): mend", 'x = "TODO"', "# todos of the user"])
def test_todo_with_an_issue_passes(tree, line):
    assert tree("ir/a.py", line + "\n") == []


def test_main_gives_exit_code_one_and_file_and_line(tmp_path, tree, capsys):
    tree("base/a.py", "\nimport rushlight.ir\n")
    assert arch_check.main([str(tmp_path)]) == 1
    assert "rushlight/base/a.py:2: base may not import rushlight.ir" in capsys.readouterr().out
