"""Classes that inherit from the installed transformers: found, read, never imported."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from modelcheck.cli.scan import scan
from modelcheck.findings import Finding, Severity
from modelcheck.fusers.predicted import predict_file
from modelcheck.fusers.results import Fires
from modelcheck.scan import Folder, Scanner, Selection
from modelcheck.source import installed
from modelcheck.source.classes import ClassInfo, FileIndex, ProjectIndex
from modelcheck.source.text import parse_text, read_source

ROOT = Path(__file__).resolve().parents[2]
HEIR = ROOT / "fixtures" / "inheriting"

needs_transformers = pytest.mark.skipif(
    installed.installed_root() is None, reason="transformers is not installed"
)

INIT_END = """            config.num_attention_heads * self.head_dim, config.hidden_size, bias=False
        )
"""
INLINE = """
    def forward(self, hidden_states, position_embeddings, attention_mask=None, **kwargs):
        query, key, value = self.q_proj(hidden_states), self.k_proj(hidden_states), hidden_states
        weights = (query @ key.transpose(1, 2) * self.scaling).softmax(-1)
        return self.o_proj(weights @ value), weights
"""
WITHOUT_KWARGS = """
    def forward(self, hidden_states, attention_mask=None, position_embeddings=None):
        normed = self.input_layernorm(hidden_states)
        return hidden_states + self.self_attn(
            normed, attention_mask=attention_mask, position_embeddings=position_embeddings
        )[0]
"""


# A transformers tree of our own: what a release looks like, and nothing of it installed. --------

LLAMA = """
import torch
from torch import nn
from ...modeling_utils import PreTrainedModel
from .configuration_lark import LarkConfig
from ..shared.modeling_shared import SharedNorm

class LarkNorm(SharedNorm):
    pass

class LarkAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config

class LarkPreTrainedModel(PreTrainedModel):
    config: LarkConfig
    _supports_attention_backend = True

class LarkModel(LarkPreTrainedModel):
    def forward(self, input_ids=None):
        return input_ids
"""
SHARED = """
from torch import nn
from ...models.lark.modeling_lark import LarkModel

class SharedNorm(nn.Module):
    def forward(self, x):
        return x

class SharedHead(LarkModel):
    pass
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "site" / "transformers"
    for model, files in {
        "lark": {"modeling": LLAMA, "configuration": "class LarkConfig(PreTrainedConfig): ..."},
        "shared": {"modeling": SHARED},
        "auto": {"modeling": "class AutoModel: ..."},
    }.items():
        folder = root / "models" / model
        folder.mkdir(parents=True)
        for kind, text in files.items():
            (folder / f"{kind}_{model}.py").write_text(text)
    # Files that must never be read: reading them fails.
    (root / "__init__.py").write_text("raise ImportError('imported')")
    (root / "modeling_utils.py").write_text("this is not Python")
    return root


def index(text: str, root: Path | None = None, path: str = "modeling_own.py") -> FileIndex:
    return ProjectIndex(root).add(parse_text(path, text))


@pytest.mark.parametrize(
    ("imported", "base"),
    [
        ("from transformers.models.lark.modeling_lark import LarkModel", "LarkModel"),
        ("from transformers.models.lark import LarkModel", "LarkModel"),
        ("from transformers.models import LarkModel as Parent", "Parent"),
        ("from transformers import LarkModel", "LarkModel"),
        ("import transformers", "transformers.LarkModel"),
        ("import transformers.models.lark.modeling_lark as lark", "lark.LarkModel"),
        ("from transformers.models.lark import modeling_lark", "modeling_lark.LarkModel"),
        ("if True:\n    from transformers import LarkModel", "LarkModel"),
    ],
)
def test_every_way_to_import_a_class(tree: Path, imported: str, base: str) -> None:
    own = index(f"{imported}\nclass OwnModel({base}):\n    pass\n", tree).classes["OwnModel"]
    assert [info.name for info in own.mro] == ["OwnModel", "LarkModel", "LarkPreTrainedModel"]
    assert own.kind == "pretrained"
    assert own.external_bases == ("...modeling_utils.PreTrainedModel",)
    flag = own.find_attribute("_supports_attention_backend")
    assert flag is not None
    assert flag[0].name == "LarkPreTrainedModel"


