"""Symbolic integers: polynomials over atoms, used for sizes and for index maps.

An `Expr` is a sum of integer multiples of products of atoms. An atom is a `Var` (a size, a loop
axis, a dynamic offset, a loaded value), a `FloorDiv`, a `Mod`, a `Min` or a `Max` of expressions.
A constant expression is always returned as a plain `int`, so `a * 2` may be an int or an Expr.
Everything is immutable and hashable; equal polynomials are equal objects by `==`.

Bounds drive the simplifier: a `Var` knows `lo` and `hi` (inclusive; an int, an Expr or None).

>>> T = Var("T", lo=1)
>>> i, b = Var("i", lo=0, hi=T - 1, kind="axis"), Var("b", lo=0)
>>> floordiv(b * T + i, T), mod(b * T + i, T)
(b, i)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Monomial = tuple["Atom", ...]


class Atom:
    """A factor of a monomial. Subclasses set `key` (hashable identity), `order` (text to sort by),
    `op` ("" for a variable) and `lo`, `hi`."""

    __slots__ = ("key", "order", "op", "lo", "hi", "_hash")
    key: tuple
    order: str
    op: str
    lo: int | Expr | None
    hi: int | Expr | None

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Atom) and self.key == other.key)

    def __lt__(self, other: Atom) -> bool:
        return self.order < other.order


class Expr:
    """A polynomial with integer coefficients; never a constant (those are ints)."""

    __slots__ = ("terms", "const", "_hash", "_upper", "_variables")

    def __init__(self, terms: tuple[tuple[Monomial, int], ...], const: int) -> None:
        self.terms = terms
        self.const = const
        # Found when asked for: see `upper` and `variables`.
        self._upper: int | Expr | None | str = "not known yet"
        self._variables: Mapping[str, Var] | None = None
        self._hash = hash((terms, const))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Expr):
            return False
        return self._hash == other._hash and (self.terms, self.const) == (other.terms, other.const)

    def __add__(self, other: int | Expr) -> int | Expr:
        return add(self, other)

    __radd__ = __add__

    def __mul__(self, other: int | Expr) -> int | Expr:
        return mul(self, other)

    __rmul__ = __mul__

    def __neg__(self) -> int | Expr:
        return mul(self, -1)

    def __sub__(self, other: int | Expr) -> int | Expr:
        return add(self, mul(other, -1))

    def __rsub__(self, other: int | Expr) -> int | Expr:
        return add(other, mul(self, -1))

    def __floordiv__(self, other: int | Expr) -> int | Expr:
        return floordiv(self, other)

    def __rfloordiv__(self, other: int | Expr) -> int | Expr:
        return floordiv(other, self)

    def __mod__(self, other: int | Expr) -> int | Expr:
        return mod(self, other)

    def __rmod__(self, other: int | Expr) -> int | Expr:
        return mod(other, self)

    def __repr__(self) -> str:
        """Readable and unambiguous, so the text may serve as part of a cache key."""
        parts = []
        for monomial, coef in self.terms:
            factors = [repr(atom) for atom in monomial]
            parts.append("*".join(factors if coef == 1 else [str(coef), *factors]))
        if self.const:
            parts.append(str(self.const))
        joined = " + ".join(parts)
        return joined if len(parts) == 1 else f"({joined})"

    def __bool__(self) -> bool:
        return True

    def atoms(self) -> Iterable[Atom]:
        for monomial, _ in self.terms:
            yield from monomial


class Var(Expr):
    """A named unknown. `kind`: "size", "axis", "offset" (a dynamic int) or "value" (see payload).

    `payload` carries what a value stands for (a scalar expression of a tile program).
    """

    __slots__ = ("atom", "name", "kind", "payload")

    def __init__(
        self,
        name: str,
        lo: int | Expr | None = 0,
        hi: int | Expr | None = None,
        kind: str = "size",
        payload: object = None,
    ) -> None:
        self.name, self.kind, self.payload = name, kind, payload
        self.atom = VarAtom(name, lo, hi, self)
        super().__init__((((self.atom,), 1),), 0)


class VarAtom(Atom):
    __slots__ = ("name", "var")

    def __init__(self, name: str, lo: int | Expr | None, hi: int | Expr | None, var: Var) -> None:
        self.name, self.lo, self.hi, self.var = name, lo, hi, var
        # The bounds belong to the identity: what is simplified with one must not stand for another
        # (expressions are interned, and every kernel calls its axes d0, d1, ...).
        self.key = ("var", name, lo, hi)
        self.order, self.op = name, ""
        self._hash = hash(self.key)

    def __repr__(self) -> str:
        return self.name


class OpAtom(Atom):
    """floordiv, mod, min or max of two integer expressions."""

    __slots__ = ("a", "b")

    def __init__(self, op: str, a: int | Expr, b: int | Expr) -> None:
        self.op, self.a, self.b = op, a, b
        self.key = (op, a, b)
        self.order = f"({op} {a!r} {b!r})"
        self._hash = hash(self.key)
        self.lo, self.hi = _atom_bounds(op, a, b)

    def __repr__(self) -> str:
        if self.op in ("min", "max"):
            return f"{self.op}({self.a!r}, {self.b!r})"
        symbol = {"floordiv": "//", "mod": "%"}[self.op]
        divisor = f"({self.b!r})" if _is_product(self.b) else repr(self.b)
        return f"({self.a!r} {symbol} {divisor})"


def _is_product(value: int | Expr) -> bool:
    if not isinstance(value, Expr) or value.const or len(value.terms) != 1:
        return False
    monomial, coef = value.terms[0]
    return coef != 1 or len(monomial) > 1


def make_polynomial(terms: Mapping[Monomial, int], const: int) -> int | Expr:
    kept = [term for term in terms.items() if term[1]]
    if len(kept) > 1:
        kept.sort(key=_term_order)
    return Expr(tuple(kept), const) if kept else const


def _term_order(term: tuple[Monomial, int]) -> tuple:
    return (len(term[0]), *[atom.order for atom in term[0]])


def _split(value: int | Expr) -> tuple[tuple[tuple[Monomial, int], ...], int]:
    return (value.terms, value.const) if isinstance(value, Expr) else ((), int(value))


def add(a: int | Expr, b: int | Expr) -> int | Expr:
    if not isinstance(a, Expr) and not isinstance(b, Expr):
        return a + b
    if not isinstance(b, Expr):
        return Expr(a.terms, a.const + b) if b else a  # type: ignore[union-attr]
    if not isinstance(a, Expr):
        return Expr(b.terms, b.const + a) if a else b
    terms = dict(a.terms)
    for monomial, coef in b.terms:
        terms[monomial] = terms.get(monomial, 0) + coef
    return _join_divmod(terms, a.const + b.const)


def _join_divmod(terms: dict[Monomial, int], const: int) -> int | Expr:
    """(x // d) * d * k + (x % d) * k  ->  x * k."""
    for monomial, coef in terms.items():
        for position, atom in enumerate(monomial):
            if atom.op != "mod":
                continue
            assert isinstance(atom, OpAtom)
            rest = monomial[:position] + monomial[position + 1 :]
            partner = mul(floordiv(atom.a, atom.b), atom.b)
            partner = mul(partner, make_polynomial({rest: coef}, 0) if rest else coef)
            if not isinstance(partner, Expr) or partner.const or len(partner.terms) != 1:
                continue
            (other, other_coef) = partner.terms[0]
            if terms.get(other) == other_coef:
                left = {m: c for m, c in terms.items() if m not in (monomial, other)}
                whole = mul(atom.a, make_polynomial({rest: coef}, 0) if rest else coef)
                return add(_join_divmod(left, const), whole)
    return make_polynomial(terms, const)


def mul(a: int | Expr, b: int | Expr) -> int | Expr:
    if not isinstance(a, Expr) and not isinstance(b, Expr):
        return a * b
    if not isinstance(b, Expr):
        return _scaled(a, b)  # type: ignore[arg-type]
    if not isinstance(a, Expr):
        return _scaled(b, a)
    (ta, ca), (tb, cb) = _split(a), _split(b)
    terms: dict[Monomial, int] = {}
    for ma, xa in (*ta, ((), ca)):
        for mb, xb in (*tb, ((), cb)):
            if xa and xb and (ma or mb):
                monomial = tuple(sorted(ma + mb)) if ma and mb else ma + mb
                terms[monomial] = terms.get(monomial, 0) + xa * xb
    return make_polynomial(terms, ca * cb)


def _scaled(a: Expr, factor: int) -> int | Expr:
    if factor == 1:
        return a
    if factor == 0:
        return 0
    return Expr(tuple([(m, c * factor) for m, c in a.terms]), a.const * factor)


def _divide_term(monomial: Monomial, coef: int, d: int | Expr) -> tuple[Monomial, int] | None:
    """monomial*coef / d when it divides exactly and d is a single term."""
    if not isinstance(d, Expr):
        return (monomial, coef // d) if coef % d == 0 else None
    if d.const or len(d.terms) != 1:
        return None
    (dm, dc) = d.terms[0]
    if coef % dc:
        return None
    left = list(monomial)
    for atom in dm:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left), coef // dc


def _partition(a: int | Expr, d: int | Expr) -> tuple[int | Expr, int | Expr]:
    """a = q * d + r with every term of a that d divides gone into q."""
    terms, const = _split(a)
    quotient: dict[Monomial, int] = {}
    q_const = 0
    rest: dict[Monomial, int] = {}
    for monomial, coef in terms:
        divided = _divide_term(monomial, coef, d)
        if divided is None:
            rest[monomial] = coef
        elif divided[0]:
            quotient[divided[0]] = quotient.get(divided[0], 0) + divided[1]
        else:
            q_const += divided[1]
    if not isinstance(d, Expr):
        q_const += const // d
        const %= d
    return make_polynomial(quotient, q_const), make_polynomial(rest, const)


def floordiv(a: int | Expr, d: int | Expr) -> int | Expr:
    """a // d for d > 0, simplified with the bounds of the variables."""
    if not isinstance(a, Expr) and not isinstance(d, Expr):
        return a // d
    if d == 1:
        return a
    quotient, rest = _partition(a, d)
    if is_nonnegative(rest) and is_less(rest, d):
        return quotient
    inner = _alone(rest, "floordiv")
    if inner is not None:
        return add(quotient, floordiv(inner.a, mul(inner.b, d)))
    return add(quotient, make_polynomial({(OpAtom("floordiv", rest, d),): 1}, 0))


def _alone(value: int | Expr, op: str) -> OpAtom | None:
    """The atom of an expression that is nothing else, if it has this op."""
    if not isinstance(value, Expr) or len(value.terms) != 1 or value.const:
        return None
    ((atom, *others), coef) = value.terms[0]
    alone = not others and coef == 1 and isinstance(atom, OpAtom) and atom.op == op
    return atom if alone else None  # type: ignore[return-value]


def mod(a: int | Expr, d: int | Expr) -> int | Expr:
    """a % d for d > 0, simplified with the bounds of the variables."""
    if not isinstance(a, Expr) and not isinstance(d, Expr):
        return a % d
    if d == 1:
        return 0
    _, rest = _partition(a, d)
    if is_nonnegative(rest) and is_less(rest, d):
        return rest
    inner = _alone(rest, "mod")
    if inner is not None and _partition(inner.b, d)[1] == 0:
        return mod(inner.a, d)
    return make_polynomial({(OpAtom("mod", rest, d),): 1}, 0)


def _atom_bounds(
    op: str, a: int | Expr, b: int | Expr
) -> tuple[int | Expr | None, int | Expr | None]:
    if op == "mod":
        return 0, add(b, -1)
    if op == "floordiv":
        low = 0 if is_nonnegative(a) else None
        high = upper(a)
        return low, (high // b if isinstance(high, int) and isinstance(b, int) else high)
    if op == "min":
        return (0 if is_nonnegative(a) and is_nonnegative(b) else None), (
            a if isinstance(a, int) else b
        )
    return (0 if is_nonnegative(a) or is_nonnegative(b) else None), None


def upper(value: int | Expr) -> int | Expr | None:
    """An upper bound in which axis and div/mod atoms are replaced by their own, or None."""
    if not isinstance(value, Expr):
        return value
    if isinstance(value._upper, str):
        value._upper = _find_upper(value)
    return value._upper


def _find_upper(value: Expr) -> int | Expr | None:
    result: int | Expr = value.const
    for monomial, coef in value.terms:
        part: int | Expr = coef
        for atom in monomial:
            bound = atom.hi if coef > 0 else atom.lo
            if isinstance(atom, VarAtom) and atom.var.kind == "size":
                bound = atom.var
            elif bound is None or (atom.lo is None or not is_nonnegative(atom.lo)):
                return None
            part = mul(part, bound)  # type: ignore[arg-type]
        result = add(result, part)
    return result


def is_nonnegative(value: int | Expr) -> bool:
    """True when value >= 0 can be proved; False means "not known"."""
    if not isinstance(value, Expr):
        return value >= 0
    low = upper(mul(value, -1))
    if low is None:
        return False
    return _is_nonnegative_in_sizes(mul(low, -1))


def _is_nonnegative_in_sizes(value: int | Expr) -> bool:
    """Shift every atom to its lower bound: all coefficients >= 0 then proves it."""
    if not isinstance(value, Expr):
        return value >= 0
    shifted: int | Expr = value.const
    for monomial, coef in value.terms:
        part: int | Expr = coef
        for atom in monomial:
            low = atom.lo if isinstance(atom.lo, int) else 0
            if atom.lo is None:
                return False
            part = mul(part, add(make_polynomial({(atom,): 1}, 0), low))
        shifted = add(shifted, part)
    terms, const = _split(shifted)
    return const >= 0 and all(coef >= 0 for _, coef in terms)


def is_less(a: int | Expr, b: int | Expr) -> bool:
    """True when a < b can be proved."""
    high = upper(a)
    return high is not None and _is_nonnegative_in_sizes(add(add(b, mul(high, -1)), -1))
