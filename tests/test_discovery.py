"""Which files a run checks."""

import json
import os

from modelcheck.source.discovery import discover


def tree(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}" if name.endswith(".json") else "")


def found(root):
    return sorted(os.path.relpath(path, root) for path in discover([str(root)]).modeling)


def test_a_folder_gives_modeling_and_modular_files_only(tmp_path):
    tree(tmp_path, "modeling_x.py", "sub/modular_x.py", "configuration_x.py", "modeling_x.ipynb")
    assert found(tmp_path) == ["modeling_x.py", "sub/modular_x.py"]


def test_hidden_folders_and_virtual_environments_are_passed_over(tmp_path):
    tree(
        tmp_path,
        ".cache/modeling_x.py",
        "env/pyvenv.cfg",
        "env/lib/modeling_x.py",
        "lib/site-packages/modeling_x.py",
    )
    result = discover([str(tmp_path)])
    assert result.modeling == ()
    assert result.empty == (str(tmp_path),)


def test_auto_map_names_files_by_other_names(tmp_path):
    tree(tmp_path, "net.py", "other.py")
    auto_map = {"AutoModel": "org/repo--net.Net", "AutoConfig": "missing.Config", "x": ["net", 1]}
    (tmp_path / "config.json").write_text(json.dumps({"auto_map": auto_map}))
    assert found(tmp_path) == ["net.py"]
    assert discover([str(tmp_path)]).configs == (str(tmp_path / "config.json"),)


def test_a_config_that_is_no_model_is_not_taken_from_a_folder(tmp_path):
    (tmp_path / "config.json").write_text('{"port": 80}')
    assert discover([str(tmp_path)]).configs == ()


def test_symlink_loops_end_and_each_real_file_comes_once(tmp_path):
    tree(tmp_path, "a/modeling_x.py")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (tmp_path / "modeling_y.py").symlink_to(tmp_path / "a" / "modeling_x.py")
    assert len(found(tmp_path)) == 1
    assert len(discover([str(tmp_path), str(tmp_path / "a" / "modeling_x.py")]).modeling) == 1


def test_a_named_file_is_taken_whatever_it_is_called(tmp_path):
    tree(tmp_path, "net.py")
    assert discover([str(tmp_path / "net.py")]).modeling == (str(tmp_path / "net.py"),)


def test_what_cannot_be_checked_is_said(tmp_path):
    tree(tmp_path, "notes.txt", "modeling_x.ipynb")
    paths = [str(tmp_path / name) for name in ("notes.txt", "modeling_x.ipynb", "missing")]
    messages = [str(error) for error in discover(paths).unreadable]
    assert len(messages) == 3
    assert "no such file" in messages[2]


def test_the_current_folder_names_files_without_a_dot(tmp_path, monkeypatch):
    tree(tmp_path, "modeling_x.py", "sub/modeling_y.py")
    monkeypatch.chdir(tmp_path)
    assert discover(["."]).modeling == ("modeling_x.py", "sub/modeling_y.py")


def test_files_with_modules_that_the_named_ones_import(tmp_path):
    files = {
        "modeling_x.py": "from .blocks import Block\nfrom .configuration_x import XConfig\n",
        "blocks.py": "from torch import nn\n    from .attention import Core\nBlock = nn.Module\n",
        "attention.py": "from torch import nn\nclass Core(nn.Module): ...\n",
        "configuration_x.py": "from .tables import SIZES\n",
        "tables.py": "SIZES = {}\n",
        "unused.py": "from torch import nn\nclass Other(nn.Module): ...\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert found(tmp_path) == ["modeling_x.py"]  # nothing says what belongs together
    (tmp_path / "config.json").write_text('{"auto_map": {"AutoModel": "modeling_x.XModel"}}')
    assert found(tmp_path) == ["attention.py", "blocks.py", "modeling_x.py"]
