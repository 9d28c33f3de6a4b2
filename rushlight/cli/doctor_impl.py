"""The examinations behind `rushlight doctor`.

Parts of Rushlight and third-party packages are imported by name and inside a guard, because each of
them may be what is broken.
"""

import importlib
import importlib.metadata
import importlib.util
import os
import platform
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rushlight.base.config import SETTINGS, SettingError, available_cores, config

State = Literal["ok", "info", "warning", "problem"]

PACKAGE = Path(__file__).resolve().parents[1]

# package -> why it is there, and whether Rushlight can do without it
PACKAGES = {
    "numpy": ("host arrays", True),
    "llvmlite": ("the CPU code generator", True),
    "ml_dtypes": ("bfloat16 and float8 on the host", True),
    "tqdm": ("progress bars", True),
    "matplotlib": ("plots as PNG; without it SVG (extra: plot)", False),
    "torch": ("only the parity tests compare with it (extra: parity)", False),
}

# What a reader wants to know of some 150 LLVM features.
NOTABLE_FEATURES = (
    "sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512bf16",
    "avx512fp16", "avx512vnni", "amx-tile", "amx-bf16", "amx-int8",
    "neon", "fullfp16", "bf16", "dotprod", "i8mm", "sve", "sve2", "sme", "v", "zvfh",
)  # fmt: skip


@dataclass(frozen=True)
class Line:
    """One finding."""

    state: State
    name: str
    text: str


def examine() -> dict[str, list[Line]]:
    """All findings, by section."""
    sections: dict[str, Callable[[], list[Line]]] = {
        "Rushlight": examine_self,
        "Packages": examine_packages,
        "Processor": examine_processor,
        "Code generators": examine_backends,
        "Cache": examine_cache,
        "Settings that are not the default": examine_settings,
    }
    return {title: _guarded(title, look) for title, look in sections.items()}


def _guarded(title: str, look: Callable[[], list[Line]]) -> list[Line]:
    try:
        return look()
    except Exception as error:
        return [Line("problem", title.lower(), _reason(error))]


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def examine_self() -> list[Line]:
    try:
        version = importlib.metadata.version("rushlight")
    except importlib.metadata.PackageNotFoundError:
        version = "not installed, run from a checkout"
    lines = [
        Line("info", "version", f"{version}, in {PACKAGE}"),
        Line("info", "python", f"{platform.python_version()} on {platform.platform()}"),
    ]
    package: Any = importlib.import_module("rushlight")
    if hasattr(package, "tensor"):
        lines.append(_try_sum(package))
    else:
        lines.append(Line("problem", "tensors", "this build has no rushlight.tensor"))
    return lines


def _try_sum(package: Any) -> Line:
    try:
        total = (package.arange(8) * 2).sum().item()
    except Exception as error:
        return Line("problem", "first sum", _reason(error))
    right = total == 56
    return Line("ok" if right else "problem", "first sum", f"{total} (it is 56)")


def examine_packages() -> list[Line]:
    lines = []
    for name, (why, needed) in PACKAGES.items():
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            state: State = "problem" if needed else "info"
            lines.append(Line(state, name, f"not installed: {why}"))
        else:
            lines.append(Line("ok", name, f"{version}: {why}"))
    return lines


def examine_processor() -> list[Line]:
    cores, threads = available_cores(), config.num_threads
    lines = [
        Line("info", "machine", platform.machine()),
        Line("info", "cores", f"{cores} of {os.cpu_count()} may be used by this process"),
        Line(
            "warning" if threads > cores else "info",
            "threads",
            f"{threads or cores}" + (" (more than there are cores)" if threads > cores else ""),
        ),
    ]
    if importlib.util.find_spec("llvmlite") is None:
        return [*lines, Line("problem", "features", "unknown: llvmlite is not installed")]
    binding: Any = importlib.import_module("llvmlite.binding")
    features = binding.get_host_cpu_features()
    present = [name for name in NOTABLE_FEATURES if features.get(name)]
    llvm = ".".join(str(part) for part in binding.llvm_version_info)
    return [
        *lines,
        Line("info", "LLVM", f"{llvm}, calls this CPU {binding.get_host_cpu_name()}"),
        Line("info", "features", " ".join(present) or "none of note"),
        *_examine_use(),
    ]


