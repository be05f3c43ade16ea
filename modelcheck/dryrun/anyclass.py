"""Models without an AutoModel: the classes that are written for a configuration.

vLLM refuses such a type, yet its classes are part of others, or show what the fusers make of
them; the accuracy of the predictions is measured on them too.
"""

from __future__ import annotations

import copy
import importlib
from types import ModuleType
from typing import TYPE_CHECKING

from modelcheck.errors import BuildError

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel


def build_largest(config: PretrainedConfig) -> PreTrainedModel:
    """Of the models for this configuration the one with the most modules.

    Raises `BuildError` where there is none, or what the last one raised where none builds.
    """
    classes = classes_for(type(config))
    if not classes:
        raise BuildError(f"no model class is written for {type(config).__name__}")
    largest: PreTrainedModel | None = None
    failure: Exception | None = None
    for cls in classes:
        try:
            model: PreTrainedModel = cls._from_config(copy.deepcopy(config))
        except Exception as error:
            failure = error
            continue
        if largest is None or _size(model) > _size(largest):
            largest = model
    if largest is None:
        assert failure is not None, "each class is there or has failed"
        raise failure
    return largest


def classes_for(kind: type[PretrainedConfig]) -> list[type[PreTrainedModel]]:
    """The model classes beside a configuration class that name it as theirs."""
    from transformers import PreTrainedModel

    package, _, stem = kind.__module__.rpartition(".")
    module = importlib.import_module(f"{package}.{stem.replace('configuration_', 'modeling_')}")
    return [cls for cls in _models(module, PreTrainedModel) if cls.config_class is kind]


def _models(module: ModuleType, base: type[PreTrainedModel]) -> list[type[PreTrainedModel]]:
    """The models that a module defines; those without a forward are only bases."""
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, base)
        and value.__module__ == module.__name__
        and getattr(value, "forward", None) is not base.forward
    ]


def _size(model: PreTrainedModel) -> int:
    return sum(1 for _ in model.modules())
