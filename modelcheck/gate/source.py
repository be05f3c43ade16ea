"""What the source of a model says: which classes fuse, why one does not, and at which line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from modelcheck.errors import MissingDependency, UsageError
from modelcheck.fusers.contract import contract_for
from modelcheck.fusers.predicted import ClassPrediction, Predictions
from modelcheck.fusers.results import FusionResult
from modelcheck.source.basemodel import base_models
from modelcheck.source.classes import ClassInfo, FileIndex, ProjectIndex
from modelcheck.source.discovery import modeling_files
from modelcheck.source.repo import CONFIG, Repo, read_config
from modelcheck.source.text import read_source
from modelcheck.survey.predict import reachable


@dataclass(frozen=True)
class Place:
    """A line of a file."""

    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass
class ModelSource:
    """A folder's config.json, and its modeling files or those of transformers for its model type.

    Raises `UsageError` without a config.json, and `UnreadableFile`; the files are read when they
    are first asked for, and `UsageError` or `MissingDependency` says that there are none.
    """

    folder: Path
    config: dict[str, object] = field(init=False)
    _text: str = field(init=False)
    _predictions: dict[tuple[str, str], Predictions] = field(default_factory=dict)

    def __post_init__(self) -> None:
        path = self.folder / CONFIG
        if not path.is_file():
            raise UsageError(f"{self.folder}: no {CONFIG} in this folder")
        self._text, self.config = read_config(path)

    @cached_property
    def repo(self) -> Repo:
        """The folder with its parsed files."""
        project = ProjectIndex()
        files = tuple(project.add(read_source(name)) for name in self._files())
        return Repo(self.folder, str(self.folder / CONFIG), self._text, self.config, files)

    @cached_property
    def known(self) -> bool:
        """Are there files? A model that another interpreter's transformers has may have none."""
        try:
            return bool(self.repo.files)
        except (UsageError, MissingDependency):
            return False

    def _files(self) -> list[str]:
        auto_map = self.config.get("auto_map")
        named = list(auto_map.values()) if isinstance(auto_map, dict) else []
        own = modeling_files(str(self.folder), [n for n in named if isinstance(n, str)])
        return own or [str(self._of_transformers())]

    def _of_transformers(self) -> Path:
        """The file of the installed transformers for the model type."""
        from modelcheck.survey.catalogue import installed

        wanted = self.config.get("model_type")
        for known in installed().types:
            if known.name == wanted and known.file is not None:
                return known.file
        raise UsageError(
            f"{self.folder}: no modeling file here, and none of transformers for {wanted!r}"
        )

    @property
    def model_type(self) -> str | None:
        """As config.json says."""
        value = self.config.get("model_type")
        return value if isinstance(value, str) else None

    @property
    def layers(self) -> int | None:
        """The depth, where config.json says it in the usual words."""
        text = self.config.get("text_config")
        for part in (text if isinstance(text, dict) else {}, self.config):
            value = part.get("num_hidden_layers")
            if isinstance(value, int) and not isinstance(value, bool):
                return value
        return None

    def predict(self, release: str) -> Iterator[ClassPrediction]:
        """The predictions for the classes of the model that vLLM builds."""
        for info in self._classes:
            found = self._of(info.file, release).of(info)
            if found is not None:
                yield found

    @cached_property
    def _classes(self) -> list[ClassInfo]:
        """The classes that the base model may construct; all of them where it is not known."""
        bases = [
            b.info for file in self.repo.files for b in base_models(file, self._bases_by(file))
        ]
        if not bases or any(base.file is not self.repo.files[0] for base in bases):
            return [info for file in self.repo.files for info in file.classes.values()]
        file = bases[0].file
        names = frozenset().union(*(reachable(file, base.name) for base in bases))
        others = [c for f in self.repo.files if f is not file for c in f.classes.values()]
        return [info for info in file.classes.values() if info.name in names] + others

    def _bases_by(self, file: FileIndex) -> Repo | None:
        return self.repo if self.repo.auto_map else None

    def named(self, class_name: str) -> ClassInfo | None:
        """The class of that name that some file of the model defines."""
        for file in self.repo.files:
            if class_name in file.classes:
                return file.classes[class_name]
        for file in self.repo.files:
            found = file.resolve(class_name)
            if isinstance(found, ClassInfo):
                return found
        return None

    def result(self, class_name: str, fuser: str, release: str) -> FusionResult | None:
        """What is predicted of one fuser on one class; None where nothing is."""
        info = self.named(class_name)
        prediction = self._of(info.file, release).of(info) if info is not None else None
        return prediction.result(fuser) if prediction is not None else None

    def place(self, class_name: str, line: int | None) -> Place | None:
        """The file and line of a class's forward, where ``line`` is; else those of the class."""
        info = self.named(class_name) if self.known else None
        if info is None:
            return None
        forward = info.find_method("forward")
        if line is not None and forward is not None:
            return Place(forward[0].file.path, line)
        return Place(info.file.path, info.node.lineno)

    def _of(self, file: FileIndex, release: str) -> Predictions:
        key = file.path, release
        if key not in self._predictions:
            self._predictions[key] = Predictions(file, contract_for(release), self.config)
        return self._predictions[key]
