"""Give the models of a file a method that ``PreTrainedModel`` no longer has.

What transformers 4 computed comes back as a method of the class at the root of the file's models.
"""

from __future__ import annotations

import ast

from fixers import FixRefused
from fixers.splice import Splice
from fixers.toolkit import document
from modelcheck.findings import Finding

METHODS = {
    "get_head_mask": '''
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
''',
    "get_extended_attention_mask": '''
def get_extended_attention_mask(self, attention_mask, input_shape, device=None, dtype=None):
    """What to add to the scores, [batch, 1, length or 1, keys], from ones for tokens to see."""
    dtype = dtype or self.dtype
    if attention_mask.dim() == 3:
        seen = attention_mask[:, None, :, :]
    elif attention_mask.dim() == 2:
        seen = attention_mask[:, None, None, :]
        if getattr(self.config, "is_decoder", False):
            length, keys = input_shape[1], attention_mask.shape[1]
            seen = seen * seen.new_ones(length, keys).tril(keys - length)
    else:
        raise ValueError(f"an attention mask has 2 or 3 dimensions, not {attention_mask.dim()}")
    return (1.0 - seen.to(dtype)) * torch.finfo(dtype).min
''',
    "invert_attention_mask": '''
def invert_attention_mask(self, encoder_attention_mask):
    """What to add to the scores, [batch, 1, length or 1, keys], from ones for tokens to see."""
    if encoder_attention_mask.dim() == 3:
        seen = encoder_attention_mask[:, None, :, :]
    else:
        seen = encoder_attention_mask[:, None, None, :]
    return (1.0 - seen.to(self.dtype)) * torch.finfo(self.dtype).min
''',
}


def fix(text: str, finding: Finding) -> str:
    """``text`` with the method. Raises `FixRefused`."""
    doc = document(text, finding)
    splice = Splice(doc)
    info = doc.class_info(finding.class_name)
    method = METHODS.get(finding.fix.data.get("method", "") if finding.fix else "")
    owners = [c for c in info.mro if c.kind == "pretrained" and c.file is info.file]
    if method is None or not owners:
        raise FixRefused(f"{info.name} is no PreTrainedModel", finding.span.line)
    if "torch." in method and info.file.imports.get("torch") != "torch":
        raise FixRefused("torch is not imported as torch", finding.span.line)
    last = owners[-1].node.body[-1]
    if isinstance(last, ast.Pass):
        splice.replace_from(last, last, method.strip("\n"))
    else:
        splice.after(last, method, blank=True)
    return splice.text()
