"""Numbers that are not known: polynomials over names such as ``config.hidden_size``.

Two sizes are equal when their normal forms are; where that cannot be told, the question goes
to the `Oracle` of the current evaluation, which tries both answers in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
Monomial = tuple[tuple[str, int], ...]
# In every published model a group of query heads shares one key head, never the reverse.
NOT_GREATER = (("num_key_value_heads", "num_attention_heads"),)


class Oracle:
    """Answers undecidable questions, one consistent set of answers per evaluation."""

    def __init__(self, answers: dict[str, bool]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def decide(self, question: str) -> bool:
        """The answer of this evaluation; the first time, True."""
        if question not in self.asked:
            self.asked.append(question)
        return self.answers.setdefault(question, True)


_CURRENT: ContextVar[Oracle | None] = ContextVar("oracle", default=None)


def decide(question: str) -> bool:
    """Ask the current oracle. Raises `LookupError` outside an evaluation."""
    oracle = _CURRENT.get()
    if oracle is None:
        raise LookupError(f"undecidable outside an evaluation: {question}")
    return oracle.decide(question)


def all_answers(run: Callable[[], T], limit: int) -> tuple[list[T], bool]:
    """The results of an evaluation under every combination of answers that it asks for.

    The second value is False when there were more than ``limit`` combinations.
    """
    results: list[T] = []
    pending: list[dict[str, bool]] = [{}]
    while pending:
        if len(results) == limit:
            return results, False
        given = pending.pop()
        oracle = Oracle(dict(given))
        token = _CURRENT.set(oracle)
        try:
            results.append(run())
        finally:
            _CURRENT.reset(token)
        asked = [question for question in oracle.asked if question not in given]
        for index, question in enumerate(asked):
            branch = given | {q: oracle.answers[q] for q in asked[:index]}
            pending.append(branch | {question: not oracle.answers[question]})
    return results, True


@dataclass(frozen=True, eq=False)
class Sym:
    """A polynomial with integer or float coefficients."""

    terms: tuple[tuple[Monomial, float], ...]

    @classmethod
    def name(cls, text: str) -> Sym:
        """A number known only by name."""
        return cls(((((text, 1),), 1),))

    @classmethod
    def lift(cls, value: Sym | float) -> Sym:
        """A number as a polynomial."""
        if isinstance(value, Sym):
            return value
        return cls((((), value),)) if value else cls(())

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        parts = []
        for monomial, coefficient in self.terms:
            factors = [n if p == 1 else f"{n}**{p}" for n, p in monomial]
            if coefficient != 1 or not factors:
                factors.insert(0, f"{coefficient:g}")
            parts.append("*".join(factors))
        return " + ".join(parts)

    __repr__ = __str__

    def __add__(self, other: Sym | float) -> Sym | float:
        return _collect([*self.terms, *Sym.lift(other).terms])

    __radd__ = __add__

    def __neg__(self) -> Sym | float:
        return self * -1

    def __sub__(self, other: Sym | float) -> Sym | float:
        return self + Sym.lift(other) * -1

    def __rsub__(self, other: float) -> Sym | float:
        return Sym.lift(other) - self

    def __mul__(self, other: Sym | float) -> Sym | float:
        return _collect(
            [(_join(a, b), x * y) for a, x in self.terms for b, y in Sym.lift(other).terms]
        )

    __rmul__ = __mul__

    def __floordiv__(self, other: Sym | float) -> Sym | float:
        exact = _exact_quotient(self, Sym.lift(other))
        return exact if exact is not None else Sym.name(f"({self} // {other})")

    def __rfloordiv__(self, other: float) -> Sym | float:
        return Sym.name(f"({other} // {self})")

    def __truediv__(self, other: Sym | float) -> Sym | float:
        exact = _exact_quotient(self, Sym.lift(other))
        return exact if exact is not None else Sym.name(f"({self} / {other})")

    def __rtruediv__(self, other: float) -> Sym | float:
        return Sym.name(f"({other} / {self})")

    def __mod__(self, other: Sym | float) -> Sym | float:
        if _exact_quotient(self, Sym.lift(other)) is not None:
            return 0
        return Sym.name(f"({self} % {other})")

    def __rmod__(self, other: float) -> Sym | float:
        return Sym.name(f"({other} % {self})")

    def __pow__(self, other: Sym | float) -> Sym | float:
        if isinstance(other, int) and 0 <= other <= 4:
            result: Sym | float = 1
            for _ in range(other):
                result = self * result
            return result
        return Sym.name(f"({self} ** {other})")

    def __rpow__(self, other: float) -> Sym | float:
        return Sym.name(f"({other} ** {self})")

    def __hash__(self) -> int:
        return hash(self.terms)

    def same(self, other: object) -> bool | None:
        """Equal, different, or None when it cannot be told."""
        if not isinstance(other, Sym | int | float) or isinstance(other, bool):
            return None
        difference = Sym.lift(self - Sym.lift(other))
        if not difference.terms:
            return True
        if all(not monomial for monomial, _ in difference.terms):
            return False
        return None

    def __eq__(self, other: object) -> bool:
        known = self.same(other)
        if known is not None:
            return known
        if other is None:
            return not decide(f"{self} is not None")
        return not decide(f"{self} != {other}")

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Sym | float) -> bool:
        return Sym.lift(other) > self

    def __ge__(self, other: Sym | float) -> bool:
        return not self < other

    def __le__(self, other: Sym | float) -> bool:
        return not self > other

    def __gt__(self, other: Sym | float) -> bool:
        difference = Sym.lift(self - Sym.lift(other))
        if all(not monomial for monomial, _ in difference.terms):
            return any(coefficient > 0 for _, coefficient in difference.terms)
        known = _ordered(self, Sym.lift(other))
        return known if known is not None else decide(f"{self} > {other}")

    def __bool__(self) -> bool:
        if all(not monomial for monomial, _ in self.terms):
            return bool(self.terms)
        if len(self.terms) == 1 and self.terms[0][0] and " % " not in str(self):
            return decide(str(self))
        return decide(f"{self} != 0")


def _join(a: Monomial, b: Monomial) -> Monomial:
    powers = dict(a)
    for name, power in b:
        powers[name] = powers.get(name, 0) + power
    return tuple(sorted((n, p) for n, p in powers.items() if p))


def _collect(terms: list[tuple[Monomial, float]]) -> Sym | float:
    found: dict[Monomial, float] = {}
    for monomial, coefficient in terms:
        found[monomial] = found.get(monomial, 0) + coefficient
    kept = tuple(sorted((m, c) for m, c in found.items() if c))
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return kept[0][1]
    return Sym(kept)


def _exact_quotient(a: Sym, b: Sym) -> Sym | float | None:
    """a / b when b is one term that divides every term of a."""
    if len(b.terms) != 1:
        return 1 if a.same(b) else None
    divisor, factor = b.terms[0]
    if not factor:
        return None
    terms = []
    for monomial, coefficient in a.terms:
        powers = dict(monomial)
        for name, power in divisor:
            powers[name] = powers.get(name, 0) - power
            if powers[name] < 0:
                return None
        quotient = coefficient / factor
        if isinstance(coefficient, int) and isinstance(factor, int):
            if coefficient % factor:
                return None
            quotient = coefficient // factor
        terms.append((tuple(sorted((n, p) for n, p in powers.items() if p)), quotient))
    return _collect(terms)


def _ordered(a: Sym, b: Sym) -> bool | None:
    """Is a > b, for two products that differ in one factor of known order?"""
    if len(a.terms) != 1 or len(b.terms) != 1 or a.terms[0][1] != b.terms[0][1]:
        return None
    left, right = dict(a.terms[0][0]), dict(b.terms[0][0])
    for name in set(left) & set(right):
        shared = min(left[name], right[name])
        left[name] -= shared
        right[name] -= shared
    ours = [n for n, p in left.items() if p]
    theirs = [n for n, p in right.items() if p]
    if len(ours) == 1 and len(theirs) == 1:
        small, large = ours[0].rpartition(".")[2], theirs[0].rpartition(".")[2]
        if (small, large) in NOT_GREATER:
            return False
        if (large, small) in NOT_GREATER:
            return True
    return None
