"""Each rule of tools/style_check.py sees a planted violation, and the real tree has none."""

import textwrap
from pathlib import Path

import pytest
import style_check

ROOT = Path(__file__).resolve().parents[2]


LONG_BODY = "\n".join(f"    x{i} = {i}" for i in range(style_check.MOST_FUNCTION_LINES))


@pytest.fixture
def messages(tmp_path):
    """A function that plants one file in an empty tree and gives the messages about it."""

    def plant(text: str, name: str = "rushlight/ir/a.py", **others: str) -> list[str]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        for folder, other in others.items():
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / "test_a.py").write_text(textwrap.dedent(other))
        return [found.message for found in style_check.findings(tmp_path)]

    return plant


def test_own_tree_has_no_violation():
    assert [str(found) for found in style_check.findings(ROOT)] == []


def test_exceptions_are_still_needed():
    """An exception whose file or function became short is to be taken away."""
    sources = {s.name: s for s in style_check.read_sources(ROOT, ("rushlight",))}
    for name in style_check.LONG_FILES:
        assert len(sources[name].text.splitlines()) > style_check.MOST_FILE_LINES, name
    long = {
        f"{source.name}:{function.name}"
        for source in sources.values()
        for function in style_check.functions(source)
        if style_check.body_lines(function) > style_check.MOST_FUNCTION_LINES
    }
    assert sorted(style_check.LONG_FUNCTIONS - long) == []


def test_long_file_is_found(messages):
    (message,) = messages("\n" * (style_check.MOST_FILE_LINES + 1))
    assert message == "401 lines in one file, allowed are 400"


def test_long_function_is_found_and_its_docstring_is_free(messages):
    doc = '    """' + "line\n" * 50 + '    """\n'
    found = messages(f"def _f():\n{LONG_BODY}\n\n\n_f()\n")
    assert found == ["41 lines in function _f, allowed are 40"]
    assert messages(f"def _f():\n{doc}    return 1\n\n\n_f()\n") == []


@pytest.mark.parametrize("statement", ["globals().update(a=1)", "print(globals()['a'])"])
def test_name_through_globals_is_found(messages, statement):
    (message,) = messages(statement)
    assert "through globals()" in message


def test_getattr_of_a_module_may_keep_what_it_found(messages):
    assert messages("def __getattr__(name):\n    globals()[name] = 1\n    return 1\n") == []


def test_private_name_of_another_file_is_found(messages):
    (message,) = messages("from rushlight.ir.b import _secret, shown\n")
    assert message == "_secret is private to rushlight.ir.b"


def test_private_name_through_its_module_is_found(messages):
    text = "from rushlight.ir import a as other\n\nother._secret()\nother.shown()\n"
    (message,) = messages(text)
    assert message == "_secret is private to rushlight.ir.a"


@pytest.mark.parametrize(
    "text",
    [
        "def alone(): ...",
        "class Alone: ...",
        "alone = 1",
        "alone: int = 1",
        "def alone(n):\n    return alone(n - 1)",
        '"""alone is only named here."""\ndef alone(): ...',
    ],
)
def test_unused_name_is_found(messages, text):
    (message,) = messages(text)
    assert message.lower() == "alone is used nowhere"


def test_used_names_pass(messages):
    assert messages("def a(): ...\n\n\nb = a()\nprint(b)\n") == []
    assert messages("def a(): ...\n", tests="from rushlight.ir.a import a\n") == []
    assert messages("def a(): ...\n", tests="import rushlight\nrushlight.a()\n") == []
    assert messages('def a(): ...\n\n\nprint("say a b".split())\n') == []


def test_public_names_pass(messages, tmp_path):
    listed = tmp_path / style_check.PUBLIC_NAMES
    listed.parent.mkdir(parents=True)
    listed.write_text("rushlight.ir.a.alone\n")
    assert messages("def alone(): ...\n") == []