@pytest.mark.parametrize(
    "name",
    [
        "transformers.AutoModel",
        "transformers.models.auto.modeling_auto.AutoModel",
        "transformers.cache_utils.DynamicCache",
        "transformers.LarkTokenizer",
        "transformers.models.lark.modeling_lark",
        "transformers.models.none.modeling_none.Model",
        "transformers",
        "torch.nn.Module",
        "transformers_modules.x.modeling_lark.LarkModel",
    ],
)
def test_what_no_model_file_defines_stays_unknown(tree: Path, name: str) -> None:
    assert installed.locate(tree, name) is None
    assert index("", tree).resolve(name) == name


def test_without_transformers_a_parent_is_unknown(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed, "installed_root", lambda: None)
    own = index("from transformers import LarkModel\nclass Own(LarkModel): ...\n").classes["Own"]
    assert own.mro == (own,)
    assert own.external_bases == ("transformers.LarkModel",)
    # A folder that is merely called transformers is not the package either.
    assert installed.tree_of(tmp_path / "models" / "x" / "modeling_x.py") is None


def test_a_file_of_a_tree_is_read_with_that_tree(tree: Path) -> None:
    path = tree / "models" / "shared" / "modeling_shared.py"
    head = ProjectIndex().add(read_source(path)).classes["SharedHead"]
    assert [info.name for info in head.mro] == ["SharedHead", "LarkModel", "LarkPreTrainedModel"]
    assert all(Path(info.file.path).is_relative_to(tree) for info in head.mro[1:])
    lark = ProjectIndex().add(read_source(tree / "models" / "lark" / "modeling_lark.py"))
    norm = lark.classes["LarkNorm"]
    assert [info.name for info in norm.mro] == ["LarkNorm", "SharedNorm"]


def test_files_that_import_each_other_end(tmp_path: Path) -> None:
    (tmp_path / "b.py").write_text("from .a import Thing\n")
    own = index("from .b import Thing\nclass Own(Thing): ...\n", path=str(tmp_path / "a.py"))
    assert own.classes["Own"].external_bases == (".b.Thing",)


def test_a_parent_that_cannot_be_parsed_is_unknown(tree: Path) -> None:
    (tree / "models" / "lark" / "modeling_lark.py").write_text("class LarkModel(:\n")
    own = index("from transformers import LarkModel\nclass Own(LarkModel): ...\n", tree)
    assert own.classes["Own"].external_bases == ("transformers.LarkModel",)


def test_a_scan_can_be_given_the_package(tree: Path, tmp_path: Path) -> None:
    path = tmp_path / "modeling_own.py"
    path.write_text(
        "from torch import nn\nfrom transformers import LarkModel\n\n\n"
        "class OwnAttention(nn.Module):\n    pass\n\n\nclass OwnModel(LarkModel):\n    pass\n"
    )
    scanner = Scanner(package=tree, selection=Selection(select=("MC301",)))
    assert scanner.scan([str(path)]).findings == ()
    model = tree / "models" / "lark" / "modeling_lark.py"
    model.write_text(LLAMA.replace("_supports_attention_backend = True", "pass"))
    scanner.forget(str(model))
    (found,) = scanner.scan([str(path)]).findings
    assert (found.code, found.class_name, found.path) == ("MC301", "OwnModel", str(path))
    options = ["--isolated", "--select", "MC301", "--output-format", "concise"]
    told = CliRunner().invoke(scan, [str(path), *options, "--transformers-path", str(tree)])
    assert "MC301" in told.stdout, told.output
    assert "MC301" not in CliRunner().invoke(scan, [str(path), *options]).stdout


def test_a_class_of_the_tree_is_parsed_once(tree: Path) -> None:
    text = "from transformers import LarkModel\nclass Own(LarkModel): ...\n"
    one, other = (index(text, tree).classes["Own"].mro[1] for _ in range(2))
    assert one is other


# Against the transformers that is installed. ----------------------------------------------------


def check(tmp_path: Path, *edits: tuple[str, str]) -> list[Finding]:
    """The findings of the inheriting fixture with edits in its modeling file."""
    repo = tmp_path / "heir"
    shutil.copytree(HEIR, repo)
    path = repo / "modeling_heir.py"
    text = path.read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return list(Scanner().scan([str(repo)]).findings)


@needs_transformers
def test_a_model_that_inherits_everything_is_clean(tmp_path: Path) -> None:
    assert check(tmp_path) == []


