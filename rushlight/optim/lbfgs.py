"""L-BFGS: Newton's method with an inverse Hessian from the last steps (Liu and Nocedal 1989).

The method decides by values, so every step looks at some: it is not for captured training steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.optim.grouped import Scalar, as_real, check_lr, options
from rushlight.optim.line_search import Point, StrongWolfe
from rushlight.optim.optimizer import Optimizer, Params

State = dict[str, Any]


class LBFGS(Optimizer):
    """Minimize a loss that is the same at each evaluation; all parameters form one vector.

    Args:
        max_iter: iterations of one `step`.
        max_eval: evaluations of one `step`; 1.25 times max_iter if None.
        tolerance_grad: stop when no element of the gradient is larger.
        tolerance_change: stop when neither the parameters nor the loss change by more.
        history_size: how many steps are remembered.
        line_search_fn: None or 'strong_wolfe'.

    Example:
        >>> weight = torch.tensor([3.0, -2.0], requires_grad=True)
        >>> optimizer = LBFGS([weight], line_search_fn="strong_wolfe")
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = (weight**2).sum()
        ...     loss.backward()
        ...     return loss
        >>> loss = optimizer.step(closure)
        >>> weight.abs().max().item() < 1e-4
        True
    """

    def __init__(
        self,
        params: Params,
        lr: Scalar = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        given = options(locals())
        check_lr(lr)
        given["max_eval"] = max_iter * 5 // 4 if max_eval is None else max_eval
        super().__init__(params, given)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    # --- all parameters as one vector -----------------------------------------------------

    def _gather_flat_grad(self) -> torch.Tensor:
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in self._params]
        return torch.cat([as_real(grad).reshape(-1) for grad in grads], 0)

    def _add_grad(self, step_size: float, direction: torch.Tensor) -> None:
        """Move all parameters along a direction."""
        start = 0
        for param in map(as_real, self._params):
            part = direction[start : start + param.numel()]
            param.add_(part.view_as(param), alpha=step_size)
            start += param.numel()

    def _evaluate_at(
        self, closure: Callable[[], Any], start: list[torch.Tensor], t: float, d: torch.Tensor
    ) -> tuple[float, torch.Tensor]:
        """The loss and the gradient at a distance from the start, where the parameters go back."""
        self._add_grad(t, d)
        loss = float(closure())
        grad = self._gather_flat_grad()
        for param, value in zip(self._params, start, strict=True):
            param.copy_(value)
        return loss, grad

    # --- the step -------------------------------------------------------------------------

    @torch.no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Iterate until a limit or a tolerance is reached; return the first loss of `closure`."""
        evaluate = torch.enable_grad()(closure)
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)

        first_loss = evaluate()
        loss, evaluations = float(first_loss), 1
        state["func_evals"] += 1
        grad = self._gather_flat_grad()
        if grad.abs().max().item() <= group["tolerance_grad"]:
            return first_loss
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            self._next_direction(state, grad, group["history_size"])
            d = state["d"]
            state["prev_flat_grad"], state["prev_loss"] = grad.clone(), loss
            t = float(group["lr"])
            if state["n_iter"] == 1:
                t *= min(1.0, 1.0 / grad.abs().sum().item())
            slope = grad.dot(d).item()
            if slope > -group["tolerance_change"]:
                state["t"] = t
                break
            is_last = iteration == group["max_iter"]
            point, count = self._move(evaluate, Point(t, loss, grad, slope), d, is_last)
            t, loss, grad = point.t, point.loss, point.grad
            state["t"] = t
            evaluations += count
            state["func_evals"] += count
            if is_last or evaluations >= group["max_eval"] or self._is_done(grad, loss, state):
                break
        return first_loss

    def _move(
        self, evaluate: Callable[[], Any], start: Point, d: torch.Tensor, is_last: bool
    ) -> tuple[Point, int]:
        """Take the step along d; return the point reached and the number of evaluations."""
        rule = self.param_groups[0]["line_search_fn"]
        if rule is None:
            self._add_grad(start.t, d)
            if is_last:  # nobody will look at the loss there
                return start, 0
            return Point(start.t, float(evaluate()), self._gather_flat_grad(), 0.0), 1
        if rule != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        before = [param.clone() for param in self._params]
        search = StrongWolfe(
            lambda t: self._evaluate_at(evaluate, before, t, d), d, start._replace(t=0.0)
        )
        point = search.run(start.t)
        self._add_grad(point.t, d)
        return point, search.count

    def _is_done(self, grad: torch.Tensor, loss: float, state: State) -> bool:
        group = self.param_groups[0]
        if grad.abs().max().item() <= group["tolerance_grad"]:
            return True
        if (state["d"] * state["t"]).abs().max().item() <= group["tolerance_change"]:
            return True
        return abs(loss - state["prev_loss"]) < group["tolerance_change"]

    def _next_direction(self, state: State, grad: torch.Tensor, history_size: int) -> None:
        """Set `d` to minus the approximate inverse Hessian times the gradient."""
        if state["n_iter"] == 1:
            state.update(d=-grad, old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return
        y, s = grad - state["prev_flat_grad"], state["d"] * state["t"]
        product = y.dot(s).item()
        past = (state["old_dirs"], state["old_stps"], state["ro"])
        if product > 1e-10:
            if len(past[0]) == history_size:
                for entries in past:
                    entries.pop(0)
            for entries, entry in zip(past, (y, s, 1.0 / product), strict=True):
                entries.append(entry)
            state["H_diag"] = product / y.dot(y).item()
        # Numbers, not tensors, between the products: so all of them are one compiled program.
        al = state.setdefault("al", [None] * history_size)
        q = -grad
        for i in reversed(range(len(past[0]))):
            al[i] = past[1][i].dot(q).item() * past[2][i]
            q.add_(past[0][i], alpha=-al[i])
        d = q * state["H_diag"]
        for i in range(len(past[0])):
            back = past[0][i].dot(d).item() * past[2][i]
            d.add_(past[1][i], alpha=al[i] - back)
        state["d"] = d
