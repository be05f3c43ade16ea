"""The configuration file: where it is found, what it says, what it must not say."""

import shutil

import pytest

from modelcheck.errors import UsageError
from modelcheck.settings import is_excluded, load, matches


def config(folder, text, name="modelcheck.toml"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


def test_the_nearest_file_with_a_section_is_taken(project):
    config(project, "[tool.modelcheck]\nignore = ['MC1']\n", "pyproject.toml")
    config(project / "a", "[tool.other]\nx = 1\n", "pyproject.toml")
    config(project / "a" / "b", "ignore = ['MC2']\n")
    assert load(["a/modeling_x.py"]).ignore == ("MC1",)
    assert load(["a/b/modeling_x.py"]).ignore == ("MC2",)
    assert load(["a/b", "a/c/modeling_x.py"]).ignore == ("MC1",)
    assert load(["a/b"], isolated=True).ignore == ()
    assert load(["a"], config="a/b/modelcheck.toml").ignore == ("MC2",)


def test_all_keys_are_read(project):
    config(
        project,
        """
        select = ["MC1"]
        extend-select = ["MC501"]
        ignore = ["MC102"]
        vllm = ["0.30", "0.33"]
        transformers = "5.19"
        output-format = "json"
        exclude = ["old"]
        baseline = "known.json"
        [per-file-ignores]
        "old_*.py" = ["MC5"]
        """,
    )
    found = load(["."])
    assert found.select == ("MC1",)
    assert found.extend_select == ("MC501",)
    assert found.ignore == ("MC102",)
    assert found.vllm == ("0.30", "0.33")
    assert found.transformers == "5.19"
    assert found.output_format == "json"
    assert found.exclude == ("old",)
    assert found.baseline == "known.json"
    assert found.per_file_ignores == (("old_*.py", ("MC5",)),)
    assert found.root == str(project)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("selct = []", "unknown key 'selct', did you mean select?"),
        ("fix = true", "unknown key 'fix'; known are select,"),
        ("select = 'MC1'", "select must be a list of codes"),
        ("select = [1]", "select must be a list of codes"),
        ("vllm = 0.33", "vllm must be a release"),
        ("transformers = 5.19", "transformers must be a release"),
        ("per-file-ignores = ['a']", "per-file-ignores must be a table"),
        ("per-file-ignores = {'*.py' = 'MC1'}", "per-file-ignores must be a table"),
        ("output-format = ''", "output-format must be"),
        ("exclude = 'x'", "exclude must be a list of globs"),
        ("baseline = []", "baseline must be"),
        ("select = [", "not valid TOML"),
    ],
)
def test_what_is_wrong_is_one_line_with_file_and_key(project, bad, command, text, words):
    config(project, text)
    with pytest.raises(UsageError) as caught:
        load(["."])
    assert "modelcheck.toml: " in str(caught.value)
    assert words in str(caught.value)
    result = command("scan", bad, cwd=project)
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("select = ['MC999']", "no rule 'MC999'"),
        ("per-file-ignores = {'*.py' = ['MC999']}", "no rule 'MC999'"),
        ("output-format = 'xml'", "'xml' is none of text,"),
        ("vllm = 'new'", "'new' is not a version"),
        ("transformers = 'new'", "'new' is not a version"),
        ("baseline = 'gone.json'", "gone.json: No such file"),
    ],
)
def test_wrong_values_are_said_too(project, bad, command, text, words):
    config(project, text)
    result = command("scan", bad, cwd=project)
    assert result.returncode == 2
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_section_that_is_no_table_and_a_file_that_is_not_there(project):
    config(project, "[tool]\nmodelcheck = 3\n", "pyproject.toml")
    with pytest.raises(UsageError, match=r"tool\.modelcheck must be a table"):
        load(["."])
    with pytest.raises(UsageError, match="No such file"):
        load(["."], config="gone.toml")
    config(project, "[tool.x]\n", "pyproject.toml")
    with pytest.raises(UsageError, match=r"no \[tool\.modelcheck\] section"):
        load(["."], config="pyproject.toml")


def test_options_win(project, bad, scan):
    config(project, "ignore = ['MC3']\noutput-format = 'json'\n")
    assert scan(bad).status == 0
    assert scan(bad).stdout.startswith("{")
    assert scan(bad, "--isolated").status == 1
    assert scan(bad, "--select", "MC307").status == 1
    assert not scan(bad, "--output-format", "text").stdout.startswith("{")
    config(project, "select = ['MC5']\n")
    assert scan(bad).status == 0
    assert scan(bad, "--extend-select", "MC307").status == 1


def test_per_file_ignores(project, bad, scan):
    shutil.copy(bad, project / "modeling_other.py")
    config(project, "per-file-ignores = {'*_bad.py' = ['MC3']}\n")
    assert "modeling_bad.py:" not in scan(".", "--output-format", "concise").stdout
    assert "modeling_other.py:" in scan(".", "--output-format", "concise").stdout
    assert scan(bad, "--per-file-ignores", "x.py:MC1").status == 1
    assert scan(bad, "--per-file-ignores", "x.py:MC1,MC2 modeling_b*:MC1,MC3").status == 0
    assert scan(bad, "--per-file-ignores", "!x.py:MC3").status == 0


def test_per_file_ignores_are_not_fixed(demo, scan):
    before = (demo / "modeling_fen.py").read_bytes()
    scan(demo, "--fix", "--per-file-ignores", "modeling_*:MC")
    assert (demo / "modeling_fen.py").read_bytes() == before


@pytest.mark.parametrize(
    ("pattern", "path", "hit"),
    [
        ("old_*.py", "a/old_x.py", True),
        ("a/*", "a/b/x.py", True),
        ("a/*.py", "b/a/x.py", False),
        ("**/x.py", "x.py", True),
        ("**/a/x.py", "b/a/x.py", True),
        ("x", "x.py", False),
    ],
)
def test_globs(project, pattern, path, hit):
    assert matches(path, pattern, str(project)) is hit


def test_exclude_takes_folders_and_spares_what_is_named(project, bad, scan):
    (project / "old" / "deep").mkdir(parents=True)
    shutil.copy(bad, project / "old" / "deep" / "modeling_x.py")
    config(project, "exclude = ['old']\n")
    assert "modeling_x.py:" not in scan(".", "--output-format", "concise").stdout
    assert "modeling_bad.py:" in scan(".", "--output-format", "concise").stdout
    named = "old/deep/modeling_x.py"
    assert scan(named).status == 1
    assert scan(named, "--force-exclude").status == 0
    assert scan(".", "--exclude", "modeling_bad.py").stdout.count("MC307") == 2
    assert not is_excluded("old/x.py", (), str(project))
    assert is_excluded("old/x.py", ("old/",), str(project))
