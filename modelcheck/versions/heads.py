"""Which models vLLM does not build: those around a base model."""

from __future__ import annotations

import ast

from modelcheck.source.bodies import body
from modelcheck.source.classes import ClassInfo, dotted_name


def is_head(info: ClassInfo) -> bool:
    """Does the model build another one of its file with its own config?

    vLLM builds the inner one only (``AutoModel``), and heads of its own.
    """
    init = info.methods.get("__init__")
    if info.kind != "pretrained" or init is None:
        return False
    for call in body(info.file, init).all(ast.Call):
        built = info.file.classes.get(dotted_name(call.func))
        given = [*call.args, *(k.value for k in call.keywords if k.arg == "config")]
        if built is None or built is info or built.kind != "pretrained":
            continue
        if any(dotted_name(value) in ("config", "self.config") for value in given):
            return True
    return False
