"""A mask function is given an argument that it no longer takes.

What it does
------------
Finds `input_embeds=` and `cache_position=` in calls of `create_causal_mask`,
`create_sliding_window_causal_mask` and `create_chunked_causal_mask`, also where they come from a
dictionary written in the same function (`**mask_kwargs`). A call that runs in every `forward` is
an error, one behind a condition is `info`. Of modules that are imported from `transformers.models`
it finds keywords that the constructor in the installed transformers does not have.

Why it matters
--------------
transformers 5.9 took both: the call raises TypeError ("unexpected keyword argument") in the first
forward pass, which vLLM (0.31 and later, which run on such a release) makes when it starts.

Example
-------
```python
from torch import nn
from transformers.masking_utils import create_causal_mask


class MyStack(nn.Module):
    def forward(self, hidden_states, attention_mask=None, cache_position=None, **kwargs):
        mask = create_causal_mask(
            config=self.config,
            input_embeds=hidden_states,
            attention_mask=attention_mask,
            cache_position=cache_position,
            past_key_values=None,
        )
        return hidden_states, mask
```

Use instead
-----------
```python
from torch import nn
from transformers.masking_utils import create_causal_mask


class MyStack(nn.Module):
    def forward(self, hidden_states, attention_mask=None, position_ids=None, **kwargs):
        mask = create_causal_mask(
            config=self.config,
            inputs_embeds=hidden_states,
            attention_mask=attention_mask,
            past_key_values=None,
            position_ids=position_ids,
        )
        return hidden_states, mask
```

Fix safety
----------
Safe: the first argument gets its new name and `cache_position` is left out, which the function
reads off the cache. The code then needs transformers 5.9. What computes `cache_position` stays. The
fix is refused where another expression than a plain name is given for `cache_position`, where a
comment stands beside it, and where something else uses the dictionary.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from modelcheck.findings import Finding, Fix, Severity
from modelcheck.rules.base import Context
from modelcheck.source.bodies import body
from modelcheck.source.classes import ClassInfo, FunctionNode, Signature, dotted_name
from modelcheck.versions.judged import judged
from modelcheck.versions.reach import runs_always
from modelcheck.versions.table import removed_arguments

CODE = "MC911"
SINCE = "5.0"  # the installed transformers is of this kind, where vLLM's releases need it


def check(context: Context) -> Iterable[Finding]:
    """One finding for each call."""
    yield from _of_functions(context)
    yield from _of_constructors(context)


def _of_constructors(context: Context) -> Iterator[Finding]:
    """Modules of transformers that a constructor builds with what they do not take."""
    if not judged(context).has(SINCE):
        return
    for info in context.file.classes.values():
        init = info.methods.get("__init__")
        if init is None or not info.is_module:
            continue
        for call in body(context.file, init).all(ast.Call):
            if not _of_transformers(context, call):
                continue
            built = context.file.resolve(dotted_name(call.func))
            if not isinstance(built, ClassInfo):
                continue
            hit = built.find_method("__init__") if built.is_module else None
            if hit is None:
                continue
            signature = Signature.of(hit[1])
            odd = [k.arg for k in call.keywords if k.arg and not signature.accepts(k.arg)]
            if odd and call in runs_always(init):
                names = " and ".join(f"{name}=" for name in odd)
                yield context.finding(
                    CODE,
                    Severity.ERROR,
                    info,
                    call,
                    f"{built.name} of transformers takes no {names}: the constructor raises "
                    "TypeError",
                    "Give it what it takes today, or write the class in this file.",
                )


def _of_transformers(context: Context, call: ast.Call) -> bool:
    return context.file.qualify(dotted_name(call.func)).startswith("transformers.models.")


def _of_functions(context: Context) -> Iterator[Finding]:
    release = judged(context)
    gone = {key: c for key, c in removed_arguments().items() if release.lacks(c.until)}
    functions = {owner.rpartition(".")[2]: owner for owner, _ in gone}
    if not any(name in context.file.source.text for name in functions):
        return
    imports = context.file.imports.items()
    called = {local for local, full in imports if full.rpartition(".")[2] in functions}
    called |= functions.keys()
    for info in context.file.classes.values():
        if not info.is_module:
            continue
        for name, function in info.methods.items():
            chosen = _chosen(context, function, called)
            for last, call in body(context.file, function).calls:
                if last not in called and last not in chosen:
                    continue
                name_here = dotted_name(call.func)
                name_here = chosen.get(name_here, name_here)
                full = context.file.qualify(name_here)
                owner = functions.get(full.rpartition(".")[2], "")
                if not full.endswith(owner.partition(".")[2] or full) or full == name_here:
                    continue  # a function of the file's own
                given = [
                    gone[owner, n] for n in _names(context, function, call) if (owner, n) in gone
                ]
                if not given:
                    continue
                names = " and ".join(f"{change.name}=" for change in given)
                renamed = [f"{c.replacement}= for {c.name}=" for c in given if c.replacement]
                yield context.finding(
                    CODE,
                    Severity.ERROR
                    if name == "forward" and call in runs_always(function)
                    else Severity.INFO,
                    info,
                    call,
                    f"{full.rpartition('.')[2]} takes no {names} since transformers "
                    f"{given[0].until}: the call raises TypeError",
                    f"Write {renamed[0]}, and leave out what is gone."
                    if renamed
                    else "Leave the argument out.",
                    Fix(
                        "v5_mask_arguments",
                        "give the mask function the arguments that it takes",
                        data={c.name: c.replacement for c in given},
                    ),
                )


def _chosen(context: Context, function: FunctionNode, called: set[str]) -> dict[str, str]:
    """Locals that stand for one of the functions: ``mask = create_a if few else create_b``."""
    found: dict[str, str] = {}
    for assignment in body(context.file, function).all(ast.Assign):
        value, target = assignment.value, assignment.targets[0]
        sides = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
        names = [dotted_name(side) for side in sides]
        if isinstance(target, ast.Name) and all(name in called for name in names):
            found[target.id] = names[0]
    return found


def _names(context: Context, function: FunctionNode, call: ast.Call) -> Iterator[str]:
    """The keywords of a call, those of a dictionary of the same function among them."""
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield keyword.arg
        elif isinstance(keyword.value, ast.Name):
            for node in body(context.file, function).all(ast.Assign):
                target = node.targets[0]
                if (
                    isinstance(target, ast.Name)
                    and target.id == keyword.value.id
                    and isinstance(node.value, ast.Dict)
                ):
                    for key in node.value.keys:
                        if isinstance(key, ast.Constant) and isinstance(key.value, str):
                            yield key.value