@needs_transformers
@pytest.mark.parametrize(
    ("old", "new", "code", "severity", "class_name"),
    [
        (INIT_END, INIT_END + INLINE, "MC101", Severity.ERROR, "HeirAttention"),
        (
            INIT_END,
            f"{INIT_END}        self.layer_idx = None\n",
            "MC108",
            Severity.ERROR,
            "HeirAttention",
        ),
        (
            INIT_END,
            f"{INIT_END}        self.scaling = None\n",
            "MC105",
            Severity.ERROR,
            "HeirAttention",
        ),
        (
            "class HeirModel(LlamaModel):\n",
            "class HeirModel(LlamaModel):\n    _supports_attention_backend = False\n",
            "MC301",
            Severity.INFO,
            "HeirModel",
        ),
        (
            "        self.mlp = HeirMLP(config)\n",
            "        self.mlp = HeirMLP(config)\n" + WITHOUT_KWARGS,
            "MC201",
            Severity.INFO,
            "HeirDecoderLayer",
        ),
    ],
)
def test_what_a_subclass_breaks_is_found_where_it_is_written(
    tmp_path: Path, old: str, new: str, code: str, severity: Severity, class_name: str
) -> None:
    found = check(tmp_path, (old, new))
    assert {(f.code, f.severity, f.class_name) for f in found} >= {(code, severity, class_name)}
    assert {f.class_name for f in found} == {class_name}
    lines = (tmp_path / "heir" / "modeling_heir.py").read_text().splitlines()
    for finding in found:
        assert finding.path.endswith("modeling_heir.py")
        starts = [i for i, line in enumerate(lines, 1) if line.startswith("class ")]
        (own,) = [i for i in starts if f"class {class_name}(" in lines[i - 1]]
        assert own <= finding.span.line < next(i for i in [*starts, len(lines) + 1] if i > own)


@needs_transformers
def test_a_finding_in_inherited_code_is_on_the_class_and_has_no_fix(tmp_path: Path) -> None:
    (found,) = check(tmp_path, (INIT_END, f"{INIT_END}        self.scaling = None\n"))
    assert found.fix is None
    text = (tmp_path / "heir" / "modeling_heir.py").read_text().splitlines()
    assert text[found.span.line - 1].startswith("class HeirAttention(")


@needs_transformers
def test_inherited_blocks_are_predicted(tmp_path: Path) -> None:
    scanner = Scanner()
    path = str(HEIR / "modeling_heir.py")
    folder = Folder(str(HEIR), {path: read_source(path)})
    file = folder.context(path, scanner.contract).file
    fires = {
        (p.info.name, r.fuser)
        for p in predict_file(file, scanner.contract)
        for r in p.results
        if r.fires is Fires.YES
    }
    assert fires >= {("HeirRMSNorm", "RMSNorm"), ("HeirMLP", "GLU"), ("HeirAttention", "QKV")}


@needs_transformers
def test_reading_a_parent_imports_nothing() -> None:
    script = (
        "import sys\n"
        "from modelcheck.scan import Scanner\n"
        "assert Scanner().scan([sys.argv[1]]).files == 3\n"
        "print([m for m in ('transformers', 'torch') if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(HEIR)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@needs_transformers
def test_nearly_every_exported_class_is_found() -> None:
    root = installed.installed_root()
    assert root is not None
    names = (
        "Llama",
        "Qwen2_5_VL",
        "GPTNeoX",
        "XLMRobertaXL",
        "HunYuanMoEV1",
        "T5",
        "OPT",
        "Mllama",
    )
    for name in names:
        path = installed.locate(root, f"transformers.{name}PreTrainedModel")
        assert path is not None, name
        index = ProjectIndex().add(read_source(path))
        assert isinstance(index.resolve(f"{name}PreTrainedModel"), ClassInfo)


def test_a_class_with_the_name_of_the_class_it_derives_from():
    code = """
from transformers import PreTrainedModel


class PreTrainedModel(PreTrainedModel):
    base_model_prefix = "model"


class LarkModel(PreTrainedModel):
    def forward(self, input_ids): ...
"""
    file = ProjectIndex().add(parse_text("modeling_lark.py", code))
    base, model = file.classes["PreTrainedModel"], file.classes["LarkModel"]
    assert base.external_bases == model.external_bases == ("transformers.PreTrainedModel",)
    assert model.mro == (model, base)
    assert (base.kind, model.kind) == ("pretrained", "pretrained")
