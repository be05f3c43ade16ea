"""Write ``_tied_weights_keys`` as a dictionary from each tied weight to its source.

The tied weight must be that of the output embeddings; its source is that of the input
embeddings, found by following ``get_input_embeddings`` through the classes of the file. Their bias
is tied to what the class that holds them assigns to it, ``self.decoder.bias = self.bias``. A model
whose configuration may lack ``tie_word_embeddings`` gets the default of transformers 4.
"""

from __future__ import annotations

import ast

from fixers import FixRefused
from fixers.splice import Splice
from fixers.toolkit import document
from modelcheck.findings import Finding
from modelcheck.source.bodies import callee_name, nodes_of
from modelcheck.source.classes import ClassInfo, FunctionNode, dotted_name
from modelcheck.source.models import config_class
from modelcheck.versions.configs import names_of

NAME = "_tied_weights_keys"
SETTING = "tie_word_embeddings"
INPUT, OUTPUT = "get_input_embeddings", "get_output_embeddings"


def fix(text: str, finding: Finding) -> str:
    """``text`` with the dictionary. Raises `FixRefused`."""
    doc = document(text, finding)
    info = doc.class_info(finding.class_name)
    value = info.attributes.get(NAME)
    if not isinstance(value, ast.List | ast.Tuple | ast.Set):
        raise FixRefused(f"{NAME} is no list", finding.span.line)
    splice = Splice(doc)
    output = _output(splice, info)
    pairs = []
    for key in value.elts:
        given = f".{ast.literal_eval(key)}" if isinstance(key, ast.Constant) else ""
        if given and f".{output}.weight".endswith(given):  # transformers 4 looked for the end
            pairs.append(f'"{output}.weight": "{input_path(splice, info)}.weight"')
        elif given and f".{output}.bias".endswith(given):
            pairs.append(f'"{output}.bias": "{_bias_source(splice, info, output, key)}"')
        else:
            raise splice.refuse(f"{splice.code(key)} is not the weight of {output}", key)
    splice.replace(value, "{" + ", ".join(pairs) + "}")
    if pairs and _relies_on_default(info):
        _keep_default(splice, info)
    return splice.text()


def _relies_on_default(info: ClassInfo) -> bool:
    """May the configuration be without the setting, where transformers 4 had True?

    A class on ``PreTrainedConfig``, as transformers 5 spells it, is taken at its word.
    """
    config = config_class(info)
    if config is None:
        return True
    if any(base.rpartition(".")[2] == "PreTrainedConfig" for base in config.external_bases):
        return False
    names = names_of(config)
    return names is None or SETTING not in names


def _output(splice: Splice, info: ClassInfo) -> str:
    """The attribute of the output embeddings."""
    found = info.find_method(OUTPUT)
    if found is not None:
        path = _returned(found[1])
        if path and not path.endswith("()"):
            return path
        raise splice.refuse(f"{OUTPUT} returns no attribute", found[1])
    linear = [
        name
        for name, (_, value) in info.self_assignments.items()
        if isinstance(value, ast.Call) and callee_name(value) == "Linear"
    ]
    if len(linear) != 1:
        raise splice.refuse(f"{info.name} has no {OUTPUT}", info.node)
    return linear[0]


def input_path(splice: Splice, info: ClassInfo) -> str:
    """The dotted path of the input embeddings. Raises `FixRefused`."""
    found = info.find_method(INPUT)
    path = _returned(found[1]) if found is not None else ""
    if path and not path.endswith("()"):
        return path
    if path:
        child = path.removesuffix("()").removesuffix(f".{INPUT}")
        if f"{child}.{INPUT}()" != path:
            raise splice.refuse(f"{INPUT} returns no attribute", found[1] if found else info.node)
        return f"{child}.{input_path(splice, _child(splice, info, child))}"
    built = {
        name: info.file.resolve(dotted_name(value.func))
        for name, (_, value) in info.self_assignments.items()
        if isinstance(value, ast.Call)
    }
    inner = {n: c for n, c in built.items() if isinstance(c, ClassInfo) and c.kind == "pretrained"}
    if len(inner) == 1:
        ((name, model),) = inner.items()
        return f"{name}.{input_path(splice, model)}"
    tables = [n for n, c in built.items() if isinstance(c, str) and c == "torch.nn.Embedding"]
    if inner or len(tables) != 1:
        raise splice.refuse(f"{info.name} has no {INPUT}", info.node)
    return tables[0]


def _bias_source(splice: Splice, info: ClassInfo, output: str, key: ast.expr) -> str:
    """The dotted path of what the bias of the output embeddings is. Raises `FixRefused`."""
    *parents, last = output.split(".")
    owner = info
    for name in parents:
        owner = _child(splice, owner, name)
    for method in owner.methods.values():
        for node in nodes_of(method):
            match node:
                case ast.Assign(targets=[target], value=ast.Attribute(attr=source) as value) if (
                    dotted_name(target) == f"self.{last}.bias"
                    and dotted_name(value) == f"self.{source}"
                ):
                    return ".".join([*parents, source])
    raise splice.refuse(f"{splice.code(key)} is tied to nothing that is found", key)


def _child(splice: Splice, info: ClassInfo, name: str) -> ClassInfo:
    assigned = info.self_assignments.get(name)
    value = assigned[1] if assigned else None
    found = info.file.resolve(dotted_name(value.func)) if isinstance(value, ast.Call) else None
    if not isinstance(found, ClassInfo):
        raise splice.refuse(f"the class of {info.name}.{name} is not in this file", info.node)
    return found


def _returned(function: FunctionNode) -> str:
    """ "model.wte" for ``return self.model.wte``, with "()" behind a call."""
    returns = [n for n in nodes_of(function) if isinstance(n, ast.Return)]
    value = returns[0].value if len(returns) == 1 else None
    called = isinstance(value, ast.Call) and not value.args and not value.keywords
    name = dotted_name(value.func if called and isinstance(value, ast.Call) else value or function)
    head, _, path = name.partition(".")
    return path + ("()" if called else "") if head == "self" and path else ""


def _keep_default(splice: Splice, info: ClassInfo) -> None:
    """Transformers 4 tied the embeddings unless the configuration said otherwise."""
    init = info.methods.get("__init__")
    first = init.body[0] if init is not None else None
    at_start = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Call)
        and callee_name(first.value) == "__init__"
        and [dotted_name(a) for a in first.value.args] == ["config"]
    )
    if first is None or not at_start:
        where = init or info.node
        raise splice.refuse("the constructor does not begin with super().__init__(config)", where)
    splice.after(
        first,
        f'if not hasattr(config, "{SETTING}"):  # the default of transformers 4\n'
        f"    config.{SETTING} = True",
    )
