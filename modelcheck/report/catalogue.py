"""What tables of rules say of each: severities and fixes, read from the rule's own code."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from modelcheck.findings import Finding, Safety, Severity
from modelcheck.fusers.contract import contract_for
from modelcheck.rules.base import Rule

FAMILIES = {  # by the first digit of the code
    "0": "Files and comments",
    "1": "Attention interface",
    "2": "Threading of arguments",
    "3": "Base class and config.json",
    "4": "Mixture of experts",
    "5": "Norms",
    "6": "Gated MLPs and merged projections",
    "7": "QKV and MLA",
    "8": "Parallel plans and weights",
    "9": "Newer transformers releases",
}
_BLOCK = re.compile(r"```(python|json)\n(.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Facts:
    """What a rule may report, gravest first, and how safe its fixes are (none: no fix)."""

    severities: tuple[Severity, ...]
    fixes: tuple[Safety, ...]


def family(rule: Rule) -> str:
    """The name of the rule's family."""
    return FAMILIES[rule.code[2]]


def facts(rule: Rule) -> Facts:
    """The facts of a rule, from the names that its code uses; else from its example."""
    module = sys.modules[rule.check.__module__]
    tree = ast.parse(inspect.getsource(module))
    trees = [tree, *_helpers(module, tree)]
    severities = {Severity[name] for each in trees for name in _members(each, "Severity")}
    severities |= {default for call in _calls(tree) for default in _default(module, call)}
    if not severities:  # a rule that the engine itself reports
        severities = {finding.severity for finding in example_findings(rule)}
    fixes = {safety for t in trees for call in _calls(t) for safety in _safeties(t, call)}
    order = list(Safety)
    return Facts(
        tuple(sorted(severities, key=lambda severity: severity.rank)),
        tuple(sorted(fixes, key=order.index)),
    )


def example_findings(rule: Rule) -> list[Finding]:
    """What the rule's own example gives, for the release that it names."""
    from modelcheck.scan import Folder, Scanner

    section = rule.sections.get("Example", "")
    block = _BLOCK.search(section)
    if block is None:
        return []
    release = re.search(r"vLLM (\d+\.\d+)", _BLOCK.sub("", section))
    contract = contract_for(release[1] if release else None)
    path = "config.json" if block[1] == "json" else "modeling_example.py"
    context = Folder("").context(path, contract, block[2])
    found = Scanner(contract).check_context(context)
    return [finding for finding in found if finding.code == rule.code]


def _members(tree: ast.AST, enum: str) -> set[str]:
    """The names of an enumeration's members that the code uses."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == enum
        and node.attr.isupper()
    }


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _called(module: ModuleType, call: ast.Call) -> Any:
    """The function of modelcheck's that a name in a call stands for, None for anything else."""
    function: Any = getattr(module, call.func.id if isinstance(call.func, ast.Name) else "", None)
    ours = inspect.isfunction(function) and function.__module__.startswith("modelcheck.")
    return function if ours else None


def _helpers(module: ModuleType, tree: ast.AST) -> Iterator[ast.AST]:
    """The code of functions elsewhere that choose a severity or a fix for the rule."""
    for function in {_called(module, call) for call in _calls(tree)} - {None}:
        returns = str(inspect.signature(function).return_annotation)
        if function.__module__ != module.__name__ and re.search(r"\b(Severity|Fix)\b", returns):
            yield ast.parse(inspect.getsource(function))


def _default(module: ModuleType, call: ast.Call) -> set[Severity]:
    """The severity that a shared function gives a finding when the rule names none."""
    function = _called(module, call)
    if function is None or any(k.arg == "severity" for k in call.keywords):
        return set()
    parameters = list(inspect.signature(function).parameters.values())
    return {
        parameter.default
        for index, parameter in enumerate(parameters)
        if isinstance(parameter.default, Severity) and index >= len(call.args)
    }


def _safeties(tree: ast.AST, call: ast.Call) -> set[Safety]:
    """How safe a fix is that the rule makes here; all that it speaks of when that is computed."""
    if not (isinstance(call.func, ast.Name) and call.func.id == "Fix"):
        return set()
    chosen = [k.value for k in call.keywords if k.arg == "safety"] + call.args[2:3]
    if not chosen:
        return {Safety.SAFE}
    named = _members(chosen[0], "Safety") or _members(tree, "Safety")
    return {Safety[name] for name in named}
