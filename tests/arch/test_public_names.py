"""Public names resolve, stay, and are those that the documents use."""

import re
from pathlib import Path

import public_names as tool
import pytest

import rushlight as torch

ROOT = Path(__file__).resolve().parents[2]


def test_every_listed_name_is_still_there():
    gone = []
    for name in tool.stored_names():
        try:
            tool.find_public(name)
        except (AttributeError, ImportError):
            gone.append(name)
    assert gone == [], "a public name may leave only by hand, with an entry in CHANGELOG.md"


def test_every_public_name_is_listed():
    new = tool.public_names() - set(tool.stored_names())
    assert sorted(new) == [], "run: python tools/public_names.py"


def test_list_is_sorted_and_holds_no_name_twice():
    assert tool.stored_names() == sorted(set(tool.stored_names()))


def test_a_name_that_is_gone_is_found():
    with pytest.raises(AttributeError):
        tool.find_public("rushlight.nn.NoSuchLayer")


def test_names_of_the_documents_resolve():
    """Whatever README.md and the example call by `torch.` exists."""
    texts = (ROOT / "README.md").read_text(encoding="utf-8").split("```")[1::2]
    texts += [path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.py")]
    named = {name for text in texts for name in re.findall(r"\btorch\.([A-Za-z_][\w.]*\w)", text)}
    assert len(named) > 10
    for name in sorted(named):
        tool.find_public(f"rushlight.{name}")


def test_namespace_that_is_not_there_says_so_and_hasattr_says_no():
    assert not hasattr(torch, "nested")
    with pytest.raises(NotImplementedError, match=r"rushlight\.nested is not supported: there are"):
        _ = torch.nested
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = torch.nonsense
