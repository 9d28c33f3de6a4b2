"""Files that a tool writes are what the tool would write now."""

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def load_tool(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_stub_of_the_ops_is_up_to_date():
    tool = load_tool("make_ops_stub")
    written = tool.STUB.read_text(encoding="utf-8")
    assert written == tool.stub_text(), "run: python tools/make_ops_stub.py"
