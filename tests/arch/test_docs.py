"""Each folder of the package explains itself, and the documents name files that exist."""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEADINGS = ["Gets", "Gives", "Files in reading order", "Always true here"]
MOST_LINES = 60


def package_folders() -> list[Path]:
    folders = {path.parent for path in (ROOT / "rushlight").rglob("*.py")}
    return sorted(folders - {ROOT / "rushlight"})


@pytest.mark.parametrize("folder", package_folders(), ids=lambda p: str(p.relative_to(ROOT)))
def test_folder_has_a_readme_with_the_four_headings(folder):
    readme = folder / "README.md"
    assert readme.exists(), f"{folder.relative_to(ROOT)} has no README.md"
    lines = readme.read_text(encoding="utf-8").splitlines()
    found = [line.lstrip("# ").strip() for line in lines if line.startswith("##")]
    assert [heading for heading in found if heading in HEADINGS] == HEADINGS
    assert len(lines) <= MOST_LINES


@pytest.mark.parametrize("folder", package_folders(), ids=lambda p: str(p.relative_to(ROOT)))
def test_readme_names_only_files_that_exist(folder):
    readme = folder / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else ""
    # Only the part about this folder's files; `a.py` elsewhere may be an example.
    part = text.partition("Files in reading order")[2].partition("\n##")[0]
    missing = [name for name in re.findall(r"`([\w/]+\.py)`", part) if not exists(folder, name)]
    assert missing == []


@pytest.mark.parametrize("folder", package_folders(), ids=lambda p: str(p.relative_to(ROOT)))
def test_readme_names_every_file(folder):
    """By its name or a pattern (`functions_*.py`): a reader finds each file from the README."""
    readme = folder / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else ""
    patterns = re.findall(r"`([\w.*/-]+)`", text)
    files = [path.name for path in folder.glob("*.py") if not path.name.startswith("_")]
    unnamed = [name for name in files if not any(fnmatch(name, p) for p in patterns)]
    assert unnamed == [], f"add to 'Files in reading order' of {readme.relative_to(ROOT)}"


def exists(folder: Path, name: str) -> bool:
    return any((base / name).exists() for base in (folder, ROOT, ROOT / "rushlight"))


DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_document_names_only_files_that_exist(document):
    """`folder/file.py` and `folder/`, from the root or from the package."""
    text = document.read_text(encoding="utf-8")
    named = re.findall(r"`([\w-]+/[\w./-]*\.(?:py|md|txt|sh|tsv)|[\w-]+(?:/[\w-]+)*/)`", text)
    missing = [name for name in named if not exists(document.parent, name)]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_document_links_to_files_that_exist(document):
    text = document.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    local = [link for link in links if "://" not in link and not link.startswith("mailto:")]
    missing = [link for link in local if not (document.parent / link).exists()]
    assert missing == []


def test_map_names_only_files_that_exist():
    text = (ROOT / "docs" / "map.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w./-]+/[\w./-]*|[\w-]+\.\w+)`", text)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
