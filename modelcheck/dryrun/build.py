"""A model without weights: its configuration read, its base class built on the meta device.

vLLM builds ``AutoModel`` (never the ...ForCausalLM around it) in training mode, with the
attention implementation of the text configuration set to "vllm". Source: vLLM 0.25 to 0.33.
"""

from __future__ import annotations

import contextlib
import copy
import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from modelcheck.dryrun import shrink
from modelcheck.dryrun.anyclass import build_largest
from modelcheck.dryrun.causes import describe, is_class_table
from modelcheck.dryrun.target import BuildSpec, auto_map, check_target, require_dependencies
from modelcheck.errors import BuildError, ModelcheckError
from modelcheck.source.repo import CONFIG, read_config

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

ATTENTION = ("vllm", "vllm_mla")
MODULES = 20_000  # about 10 s of building; what has more is not built whole
UNSERVED = ("mxfp4", "gpt_oss_mxfp4")  # quantizations that vLLM's backend refuses


@dataclass(frozen=True)
class Built:
    """A base model on the meta device and how it relates to the real one.

    ``depths`` say which depths of the configuration were cut; empty when none was.
    ``total_depth`` is the text model's number of layers before that, None where the
    configuration does not name it.
    """

    model: PreTrainedModel
    config: PretrainedConfig
    total_depth: int | None
    depths: tuple[shrink.Depth, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def built_depth(self) -> int | None:
        """The text model's number of layers as built."""
        return layers_of(self.config)


def layers_of(config: PretrainedConfig) -> int | None:
    """``num_hidden_layers`` of the text configuration, by whatever name it goes there."""
    value = getattr(config.get_text_config(), "num_hidden_layers", None)
    return value if isinstance(value, int) else None


class _TooManyModules(BaseException):
    """The budget of modules is spent; not an Exception, so that no model swallows it."""


def build_meta(spec: BuildSpec) -> tuple[PreTrainedModel, PretrainedConfig]:
    """The base model (training mode, meta device) and its configuration. See `build`."""
    built = build(spec)
    return built.model, built.config


def build(spec: BuildSpec) -> Built:
    """Build a model as vLLM would, with its depth cut to one layer of every kind.

    The cut is measured: the whole depth is built too, and the kinds of modules must be the
    same. Raises `BuildError` or `UnreadableFile` with one line that names file and cause.
    """
    check_target(spec)
    require_dependencies()
    try:
        register_attention()
        config, notes = load_config(spec)
        if spec.full_depth:
            return Built(instantiate(config, spec), config, layers_of(config), (), notes)
        return _shrunk(config, spec, notes)
    except ModelcheckError:
        raise
    except Exception as error:
        raise BuildError(f"{spec.target}: {_explain(error, spec)}") from error


def _explain(error: Exception, spec: BuildSpec) -> str:
    cause = describe(error, spec.folder)
    if spec.model_type is None or is_class_table(error) or isinstance(error, ImportError):
        return cause
    return f"{cause}; built from the type's default values, a folder with a {CONFIG} may do"


def register_attention() -> None:
    """Make transformers accept the implementation names that vLLM registers.

    No mask function is registered, as vLLM registers none.
    """
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    for name in ATTENTION:
        if name not in ALL_ATTENTION_FUNCTIONS.valid_keys():
            ALL_ATTENTION_FUNCTIONS.register(name, _attention)


def _attention(*_: object, **__: object) -> None:
    raise NotImplementedError("dryrun never runs attention")


def load_config(spec: BuildSpec) -> tuple[PretrainedConfig, tuple[str, ...]]:
    """The configuration of a target, and notes on how it was come by. Raises `BuildError`."""
    from transformers import CONFIG_MAPPING

    notes: tuple[str, ...] = ()
    if spec.model_type is not None:
        if spec.model_type not in CONFIG_MAPPING:
            near = difflib.get_close_matches(spec.model_type, list(CONFIG_MAPPING), 1)
            hint = f", did you mean {near[0]}?" if near else ""
            raise BuildError(f"--model-type: {_unknown(spec.model_type)}{hint}")
        config: PretrainedConfig = CONFIG_MAPPING[spec.model_type](**spec.overrides)
    else:
        config, notes = _config_of_folder(spec)
    text = config.get_text_config()
    text._attn_implementation = ATTENTION[0]
    return config, notes


def _config_of_folder(spec: BuildSpec) -> tuple[PretrainedConfig, tuple[str, ...]]:
    from transformers import CONFIG_MAPPING, MODEL_MAPPING, AutoConfig

    folder = spec.folder
    assert folder is not None, "check_target has made sure"
    path = folder / CONFIG
    _, raw = read_config(path)
    model_type, entries = raw.get("model_type"), auto_map(raw)
    known = isinstance(model_type, str) and model_type in CONFIG_MAPPING
    notes: list[str] = []
    if entries.get("AutoConfig") and not spec.trust_remote_code:
        if not known:
            raise BuildError(
                f"{path}: the model's own code is needed ({entries['AutoConfig']}); "
                "--trust-remote-code runs it"
            )
        notes.append("auto_map is not used, transformers' own class is: no --trust-remote-code")
    if not known and not entries.get("AutoConfig"):
        if model_type is None:
            raise BuildError(f"{path}: neither model_type nor auto_map.AutoConfig")
        raise BuildError(f"{path}: {_unknown(model_type)}, and there is no auto_map.AutoConfig")
    config: PretrainedConfig = AutoConfig.from_pretrained(
        folder.resolve(), trust_remote_code=spec.trust_remote_code, **spec.overrides
    )
    if type(config) not in MODEL_MAPPING and not entries.get("AutoModel"):
        raise BuildError(f"{path}: auto_map has no AutoModel, which is what vLLM builds")
    quantized = raw.get("quantization_config")
    if isinstance(quantized, dict) and quantized.get("quant_method") in UNSERVED:
        notes.append(f"vLLM's backend refuses the quantization {quantized['quant_method']}")
    return config, tuple(notes)


def _unknown(model_type: object) -> str:
    import transformers

    return f"transformers {transformers.__version__} does not know model_type {model_type!r}"


def instantiate(
    config: PretrainedConfig, spec: BuildSpec, budget: int | None = None
) -> PreTrainedModel:
    """``AutoModel.from_config`` on meta, in training mode, as vLLM's first build is.

    Raises whatever the model's constructor raises, and `_TooManyModules` beyond ``budget``.
    """
    import torch
    from transformers import MODEL_MAPPING, AutoModel

    remote = spec.trust_remote_code and "AutoModel" in (getattr(config, "auto_map", None) or {})
    unserved = type(config) not in MODEL_MAPPING and not remote
    if unserved and not spec.any_class:
        raise BuildError(
            f"{spec.target}: transformers has no AutoModel for {type(config).__name__}, "
            "and AutoModel is what vLLM builds"
        )
    config.dtype = torch.get_default_dtype()
    with torch.device("meta"), _counting(budget):
        if unserved:
            return build_largest(config)
        model: PreTrainedModel = AutoModel.from_config(
            config, trust_remote_code=spec.trust_remote_code
        )
    return model


@contextlib.contextmanager
def _counting(budget: int | None) -> Iterator[None]:
    """Stop a build that registers more than ``budget`` modules."""
    if budget is None:
        yield
        return
    from torch.nn.modules.module import register_module_module_registration_hook

    count = 0

    def hook(*_: object) -> None:
        nonlocal count
        count += 1
        if count > budget:
            raise _TooManyModules

    handle = register_module_module_registration_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def _shrunk(config: PretrainedConfig, spec: BuildSpec, notes: tuple[str, ...]) -> Built:
    whole_config = copy.deepcopy(config)
    try:
        whole = instantiate(whole_config, spec, MODULES)
    except _TooManyModules:
        return _grown(config, spec, notes)
    kinds, total = shrink.kinds(whole), layers_of(whole_config)
    for plan in shrink.plans(config, shrink.needed(whole)):
        cut, depths = shrink.apply(config, plan)
        model = _attempt(cut, spec)
        if model is not None and shrink.kinds(model) == kinds:
            return Built(model, cut, total, depths, notes)
    return Built(whole, whole_config, total, (), notes)


def _grown(config: PretrainedConfig, spec: BuildSpec, notes: tuple[str, ...]) -> Built:
    """Too large to build whole: double the depth until nothing new appears."""
    depth, total = shrink.hinted(config), layers_of(config)
    smaller: Built | None = None
    while True:
        cut, depths = shrink.apply(config, shrink.uniform(config, depth))
        try:
            model = instantiate(cut, spec, MODULES)
        except _TooManyModules:
            if smaller is not None:
                return smaller
            message = f"{depth} layers have more than {MODULES} modules, too many to build"
            raise BuildError(f"{spec.target}: {message}") from None
        if smaller is not None and shrink.kinds(model) == shrink.kinds(smaller.model):
            return smaller
        note = f"layers from {depth} on were not looked at: the model is too large"
        smaller = Built(model, cut, total, depths, (*notes, note))
        depth *= 2


def _attempt(config: PretrainedConfig, spec: BuildSpec) -> PreTrainedModel | None:
    """A model of cut depth, or None where the model refuses such a depth."""
    try:
        return instantiate(config, spec)
    except Exception:
        return None
