"""Read rope settings where transformers 5 keeps them, and where transformers 4 did.

``what`` in the finding's data says which of three:

- "scaling": every ``config.rope_scaling`` goes through a function that gives None without scaling
  and has ``type`` otherwise, as in transformers 4.
- "theta": every ``config.rope_theta`` goes through a function that looks in ``rope_parameters``.
- "default": the class computes the default frequencies itself, with the formula of transformers 4,
  and asks the table for every other type.
"""

from __future__ import annotations

import ast

from fixers import FixRefused
from fixers.splice import Splice, without_idle_imports
from fixers.toolkit import document, free_name
from modelcheck.findings import Finding
from modelcheck.source.bodies import nodes_of
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name
from modelcheck.versions.configs import config_reads

TABLE = "ROPE_INIT_FUNCTIONS"
METHOD = "compute_default_rope_parameters"
SCALING = '''
def {name}(config):
    """The scaling settings of rope with their "type", None where there is no scaling."""
    settings = getattr(config, "rope_scaling", None) or {{}}
    kind = settings.get("rope_type", settings.get("type", "default"))
    return None if kind == "default" else {{**settings, "type": kind}}
'''
THETA = '''
def {name}(config):
    """The base of rope: transformers 5 keeps it in rope_parameters."""
    settings = getattr(config, "rope_parameters", None) or {{}}
    return settings["rope_theta"] if "rope_theta" in settings else config.rope_theta
'''
DEFAULT = '''
@staticmethod
def compute_default_rope_parameters(config=None, device=None, seq_len=None, **rope_kwargs):
    """Inverse frequencies without scaling, and the factor of cos and sin, which is 1."""
    if config is None:
        base, dim = rope_kwargs["base"], rope_kwargs["dim"]
    else:
        settings = getattr(config, "rope_parameters", None) or {}
        base = settings["rope_theta"] if "rope_theta" in settings else config.rope_theta
        head_dim = getattr(config, "head_dim", None)
        if head_dim is None:
            head_dim = config.hidden_size // config.num_attention_heads
        factor = settings.get("partial_rotary_factor")
        if factor is None:
            factor = getattr(config, "partial_rotary_factor", 1.0)
        dim = int(head_dim * factor)
    steps = torch.arange(0, dim, 2, dtype=torch.int64).float().to(device)
    return 1.0 / (base ** (steps / dim)), 1.0
'''


def fix(text: str, finding: Finding) -> str:
    """``text`` with settings read in either place. Raises `FixRefused`."""
    doc = document(text, finding)
    what = finding.fix.data.get("what", "") if finding.fix else ""
    splice = Splice(doc)
    info = doc.class_info(finding.class_name)
    if what == "scaling":
        _through(splice, "rope_scaling", ("_rope_scaling", "_rope_scaling_of"), SCALING)
    elif what == "theta":
        _through(splice, "rope_theta", ("_rope_theta", "_rope_theta_of"), THETA)
    elif what == "default":
        _default(splice, info)
    else:
        raise FixRefused(f"nothing is known about {what!r}", finding.span.line)
    return without_idle_imports(doc, splice.text())


def _through(splice: Splice, name: str, candidates: tuple[str, ...], template: str) -> None:
    """Read an attribute of the configuration through a function of the module."""
    index = splice.doc.index
    reads = config_reads(splice.tree, name)
    if not reads:
        raise FixRefused(f"config.{name} is not read here")
    taken = {*index.classes, *index.functions, *index.assignments, *index.imports}
    function = free_name(candidates, taken)
    for node in reads:
        splice.replace(node, f"{function}({splice.code(node.value)})")
    inside = [n for n in splice.tree.body if any(r in nodes_of(n) for r in reads)]
    if any(not isinstance(n, ast.ClassDef | ast.FunctionDef) for n in inside):
        raise splice.refuse(f"{name} is read outside classes and functions", inside[0])
    splice.above(inside[0], template.format(name=function))


def _default(splice: Splice, info: ClassInfo) -> None:
    """Compute the default type in the class, and look up the others."""
    if METHOD in splice.doc.taken_names(info.name):
        raise splice.refuse(f"{info.name} has a {METHOD} already", info.node)
    if splice.doc.index.imports.get("torch") != "torch":
        raise splice.refuse("torch is not imported under its own name", info.node)
    lookups = [
        (function, node)
        for function in info.methods.values()
        for node in nodes_of(function)
        if isinstance(node, ast.Subscript) and dotted_name(node.value) == TABLE
    ]
    if not lookups:
        raise splice.refuse(f"{info.name} looks nothing up in {TABLE}", info.node)
    for function, node in lookups:
        _look_up(splice, function, node)
    init = info.methods.get("__init__")
    if init is None:
        raise splice.refuse(f"{info.name} has no __init__ of its own", info.node)
    splice.after(init, DEFAULT, blank=True)


def _look_up(splice: Splice, function: FunctionNode, node: ast.Subscript) -> None:
    key = splice.code(node.slice)
    if isinstance(node.slice, ast.Constant):
        splice.replace(node, f"self.{METHOD}")
        return
    statement = splice.statement_of(node)
    if not isinstance(statement, ast.Assign):
        raise splice.refuse("the lookup is not part of an assignment", node)
    if statement.value is node and len(statement.targets) == 1:
        target, follow = splice.code(statement.targets[0]), ""
    else:
        used = {n.id for n in nodes_of(function) if isinstance(n, ast.Name)}
        target = free_name(("rope_init_fn", "rope_function"), used)
        splice.replace(node, target)
        follow = splice.newline + splice.indent(statement)
    indent, newline = splice.indent(statement), splice.newline
    inner = indent + splice.doc.module.default_indent
    lines = [
        f"{target} = self.{METHOD}",
        f'{indent}if {key} != "default":',
        f"{inner}{target} = {TABLE}[{key}]",
    ]
    if follow:
        splice.insert(splice.span(statement)[0], newline.join(lines) + follow)
    else:
        splice.replace(statement, newline.join(lines))
