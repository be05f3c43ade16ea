"""What a rule is, and the registry of all rules.

A rule is a module in a family package below ``modelcheck.rules``. Its docstring is its
documentation (headings as in `RuleDoc`), ``CODE`` its code and ``check`` its function; adding
the file is the whole registration.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import ModuleType

from modelcheck.errors import UsageError
from modelcheck.findings import Finding, Fix, Severity, Span
from modelcheck.fusers.contract import Contract
from modelcheck.source.bodies import headline, nodes_of
from modelcheck.source.classes import ClassInfo, FileIndex
from modelcheck.source.memory import forget
from modelcheck.source.repo import Repo

HEADINGS = ("What it does", "Why it matters", "Example", "Use instead", "Fix safety")


@dataclass(frozen=True)
class Context:
    """What a rule may look at: one file (or, for config rules, the repo), one vLLM release.

    ``transformers`` is the release that the model will run under ("5.19"), None for whatever
    the vLLM release allows.
    """

    file: FileIndex
    repo: Repo | None
    contract: Contract
    transformers: str | None = None

    def finding(
        self,
        code: str,
        severity: Severity,
        where: ClassInfo | None,
        node: ast.AST,
        message: str,
        advice: str,
        fix: Fix | None = None,
        tp_only: bool = False,
    ) -> Finding:
        """A finding at an AST node of this file.

        A node that a parent class in another file holds is no place to report, nor to fix: the
        finding is then on the header of ``where``.
        """
        if where is not None and _is_elsewhere(where, node):
            node, fix = headline(where.node), None
        return Finding(
            code=code,
            severity=severity,
            path=self.file.path,
            span=Span.of(node, self.file.source.lines),
            class_name=where.name if where else "",
            message=message,
            advice=advice,
            fix=fix,
            tp_only=tp_only,
        )

    def release(self) -> None:
        """Let go of the files: the context has served, nothing can be asked of it any more."""
        forget()
        for file in list(self.file.project):
            file.release()


def _is_elsewhere(info: ClassInfo, node: ast.AST) -> bool:
    """Is a node in an ancestor of the class that another file writes?"""
    return any(
        node is part
        for each in info.mro
        if each.file is not info.file
        for part in nodes_of(each.node)
    )


@dataclass(frozen=True)
class Rule:
    """One rule, with the documentation that its module holds."""

    code: str
    name: str  # the module's stem with dashes: "attention-not-dispatched"
    family: str
    documentation: str  # the module's docstring
    check: Callable[[Context], Iterable[Finding]]

    @cached_property
    def _pieces(self) -> list[str]:
        text = inspect.cleandoc(self.documentation)
        return re.split(rf"^({'|'.join(HEADINGS)})$\n-+\n", text, flags=re.MULTILINE)

    @cached_property
    def summary(self) -> str:
        """The first line of the documentation."""
        return (self._pieces[0].strip().splitlines() or [""])[0]

    @cached_property
    def sections(self) -> Mapping[str, str]:
        """What stands below each of `HEADINGS`."""
        pieces = self._pieces
        return {pieces[i]: pieces[i + 1].strip() for i in range(1, len(pieces) - 1, 2)}

    @property
    def title(self) -> str:
        """The name as words."""
        return self.name.replace("-", " ")


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by code."""
    import modelcheck.rules as package

    found = []
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if info.ispkg or info.name.count(".") != 3:
            continue
        module = importlib.import_module(info.name)
        if hasattr(module, "CODE"):
            found.append(_rule(module))
    return tuple(sorted(found, key=lambda rule: rule.code))


def rule_named(text: str) -> Rule:
    """The rule with this code or name. Raises `UsageError` with the nearest ones."""
    import difflib

    wanted = text.strip()
    for rule in all_rules():
        if wanted.upper() == rule.code or wanted.lower() == rule.name:
            return rule
    names = [rule.code for rule in all_rules()] + [rule.name for rule in all_rules()]
    near = difflib.get_close_matches(wanted, names, n=1)
    hint = f", did you mean {near[0]}?" if near else ""
    raise UsageError(f"no rule {text!r}{hint}")


def codes_of(text: str) -> frozenset[str]:
    """The rules that a code, the beginning of codes ("MC5") or a name stands for.

    Raises `UsageError` when there is none.
    """
    prefix = text.strip().upper()
    if re.fullmatch(r"MC\d{0,3}", prefix):
        family = frozenset(rule.code for rule in all_rules() if rule.code.startswith(prefix))
        if family:
            return family
    return frozenset((rule_named(text).code,))


def _rule(module: ModuleType) -> Rule:
    _, _, family, stem = module.__name__.split(".")
    return Rule(
        code=module.CODE,
        name=stem.replace("_", "-"),
        family=family,
        documentation=module.__doc__ or "",
        check=module.check,
    )
