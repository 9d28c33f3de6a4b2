"""Who may import whom: the parts of rushlight/, and for each the parts that it may know."""

from source import PACKAGE

# A part of the package may import the parts named here, and itself. "backends/registry" is the file
# backends/__init__.py alone.
_CORE = {"base", "ir", "ops"}
PUBLIC = {"rushlight"}
ARROWS: dict[str, set[str]] = {
    "base": set(),
    "ir": {"base"},
    "ops": {"base", "ir"},
    "autograd": _CORE,
    "compiler": _CORE,
    "runtime": {"base"},
    "backends/registry": {"compiler"},
    "backends": {"base", "ir", "compiler", "runtime", "backends/registry"},
    "engine": _CORE | {"compiler", "runtime", "backends/registry"},
    "tensors": _CORE | {"autograd", "engine", "runtime"},
    "attention": _CORE | {"autograd", "engine", "tensors"} | PUBLIC,
    "distributed": {"amp", "base", "nn", "optim", "overrides", "serialization", "utils"} | PUBLIC,
    "_subclasses": {"overrides"} | PUBLIC,
    # Public namespaces that are one file at the top: they publish what `tensors` defines.
    "linalg": {"tensors"},
    "special": {"tensors"},
    "masked": {"tensors"},
    "functional": {"tensors"},
    "fft": {"tensors"},
    "signal": PUBLIC,
    "random": {"tensors"},
    "safetensors": {"serialization"},
    "amp": PUBLIC,
    "cuda": {"amp", "base", "runtime", "tensors"},
    # Names that PyTorch scripts ask for; what they know is in tensors/device_calls.py.
    "accelerator": {"base", "engine", "tensors"},
    "cpu": {"base"},
    "mps": {"tensors"},
    "mtia": set(),
    "xpu": {"engine", "tensors"},
    # Modules of PyTorch's that are one small part each, written on the public API.
    "jit": {"base"} | PUBLIC,
    "types": PUBLIC,
    "overrides": {"tensors"} | PUBLIC,
    "sparse": {"overrides"} | PUBLIC,
    "profiler": {"engine"},
    "hub": {"base"} | PUBLIC,
    "futures": set(),
    "monitor": set(),
    "_logging": {"base"},
    "quasirandom": PUBLIC,
    "func": _CORE | {"autograd", "engine", "tensors", "utils"} | PUBLIC,
    "distributions": PUBLIC,
    "fx": {"overrides"} | PUBLIC,
    "onnx": {"base"},
    "multiprocessing": set(),
    "storage": {"tensors"},
    "library": PUBLIC,
    "_C": PUBLIC,
    "_dynamo": {"compiler", "nn"} | PUBLIC,
    "_inductor": {"base"},  # a few of its settings are heard: base/config.py, `tell`
    "version": set(),
    "__main__": {"cli"},
    "_utils": PUBLIC,
    "_lowrank": PUBLIC,
    "_tensor_str": {"tensors"},
    "_higher_order_ops": {"utils"} | PUBLIC,
    "return_types": {"tensors"},
    "__config__": PUBLIC,
    # Which names there are, and `import torch`. It knows nothing but errors and its own list.
    "names": {"base"},
    "as_torch": set(),
    # Modules and public names of what is computed there.
    "nn": PUBLIC | {"attention", "losses"},
    "optim": PUBLIC,
    # The checks of targets are those of the op cross_entropy.
    "losses": PUBLIC | {"ops", "tensors"},
    # Loaded bytes become tensors without a copy; what is shared is written once (tensors.cells).
    "serialization": PUBLIC | {"tensors"},
    "utils": {"base", "overrides"} | PUBLIC,
    "export": {"base", "fx", "overrides", "tensors"} | PUBLIC,
    "testing": _CORE | {"backends/registry", "compiler", "engine", "runtime"} | PUBLIC,
    # What one subcommand needs is loaded by its name when it runs.
    "cli": {"base"} | PUBLIC,
    # rushlight/__init__.py gathers the public names of everything; whole parts load when asked for.
    "rushlight": {"autograd", "base", "ops", "tensors"},
}

# What every part but these may import: it knows nothing of any of them.
FOR_ALL = {"names"}
NOT_FOR = {"base", "ir", "names"}

# Single files that may import one module more than their part, each with the reason.
EXCEPTIONS: dict[str, set[str]] = {
    # nn.functional publishes the functions of the core one by one; they have no other public name.
    "rushlight/nn/functional.py": {"rushlight.tensors.functional"},
    "rushlight/nn/composed.py": {"rushlight.tensors.functional"},
    "rushlight/nn/multihead.py": {"rushlight.tensors.functional"},
    # A call of a model is where the last turn of a loop may be computed; it is no public name.
    "rushlight/nn/modules/module_call.py": {"rushlight.tensors.loop_turns"},
}


def part_of(parts: tuple[str, ...]) -> str:
    """The key of ARROWS for a path or module below the package."""
    if not parts or parts[0] == "__init__":
        return PACKAGE
    if parts[0] == "backends" and (len(parts) == 1 or parts[1] == "__init__"):
        return "backends/registry"
    return parts[0]
