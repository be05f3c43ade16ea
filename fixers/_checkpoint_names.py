"""A module gets another name, and checkpoints keep theirs: a renaming that transformers 5 reads.

Loading renames the keys, saving renames them back, and vLLM takes the renaming over.
"""

from __future__ import annotations

import ast

from fixers.splice import Splice, import_aliases
from modelcheck.source.bodies import nodes_of
from modelcheck.source.classes import ClassInfo
from modelcheck.source.models import config_class

REGISTER, RENAMING = "register_checkpoint_conversion_mapping", "WeightRenaming"
IMPORTS = f"""
from transformers.conversion_mapping import {REGISTER}
from transformers.core_model_loading import {RENAMING}
"""


def keep_keys(splice: Splice, info: ClassInfo, old: str, new: str, *, top: bool = False) -> None:
    """Register the renaming at the end of the file, of a module of the whole model with ``top``.

    Raises `FixRefused`.
    """
    file = info.file
    for other in file.classes.values():
        if new in other.self_assignments:
            raise splice.refuse(f"{other.name} has a module called {new} already", other.node)
    names = set()
    for model in file.classes.values():
        found = config_class(model) if model.kind == "pretrained" else None
        if found is not None:
            local = [n for n in (*file.classes, *file.imports) if file.resolve(n) is found]
            typed = found.find_attribute("model_type") is not None
            names |= set(local[:1]) if typed else set()
    if len(names) != 1:
        raise splice.refuse("it is not clear whose checkpoints have the old keys", info.node)
    if any(isinstance(n, ast.Name) and n.id == REGISTER for n in nodes_of(splice.tree)):
        raise splice.refuse("the file registers renamings already", info.node)
    imports = [node for node, _ in import_aliases(splice.tree.body) if node in splice.tree.body]
    splice.after(imports[-1], IMPORTS)
    renaming = f'r"^{old}\\.", "{new}."' if top else f'".{old}.", ".{new}."'
    text = f"""


# Checkpoints call {new} {old}: reading renames, saving renames back.
{REGISTER}(
    {names.pop()}.model_type, [{RENAMING}({renaming})], overwrite=True
)
"""
    end = len(splice.doc.text)
    lead = "" if splice.doc.text.endswith(("\n", "\r")) else splice.newline
    splice.insert(end, lead + text[1:].replace("\n", splice.newline))
