"""Give the models of a file the ``get_head_mask`` that transformers 5 took away.

The method of transformers 4 joins the class at the root of the file's models: None for every
layer without a mask, and one mask a layer otherwise.
"""

from __future__ import annotations

import ast

from fixers import FixRefused
from fixers.splice import Splice
from fixers.toolkit import document
from modelcheck.findings import Finding

METHOD = '''
def get_head_mask(self, head_mask, num_hidden_layers, is_attention_chunked=False):
    """A mask for each layer, [layers, batch, heads, 1, 1]; None for each without one."""
    if head_mask is None:
        return [None] * num_hidden_layers
    if head_mask.dim() == 1:
        head_mask = head_mask[None, None, :, None, None].expand(num_hidden_layers, -1, -1, -1, -1)
    elif head_mask.dim() == 2:
        head_mask = head_mask[:, None, :, None, None]
    head_mask = head_mask.to(dtype=self.dtype)
    return head_mask.unsqueeze(-1) if is_attention_chunked else head_mask
'''


def fix(text: str, finding: Finding) -> str:
    """``text`` with the method. Raises `FixRefused`."""
    doc = document(text, finding)
    splice = Splice(doc)
    info = doc.class_info(finding.class_name)
    owners = [c for c in info.mro if c.kind == "pretrained" and c.file is info.file]
    if not owners:
        raise FixRefused(f"{info.name} is no PreTrainedModel", finding.span.line)
    root = owners[-1]
    last = root.node.body[-1]
    if isinstance(last, ast.Pass):
        splice.replace_from(last, last, METHOD.strip("\n"))
    else:
        splice.after(last, METHOD, blank=True)
    return splice.text()
