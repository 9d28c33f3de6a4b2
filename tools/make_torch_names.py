"""Write rushlight/names/torch_names.txt: the public names of PyTorch, by module; and beside it
inner_names.txt: the modules of the parts that are not there, with all their names.

    PYTHON_WITH_TORCH tools/make_torch_names.py     # needs torch 2.13.0, and nothing of Rushlight

A name counts when the module's `__all__` has it, or (without one) when it is no module and was made
below `torch`. The list says what may be asked for; what each thing does is said nowhere in it.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch

LIST = Path(__file__).resolve().parents[1] / "rushlight" / "names" / "torch_names.txt"
INNER = LIST.with_name("inner_names.txt")
# Parts whose modules are made of stand-ins (rushlight/names/refused.py).
STOOD_IN = """ao quantization nn.quantized nn.intrinsic distributed _subclasses
utils.cpp_extension fx.experimental fx.passes""".split()
# Programs for one device's internals, code of PyTorch's own tests, and what it has deprecated.
LEFT_OUT = ("testing._internal", "ao", "quantization", "contrib", "mtia", "package", "nativert",
            "nn.qat", "nn.quantizable", "nn.quantized", "nn.intrinsic", "nn.backends", "backends",
            "onnx", "export", "distributed", "cuda", "xpu", "mps", "numa", "utils", "fx", "jit",
            "nn.modules", "testing", "multiprocessing")  # fmt: skip
# Modules below those that are read all the same.
KEPT = """backends.cudnn backends.cuda backends.mkl backends.mkldnn backends.mps backends.openmp
cuda cuda.amp xpu mps fx jit onnx export distributed multiprocessing testing utils utils.data
utils.checkpoint utils.hooks utils.dlpack utils.tensorboard utils.benchmark utils.flop_counter
cpu cpu.amp mtia
ao.quantization ao.nn.quantized nn.quantized nn.intrinsic quantization distributed.tensor
distributed.tensor.parallel distributed.tensor.placement_types distributed._tensor
distributed._functional_collectives distributed.device_mesh distributed.fsdp distributed.fsdp.wrap
distributed.fsdp.api distributed.fsdp.fully_sharded_data_parallel distributed._composable.fsdp
distributed.fsdp.sharded_grad_scaler distributed.checkpoint distributed.checkpoint.state_dict
distributed.checkpoint.default_planner distributed.algorithms._checkpoint.checkpoint_wrapper
distributed.algorithms.join distributed.elastic.multiprocessing.errors distributed.nn.functional
distributed.optim distributed.rpc distributed.pipelining _subclasses.fake_tensor nested
_higher_order_ops.flex_attention export.exported_program""".split()


def modules() -> list[str]:
    found = ["torch", *(f"torch.{name}" for name in KEPT)]
    for info in pkgutil.walk_packages(torch.__path__, "torch.", onerror=lambda name: None):
        inner = info.name.removeprefix("torch.")
        hidden = any(part.startswith("_") for part in inner.split("."))
        left = any(inner == name or inner.startswith(f"{name}.") for name in LEFT_OUT)
        if not hidden and not left:
            found.append(info.name)
    return sorted(set(found))


def names_of(module: ModuleType) -> list[str]:
    listed = getattr(module, "__all__", None)
    if listed:
        return sorted({name for name in listed if isinstance(name, str)})
    return sorted(name for name in dir(module) if _is_own(module, name))


def _is_own(module: ModuleType, name: str) -> bool:
    if name.startswith("_"):
        return False
    value = getattr(module, name)
    if inspect.ismodule(value):
        return False
    return str(getattr(value, "__module__", "torch")).startswith("torch")


def inner_modules() -> list[str]:
    """Every module below the parts that are stood in for, private ones too."""
    found = []
    for part in STOOD_IN:
        top = importlib.import_module(f"torch.{part}")
        below = pkgutil.walk_packages(getattr(top, "__path__", ()), f"torch.{part}.",
                                      onerror=lambda name: None)  # fmt: skip
        found += [f"torch.{part}", *(info.name for info in below)]
    # Some modules have a second name.
    starts = tuple(f"torch.{part}." for part in STOOD_IN)
    return sorted({*found, *(name for name in sys.modules if name.startswith(starts))})


def inner_names_of(module: ModuleType) -> list[str]:
    names = (name for name in dir(module) if not name.startswith("__"))
    values = ((name, getattr(module, name)) for name in names)
    return sorted(name for name, value in values if not inspect.ismodule(value)
                  and str(getattr(value, "__module__", "torch")).startswith("torch"))  # fmt: skip


def main() -> None:
    warnings.simplefilter("ignore")
    methods = [name for name in dir(torch.Tensor) if not name.startswith("_")]
    write(LIST, "Public names", [*lines_of(modules(), names_of),
                                 f"torch.Tensor: {' '.join(methods)}"])  # fmt: skip
    write(INNER, "Names in parts that are not there", lines_of(inner_modules(), inner_names_of))


def lines_of(modules: list[str], names_of: Callable[[ModuleType], list[str]]) -> list[str]:
    """`module: name name ...` for each module that can be imported."""
    lines = []
    for name in modules:
        try:
            module = importlib.import_module(name)
        except BaseException as error:  # a module may need a device or a package, or be a program
            print(f"left out {name}: {error}")
            continue
        lines.append(f"{name}: {' '.join(names_of(module))}".rstrip())
    return lines


def write(path: Path, what: str, lines: list[str]) -> None:
    title = f"# {what} of PyTorch {torch.__version__.partition('+')[0]}, by module."
    path.write_text("\n".join([title, *lines]) + "\n", encoding="utf-8")
    print(
        f"{path.name}: {len(lines)} modules, {sum(len(line.split()) - 1 for line in lines)} names"
    )


if __name__ == "__main__":
    main()
