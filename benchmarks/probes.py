"""The probes as predicted evidence sees them: read from their source, never imported.

The files of fixtures/probes make modules through small factories with arguments; the
expression of a factory is interpreted as a constructor's would be.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path

from modelcheck.fusers.ast_facts import AstFacts
from modelcheck.fusers.contract import Contract
from modelcheck.fusers.match import Env
from modelcheck.fusers.results import Fires, FusionResult
from modelcheck.fusers.select import outcomes
from modelcheck.graph.expressions import Frame
from modelcheck.graph.interpreter import Interpreter
from modelcheck.graph.symbolic import all_answers
from modelcheck.graph.values import Module
from modelcheck.source.classes import FileIndex, ProjectIndex
from modelcheck.source.text import read_source

PROBES = Path(__file__).resolve().parent.parent / "fixtures" / "probes"
CASES, MOE_MLA = "probe_cases", "probe_moe_mla"
HEAD_SIZE = 8
MAX_ANSWERS = 24
BLOCK = "MoEBlock"


def index(name: str) -> FileIndex:
    """One of the two files of probes."""
    return ProjectIndex().add(read_source(PROBES / f"{name}.py"))


def constructions(file: FileIndex) -> dict[str, ast.expr]:
    """{probe: the expression that makes its module}, of probe_cases.py."""
    found: dict[str, ast.expr] = {}
    for node in file.source.tree.body:
        if isinstance(node, ast.ClassDef):
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and getattr(mark.func, "id", "") == "case":
                    name = ast.Name(node.name, ast.Load())
                    call = ast.Call(name, mark.args[1:], mark.keywords)
                    found[node.name] = ast.fix_missing_locations(ast.copy_location(call, node))
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
            target, factory = node.targets[0], node.value.elts[-1]
            if (
                isinstance(target, ast.Subscript)
                and isinstance(target.slice, ast.Constant)
                and isinstance(factory, ast.Lambda)
            ):
                found[target.slice.value] = factory.body  # type: ignore[index]
    return found


def moe_construction(name: str) -> ast.expr:
    """``router:R`` and ``block:B+R`` are ``B(R)``, ``block:B`` and ``mla:B`` are ``B()``."""
    kind, _, rest = name.partition(":")
    outer, _, inner = rest.partition("+")
    text = f"B({rest})" if kind == "router" else f"{outer}({inner})"
    return ast.parse(text, mode="eval").body


def judge(
    file: FileIndex, expression: ast.expr, contract: Contract, tp: int, use_mla: bool
) -> Mapping[str, Sequence[FusionResult]]:
    """{fuser: its results under every combination of undecidable answers}; empty if unknown.

    A fuser without a result was not tried, as another took the class: it does not fire.
    """

    def run() -> dict[str, FusionResult] | None:
        module = Interpreter(contract).expression(expression, Frame(file, {}, None, 0))
        if not isinstance(module, Module) or module.info is None:
            return None
        env = Env(contract, tp, HEAD_SIZE, use_mla and "MLA" in contract.fusers)
        return outcomes(AstFacts(module, contract), env)

    tried, complete = all_answers(run, MAX_ANSWERS)
    results = [r for r in tried if r is not None]
    if not complete or len(results) < len(tried):
        return {}
    no = FusionResult("", Fires.NO, "")
    names = (*contract.fusers, *([BLOCK] if BLOCK in results[0] else []))
    return {name: [r.get(name, no) for r in results] for name in names}


def verdict(results: Sequence[FusionResult]) -> Fires:
    """One answer, or unknown."""
    answers = {r.fires for r in results}
    return answers.pop() if len(answers) == 1 else Fires.UNKNOWN
