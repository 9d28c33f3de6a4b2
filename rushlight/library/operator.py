"""One operator: its kernels by device, its gradient, and how a call runs.

In: arguments. Out: what the kernel gives. The first of these that is registered runs: the kernel of
the CPU, the one for all devices, the one made of other operators. The last kind is differentiable
by itself; the others need `register_autograd`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import rushlight as torch
from rushlight.library.schema import Schema, default_value

# Names of places a kernel may be registered at, in the order in which a call looks.
CPU_KEYS = ("CPU", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
IMPLICIT = "CompositeImplicitAutograd"
AUTOGRAD_KEYS = ("Autograd", "AutogradCPU")
DEVICE_KEYS = {"cpu": "CPU", "cuda": "CUDA", "xpu": "XPU", "mps": "MPS", "meta": "Meta"}


class Operator:
    """`torch.ops.space.name.overload`; also what `custom_op` gives."""

    def __init__(self, schema: Schema, tags: Sequence[Any] = ()) -> None:
        self._schema, self.tags = schema, list(tags)
        self._qualname = schema.name
        self.namespace, _, self._opname = schema.name.rpartition("::")
        self.kernels: dict[str, Callable[..., Any]] = {}
        self.backward: Callable[..., Any] | None = None
        self.setup_context: Callable[..., Any] | None = None
        self.disabled: set[str] = set()
        self._node = _function_of(self)
        self.__name__ = f"{self._opname}.{self._overloadname}"
        self.__module__ = f"torch.ops.{self.namespace}"

    @property
    def _overloadname(self) -> str:
        return self._schema.overload or "default"

    @property
    def default(self) -> Operator:
        return self

    @property
    def op(self) -> Operator:
        return self

    def overloads(self) -> list[str]:
        return [self._overloadname]

    def name(self) -> str:
        overload = f".{self._schema.overload}" if self._schema.overload else ""
        return f"{self._qualname}{overload}"

    def __repr__(self) -> str:
        return f"<Operator({self._qualname})>"

    def __str__(self) -> str:
        return f"{self.namespace}.{self._opname}.{self._overloadname}"

    # Registering ----------------------------------------------------------------------------

    def register_kernel(
        self, device_types: str | Sequence[str] | None, fn: Callable[..., Any] | None = None, /
    ) -> Callable[..., Any]:
        """The function for some devices; None: for all. Usable as a decorator."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            names = [device_types] if device_types is None or isinstance(device_types, str) else (
                device_types)  # fmt: skip
            for device in names:
                self.add_kernel(CPU_KEYS[1] if device is None else DEVICE_KEYS[device], function)
            return function

        return register if fn is None else register(fn)

    def add_kernel(self, key: str, function: Callable[..., Any]) -> None:
        """The function for one of PyTorch's dispatch keys."""
        self.kernels[key] = function

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """The function for tensors without data: it gives results of the right shape and dtype."""
        self.kernels["Meta"] = fn
        return fn

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """The gradient: `backward(ctx, *grads)`, and `setup_context(ctx, inputs, output)`."""
        if self._schema.is_mutable:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self} with schema "
                f"{self._schema}. Please create a functional operator and register an autograd "
                "formula for that."
            )
        self.backward, self.setup_context = backward, setup_context

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """Kept; `vmap` of an operator asks for it."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self.kernels["FuncTorchBatched"] = function
            return function

        return register if func is None else register(func)

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """Kept: the dtype of the inputs inside `autocast`."""
        self.kernels[f"Autocast{device_type.upper()}"] = lambda: cast_inputs

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """Inside, the kernel of a device runs or does not."""
        key = DEVICE_KEYS[device_type]
        before = set(self.disabled)
        (self.disabled.discard if enabled else self.disabled.add)(key)
        try:
            yield
        finally:
            self.disabled = before

    # Calling --------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound = self._bind(args, kwargs)
        autograd = next((self.kernels[k] for k in AUTOGRAD_KEYS if k in self.kernels), None)
        if autograd is not None:
            return self._call(autograd, bound)
        tensors = [value for value in leaves(bound) if isinstance(value, torch.Tensor)]
        kernel, differentiable = self._choose(tensors)
        wants = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
        if differentiable or not wants:
            return self._checked(self._call(kernel, bound), tensors, differentiable)
        return self._node(kernel, bound)

    def run(self, kernel: Callable[..., Any], bound: list[Any]) -> Any:
        """The kernel's results, not recorded for gradients."""
        with torch.no_grad():
            tensors = [value for value in leaves(bound) if isinstance(value, torch.Tensor)]
            return self._checked(self._call(kernel, bound), tensors, False)

    def _bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """All arguments in the order of the schema."""
        params = self._schema.arguments
        if len(args) > sum(not p.kwarg_only for p in params):
            raise RuntimeError(
                f"{self.name()}() expected at most {sum(not p.kwarg_only for p in params)} "
                f"argument(s) but received {len(args)} argument(s). Declaration: {self._schema}"
            )
        left, bound = dict(kwargs), []
        for position, param in enumerate(params):
            if position < len(args):
                value = args[position]
            elif param.name in left:
                value = left.pop(param.name)
            elif param.default is not None:
                value = default_value(param.default)
            else:
                raise RuntimeError(
                    f"{self.name()}() is missing value for argument '{param.name}'. Declaration: "
                    f"{self._schema}"
                )
            self._check_type(param.name, param.type, value)
            bound.append(value)
        if left:
            raise RuntimeError(
                f"Unknown keyword argument '{next(iter(left))}' for operator '{self.name()}'. "
                f"Schema: {self._schema}"
            )
        return bound

    def _check_type(self, name: str, kind: str, value: Any) -> None:
        plain = kind.partition("(")[0]
        if plain == "Tensor" and "[]" not in kind and not isinstance(value, torch.Tensor):
            if value is None and kind.endswith("?"):
                return
            raise RuntimeError(
                f"{self.name()}() Expected a value of type 'Tensor' for argument '{name}' but "
                f"instead found type '{type(value).__name__}'. Declaration: {self._schema}"
            )

    def _choose(self, tensors: Sequence[Any]) -> tuple[Callable[..., Any], bool]:
        """The kernel to run, and whether it is made of differentiable operators."""
        if any(tensor.is_meta for tensor in tensors):
            if "Meta" in self.kernels:
                return self.kernels["Meta"], False
            if IMPLICIT not in self.kernels:
                raise RuntimeError(
                    f"There was no fake impl registered for {self!r}. This is necessary for "
                    "tensors without data. Please use `op.register_fake` to add an fake impl."
                )
        for key in CPU_KEYS:
            if key in self.kernels and key not in self.disabled:
                return self.kernels[key], False
        if IMPLICIT in self.kernels:
            return self.kernels[IMPLICIT], True
        raise NotImplementedError(
            f"Could not run '{self.name()}' with arguments from the 'CPU' backend: it has kernels "
            f"for {sorted(self.kernels) or 'nothing'}."
        )

    def _call(self, kernel: Callable[..., Any], bound: Sequence[Any]) -> Any:
        pairs = list(zip(self._schema.arguments, bound, strict=True))
        named = {param.name: value for param, value in pairs if param.kwarg_only}
        return kernel(*(value for param, value in pairs if not param.kwarg_only), **named)

    def _checked(self, result: Any, tensors: Sequence[Any], differentiable: bool) -> Any:
        if not differentiable:
            for out in leaves(result):
                if isinstance(out, torch.Tensor) and any(out is tensor for tensor in tensors):
                    raise RuntimeError(
                        f"{self.name()}: The output of this custom operator (1) must not also be "
                        "an input to this custom operator and (2) may not alias any inputs to this "
                        "custom operator or other returns. Please return a clone of the offending "
                        "output tensor(s) (e.g. return x.clone())."
                    )
        return result


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def _function_of(operator: Operator) -> Callable[[Callable[..., Any], list[Any]], Any]:
    """A call on the tape: forward runs the kernel, backward the registered gradient."""

    class Call(torch.autograd.Function):
        """Takes tensors alone; lists of tensors are taken apart around it."""

        @staticmethod
        def forward(ctx: Any, kernel: Any, put: Any, *tensors: Any) -> Any:
            bound = put(tensors)
            result = operator.run(kernel, bound)
            # What the gradient keeps must be the tensors that the tape knows: these ones.
            if operator.setup_context is not None:
                operator.setup_context(ctx, tuple(bound), result)
            ctx.places = put
            return tuple(result) if isinstance(result, list) else result

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            if operator.backward is None:
                raise RuntimeError(
                    f"Trying to backward through {operator} but no autograd formula was "
                    "registered. Please use register_autograd to add one."
                )
            found = operator.backward(ctx, *grads)
            found = list(found) if isinstance(found, tuple | list) else [found]
            return (None, None, *ctx.places.take(found))

    Call.__name__ = Call.__qualname__ = f"{operator.namespace}_{operator._opname}"

    def call(kernel: Callable[..., Any], bound: list[Any]) -> Any:
        places = Places(bound)
        return Call.apply(kernel, places, *places.tensors)

    return call


class Places:
    """Where the tensors stand among bound arguments, which may be lists of tensors."""

    def __init__(self, bound: list[Any]) -> None:
        self._bound = bound
        self.tensors = [leaf for leaf in leaves(bound) if isinstance(leaf, torch.Tensor)]

    def __call__(self, tensors: Sequence[Any]) -> list[Any]:
        """The arguments with these tensors."""
        given = iter(tensors)
        return [self._fill(value, given) for value in self._bound]

    def _fill(self, value: Any, given: Iterator[Any]) -> Any:
        if isinstance(value, torch.Tensor):
            return next(given)
        if isinstance(value, list | tuple):
            return type(value)(self._fill(item, given) for item in value)
        return value

    def take(self, found: list[Any]) -> list[Any]:
        """Of one gradient per argument, those that belong to the tensors."""
        if len(found) < len(self._bound):
            found = [*found, *[None] * (len(self._bound) - len(found))]
        taken: list[Any] = []
        for value, grad in zip(self._bound, found, strict=False):
            count = sum(isinstance(leaf, torch.Tensor) for leaf in leaves(value))
            many = isinstance(value, list | tuple)
            taken += (list(grad) if grad is not None else [None] * count) if many else (
                [grad] * count)  # fmt: skip
        return taken
