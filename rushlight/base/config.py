"""Every setting of Rushlight, in one place: the only file that reads the environment.

In: environment variables, read when a setting is first asked for. Out: typed, validated values.

    from rushlight.base.config import config

    if config.debug >= 2: ...
    with config.override(debug=3, only="k12"):    # this thread or task only, undone at the end
        ...

`rushlight settings` prints them all with their values and where each came from.
To add a setting, add one line to `SETTINGS` and one annotation to `Config`. The rule of values:
an override beats what a program told (`tell`), that beats the environment, and that the default.

Always true here: a value that is handed out has passed its check; a bad value raises `SettingError`
(a `ValueError`) that names the variable, what it was and what it may be.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from rushlight.base.log_names import are_logs

Value = bool | int | str
Parse = Callable[[str], Value]


class SettingError(ValueError):
    """A setting has a value that it cannot have, or a name that does not exist."""


# ------------------------------------------------------------------------------- kinds of settings


@dataclass(frozen=True)
class Kind:
    """How the text of an environment variable becomes a value, and what to say when it cannot."""

    type: type
    expects: str
    parse: Parse
    accepts: Callable[[Value], bool]


def _whole_number(low: int, high: int | None = None) -> Kind:
    def accepts(value: Value) -> bool:
        return isinstance(value, int) and value >= low and (high is None or value <= high)

    bound = f"of at least {low}" if high is None else f"from {low} to {high}"
    return Kind(int, f"a whole number {bound}", int, accepts)


def _choice(*names: str) -> Kind:
    return Kind(str, "one of " + ", ".join(names), str.strip, lambda value: value in names)


SWITCH_WORDS = {"1": True, "true": True, "on": True, "yes": True} | {
    "0": False, "false": False, "off": False, "no": False
}  # fmt: skip


def _parse_switch(text: str) -> bool:
    return SWITCH_WORDS[text.strip().lower()]


SWITCH = Kind(bool, "1 or 0 (also true/false, on/off, yes/no)", _parse_switch, lambda value: True)
TEXT = Kind(str, "text", str, lambda value: True)
# LLVM ends the process at a feature without its sign.
FEATURES = Kind(
    str, "LLVM features with + or -, separated by commas, as in '-avx512f,+fma'", str.strip,
    lambda value: not value or all(len(f) > 1 and f[0] in "+-" for f in str(value).split(",")),
)  # fmt: skip
# PyTorch's names for makers of products; which are ours: rushlight/backends/products.py.
PRODUCT_MAKERS = ("ATEN", "TRITON", "CPP", "CUTLASS", "CUTEDSL", "NVGEMM", "CK", "CKTILE")
MAKERS = Kind(
    str, f"names separated by commas, of {', '.join(PRODUCT_MAKERS)}", str.upper,
    lambda value: all(name.strip() in PRODUCT_MAKERS for name in str(value).split(",")),
)  # fmt: skip
LOGS = Kind(
    str, "names of PyTorch's logs separated by commas, as in 'recompiles,+dynamo'", str.strip,
    lambda value: are_logs(str(value)),
)  # fmt: skip
NAME = Kind(str, "a name", str.strip, lambda value: bool(value))
FOLDER = Kind(str, "the path of a folder", os.path.expanduser, lambda value: True)


# -------------------------------------------------------------------------------------- the table


def _cache_folder(name: str) -> Callable[[Mapping[str, str]], str]:
    """The default of a folder for what can be made, or fetched, again."""

    def default(environ: Mapping[str, str]) -> str:
        base = environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        return str(Path(base) / name)

    return default


@dataclass(frozen=True)
class Setting:
    """One row of the table. A callable default is computed from the environment."""

    field: str
    variable: str
    kind: Kind
    default: Value | Callable[[Mapping[str, str]], Value]
    doc: str

    def default_value(self, environ: Mapping[str, str]) -> Value:
        return self.default(environ) if callable(self.default) else self.default

    def check(self, value: Value, source: str) -> Value:
        # bool is an int to Python, but DEBUG=True is a slip.
        right_type = type(value) is self.kind.type
        if not right_type or not self.kind.accepts(value):
            raise SettingError(
                f"setting {self.field}: {value!r} (from {source}) is not {self.kind.expects}. "
                f"Set {self.variable}, or use config.override({self.field}=...). {self.doc}"
            )
        return value

    def parse(self, text: str) -> Value:
        source = f"the environment variable {self.variable}"
        try:
            value = self.kind.parse(text)
        except (ValueError, KeyError):
            raise SettingError(
                f"setting {self.field}: {text!r} (from {source}) is not {self.kind.expects}. "
                f"{self.doc}"
            ) from None
        return self.check(value, source)


SETTINGS: tuple[Setting, ...] = (
    Setting("debug", "DEBUG", _whole_number(0, 6), 0,
            "1 programs run, 2 their speed, 3 decisions, 4 source, 5 IR diffs, 6 rewrites."),
    Setting("dump", "DUMP", FOLDER, "",
            "Folder for the text of every stage of every program; empty: no dump."),
    Setting("only", "ONLY", TEXT, "",
            "Filter of DEBUG and DUMP: a kernel (k12), pass:NAME or FILE:LINE."),
    Setting("check", "CHECK", _whole_number(0, 2), 0,
            "1 verifies the IR after each pass, 2 also interprets before and after and compares."),
    Setting("debug_format", "DEBUG_FORMAT", _choice("text", "json"), "text",
            "Form of the debug lines: for people, or one JSON object a line."),
    Setting("logs", "TORCH_LOGS", LOGS, "",
            "What compile prints: recompiles, graph_breaks, dynamo (all); others print nothing."),
    Setting("backend", "RUSHLIGHT_BACKEND", NAME, "llvm",
            "The code generator of the device 'cpu', a folder of rushlight/backends."),
    Setting("cache_dir", "RUSHLIGHT_CACHE_DIR", FOLDER, _cache_folder("rushlight"),
            "Folder of the compiled programs; it must belong to you alone (mode 0700)."),
    Setting("cache", "RUSHLIGHT_CACHE", SWITCH, True,
            "Whether compiled programs are read from and written to the disk."),
    Setting("cache_limit_mb", "RUSHLIGHT_CACHE_LIMIT_MB", _whole_number(1), 2048,
            "Size in MiB above which the programs not used for longest are deleted from the disk."),
    Setting("c_compiler", "RUSHLIGHT_CC", TEXT, "",
            "C compiler of the backend 'c'; empty: cc, gcc, clang or ziglang, the first found."),
    Setting("opencl_device", "RUSHLIGHT_OPENCL_DEVICE", TEXT, "",
            "Part of the name of the OpenCL device to use; empty: a GPU if there is one."),
    Setting("opencl_options", "RUSHLIGHT_OPENCL_OPTIONS", TEXT, "",
            "More options for the OpenCL compiler; -cl-opt-disable compiles several times faster."),
    Setting("metal_emulation", "RUSHLIGHT_METAL_EMULATION", SWITCH, False,
            "Run Metal kernels as C++ on the host (slow, for tests) in place of a Metal device."),
    Setting("metal_package", "RUSHLIGHT_METAL_PACKAGE", FOLDER, "",
            "Folder of Metal kernels that were compiled ahead of time (`rushlight package`)."),
    Setting("triton_interpret", "RUSHLIGHT_TRITON_INTERPRET", SWITCH, False,
            "Run Triton kernels in Triton's interpreter (slow, for tests)."),
    Setting("max_autotune", "TORCHINDUCTOR_MAX_AUTOTUNE", SWITCH, False,
            "Measure schedules of products, on GPUs their makers too, and keep what was fastest."),
    Setting("tuning_progress", "RUSHLIGHT_TUNING_PROGRESS", SWITCH, True,
            "Whether a terminal shows how far measuring is (max_autotune on CPUs)."),
    Setting("max_autotune_gemm_backends", "TORCHINDUCTOR_MAX_AUTOTUNE_GEMM_BACKENDS", MAKERS,
            "ATEN,TRITON,CPP",
            "Who may make products on a GPU, the first that can: TRITON, CUTLASS (CuTe DSL)."),
    Setting("num_threads", "RUSHLIGHT_NUM_THREADS", _whole_number(0, 4096), 0,
            "Threads of a kernel; 0: as many as this process may use cores."),
    Setting("cpu_features", "RUSHLIGHT_CPU_FEATURES", FEATURES, "",
            "LLVM features to add or take from those of this CPU, as in '-avx512f,+fma'."),
    Setting("float32_products", "RUSHLIGHT_FLOAT32_PRODUCTS",
            _choice("highest", "high", "medium"), "highest",
            "How exact matrix products of float32 are on CPUs with AMX; elsewhere: highest."),
    Setting("packed_weights_mb", "RUSHLIGHT_PACKED_WEIGHTS_MB", _whole_number(0), 1024,
            "MiB for packed forms of weights that are used again unchanged, on CPUs; 0: none."),
    Setting("torch_home", "TORCH_HOME", FOLDER, _cache_folder("torch"),
            "Folder below which torch.hub keeps the files that it gets."),
    Setting("max_pending", "RUSHLIGHT_MAX_PENDING", _whole_number(1), 20000,
            "Recorded operations that may wait before a flush is forced."),
    Setting("spin_us", "RUSHLIGHT_SPIN_US", _whole_number(0, 1_000_000), 100,
            "Microseconds a worker thread spins after a launch before it sleeps."),
)  # fmt: skip

BY_FIELD: dict[str, Setting] = {setting.field: setting for setting in SETTINGS}


# --------------------------------------------------------------------------------------- the object


def _require_setting(field: str) -> Setting:
    try:
        return BY_FIELD[field]
    except KeyError:
        known = ", ".join(BY_FIELD)
        raise SettingError(f"there is no setting {field!r}; the settings are: {known}") from None


NO_OVERRIDES: Mapping[str, Value] = MappingProxyType({})


class _Asked:
    """What is asked very often: what was read before still holds while the overrides are
    NO_OVERRIDES, unless a program told the field."""

    overrides: Callable[[], Mapping[str, Value]]
    told: dict[str, Callable[[], Value]]


class Config(_Asked):
    """The settings as attributes. Reading is cheap: the environment is parsed once."""

    debug: int
    dump: str
    only: str
    check: int
    debug_format: str
    logs: str
    backend: str
    cache_dir: str
    cache: bool
    cache_limit_mb: int
    c_compiler: str
    opencl_device: str
    opencl_options: str
    metal_emulation: bool
    metal_package: str
    triton_interpret: bool
    max_autotune: bool
    tuning_progress: bool
    max_autotune_gemm_backends: str
    num_threads: int
    cpu_features: str
    float32_products: str
    packed_weights_mb: int
    torch_home: str
    max_pending: int
    spin_us: int

    def __init__(self, environ: Mapping[str, str] | None = None):
        self._environ = os.environ if environ is None else environ
        self._values: dict[str, Value] = {}
        self._overrides: ContextVar[Mapping[str, Value]] = ContextVar(
            "overrides", default=NO_OVERRIDES
        )
        self.__dict__["overrides"] = self._overrides.get
        self.__dict__["told"] = {}

    def __getattr__(self, field: str) -> Value:
        if field.startswith("__"):
            raise AttributeError(field)
        overrides = self._overrides.get()
        if field in overrides:
            return overrides[field]
        if field in self.told:
            return BY_FIELD[field].check(self.told[field](), f"torch's setting {field}")
        value = self._values.get(field)
        if value is None:
            value, _ = self._from_outside(_require_setting_attribute(field))
            self._values[field] = value
        return value

    def __setattr__(self, field: str, value: object) -> None:
        if not field.startswith("_"):
            raise AttributeError(f"settings are changed in a scope: config.override({field}=...)")
        super().__setattr__(field, value)

    @contextmanager
    def override(self, **values: Value) -> Iterator["Config"]:
        """Change settings inside a `with` block, for the current thread or task."""
        for field, value in values.items():
            _require_setting(field).check(value, "config.override")
        token = self._overrides.set({**self._overrides.get(), **values})
        try:
            yield self
        finally:
            self._overrides.reset(token)

    def tell(self, field: str, ask: Callable[[], Value]) -> None:
        """From now on `ask()` says the value, where there is no override: for modules of PyTorch's
        settings, in which programs set it."""
        _require_setting(field)
        self.told[field] = ask

    def outside(self, field: str) -> Value:
        """The value that the environment gives, or the default."""
        return self._from_outside(_require_setting(field))[0]

    def source(self, field: str) -> str:
        """Where the current value comes from: 'override', 'program', 'environment', 'default'."""
        setting = _require_setting(field)
        if field in self._overrides.get():
            return "override"
        if field in self.told and self.told[field]() != self.outside(field):
            return "program"
        return self._from_outside(setting)[1]

    @property
    def has_overrides(self) -> bool:
        """A cheap test for what is asked very often: what was read before still holds if not."""
        return self._overrides.get() is not NO_OVERRIDES

    def _from_outside(self, setting: Setting) -> tuple[Value, str]:
        text = self._environ.get(setting.variable)
        if text is None or text == "":
            return setting.default_value(self._environ), "default"
        return setting.parse(text), "environment"


def _require_setting_attribute(field: str) -> Setting:
    try:
        return _require_setting(field)
    except SettingError as error:
        raise AttributeError(str(error)) from None


config = Config()


def available_cores() -> int:
    """Cores that this process may use: its affinity mask where the system has one."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def child_environment(**changes: str) -> dict[str, str]:
    """A copy of the environment for a process that Rushlight starts, with changes."""
    return {**os.environ, **changes}


def format_table(settings: Config = config) -> str:
    """The table that `rushlight settings` prints."""
    rows = [("variable", "value", "from", "meaning")]
    for setting in SETTINGS:
        value = getattr(settings, setting.field)
        shown = str(int(value)) if isinstance(value, bool) else str(value) or "(empty)"
        rows.append((setting.variable, shown, settings.source(setting.field), setting.doc))
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    return "\n".join(
        "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[3]])
        for row in rows
    )