def _examine_use() -> list[Line]:
    """What the code generator makes of the processor: vectors, changed features, threads."""
    manifest: Any = importlib.import_module(f"rushlight.backends.{config.backend}")
    caps = manifest.BACKEND.find()
    if hasattr(caps, "reason"):
        return []  # the section of code generators says why
    width = caps.vector_bytes
    lines = [Line("info", "vectors", f"{width} bytes: {max(1, width // 4)} float32 at once")]
    if config.cpu_features:
        change = f"changed by RUSHLIGHT_CPU_FEATURES: {config.cpu_features}"
        lines.append(Line("info", "features used", change))
    for part, title, function in (
        ("pool", "thread pool", "describe_pool"),
        ("tiles_here", "tile registers", "describe_tiles"),
    ):
        name = f"rushlight.backends.{config.backend}.{part}"
        if importlib.util.find_spec(name) is not None:
            state = getattr(importlib.import_module(name), function)()
            lines.append(Line("info", title, state))
    return lines


def examine_backends() -> list[Line]:
    folder = PACKAGE / "backends"
    names = sorted(path.parent.name for path in folder.glob("*/__init__.py"))
    lines = [line for name in names if name != "cfamily" for line in _examine_backend(name)]
    chosen = config.backend
    if chosen not in names:
        have = ", ".join(names) or "none"
        lines.append(Line("problem", chosen, f"RUSHLIGHT_BACKEND names it; there are: {have}"))
    return lines


def _examine_backend(name: str) -> list[Line]:
    """Ask the manifest of a backend for its device, and for which tensors it computes."""
    missing: State = "problem" if name == config.backend else "info"
    registry: Any = importlib.import_module("rushlight.backends")
    owners = getattr(registry, "DEVICE_BACKENDS", {})
    kinds = [kind for kind, backend in owners.items() if backend == name]
    named = ", ".join(f'torch.device("{kind}")' for kind in kinds)
    try:
        manifest: Any = importlib.import_module(f"rushlight.backends.{name}").BACKEND
        found = manifest.find()
    except Exception as error:
        return [Line(missing, name, _reason(error))]
    # A backend that is not there answers with a reason instead of its capabilities.
    if hasattr(found, "reason"):
        without = f"not here, nor {named}" if kinds else "not here"
        return [Line(missing, name, f"{without}: {_why(found)}")]
    serves = getattr(manifest, "serves", None)
    others = {kind: serves(kind) for kind in kinds if serves is not None}
    lines = [Line("info", kind, f"not here: {_why(why)}") for kind, why in others.items() if why]
    uses = [f'torch.device("{kind}")' for kind in kinds if not others.get(kind)]
    uses += ["the CPU uses it"] if missing == "problem" else []
    return [Line("ok", name, ", ".join([_describe(found), *uses])), *lines]


def _why(missing: Any) -> str:
    return (
        f"{missing.reason} ({missing.fix})" if getattr(missing, "fix", "") else str(missing.reason)
    )


def _describe(caps: Any) -> str:
    """The capabilities that say most about a target."""
    parts = [str(getattr(caps, "name", caps))]
    if getattr(caps, "group_threads", 1) > 1:
        parts.append(f"groups of {caps.group_threads} threads")
        parts += [f"subgroups of {caps.subgroup}"] if caps.subgroup > 1 else []
        return f"{', '.join(parts)} ({', '.join(filter(None, caps.features.split('|')))})"
    for field, form in (("vector_bytes", "vectors of {} bytes"), ("threads", "{} threads")):
        if hasattr(caps, field):
            parts.append(form.format(getattr(caps, field)))
    return ", ".join(parts).replace(", 1 threads", ", 1 thread")


def examine_cache() -> list[Line]:
    folder = Path(config.cache_dir)
    if not config.cache:
        return [Line("info", "disk cache", "switched off by RUSHLIGHT_CACHE")]
    if not folder.exists():
        return [Line("ok", "folder", f"{folder} (does not exist yet; made at the first use)")]
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    limit = config.cache_limit_mb
    return [
        _examine_owner(folder),
        Line("info", "content", f"{len(sizes)} files, {sum(sizes) / 2**20:.1f} of {limit} MiB"),
    ]


def _examine_owner(folder: Path) -> Line:
    """Object code is code: nobody else may be able to write it."""
    status = folder.stat()
    mode = stat.S_IMODE(status.st_mode)
    if hasattr(os, "getuid") and status.st_uid != os.getuid():
        return Line("warning", "folder", f"{folder} belongs to another user, so it is not used")
    if sys.platform != "win32" and mode & 0o077:
        mend = f"chmod 700 {folder}"
        return Line("warning", "folder", f"{folder} has mode {mode:o}, so it is not used: {mend}")
    return Line("ok", "folder", str(folder))


def examine_settings() -> list[Line]:
    lines = []
    for setting in SETTINGS:
        try:
            value, source = getattr(config, setting.field), config.source(setting.field)
        except SettingError as error:
            lines.append(Line("problem", setting.variable, str(error)))
            continue
        if source != "default":
            lines.append(Line("info", setting.variable, f"{value} (from the {source})"))
    return lines or [Line("info", "none", "")]
