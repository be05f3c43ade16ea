"""Logs of real servers, as they are and with what terminals and containers do to them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from modelcheck.fusers.results import Evidence
from modelcheck.gate.lock import Expectation, Lock, write
from modelcheck.gate.logcheck import LogCheck, Missing
from modelcheck.gate.serverlog import LogReader, Warned

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "fixtures" / "logs"
NORMS = ("input_layernorm", "k_norm", "norm", "post_attention_layernorm", "q_norm")
ATTENTION = Expectation("TarnAttention", "Attention", 4, ("self_attn",))
DENSE = (
    Expectation("TarnAttention", "QKV", 4, ("self_attn",)),
    Expectation("TarnMLP", "GLU", 4, ("mlp",)),
    Expectation("TarnRMSNorm", "RMSNorm", 17, NORMS),
)
Command = Callable[..., subprocess.CompletedProcess[str]]
BEFORE_ATTENTION = ("0.27.1", "0.29.0")  # that fuser came with 0.30


def lock(*expectations: Expectation, vllm: str = "0.32.0") -> Lock:
    return Lock(vllm, "5.19.0", "tarn", 4, Evidence.TRACED, "serves fused", expectations)


def text_of(name: str) -> str:
    return (LOGS / f"{name}.log").read_text()


def checked(text: str, *expectations: Expectation) -> LogCheck:
    check = LogCheck(lock(*expectations))
    for line in text.splitlines(keepends=True):
        list(check.feed(line))
    return check


def names() -> list[str]:
    return sorted(path.stem for path in LOGS.glob("tarn-*.log"))


def test_the_logs_are_there() -> None:
    releases = {name.split("-")[1] for name in names()}
    assert {"0.27.1", "0.29.0", "0.30.0", "0.32.0"} <= releases


@pytest.mark.parametrize("name", names())
def test_real_logs(name: str) -> None:
    release = name.split("-")[1]
    older = release in BEFORE_ATTENTION
    check = checked(text_of(name), *DENSE, *(() if older else (ATTENTION,)))
    assert check.missing == ()
    assert check.more == ()
    assert check.warnings == ()
    assert len(check.counts) == (7 if older else 8)
    assert check.reader.release in ("", release)
    assert check.doubt == ""


def test_an_older_release_has_no_such_fuser() -> None:
    check = checked(text_of("tarn-0.29.0"), *DENSE, ATTENTION)
    reason = "vLLM 0.29.0 has no Attention fuser"
    assert check.missing == (Missing("TarnAttention", "Attention", "self_attn", reason),)


def test_a_server_that_fuses_less() -> None:
    check = checked(text_of("tarn_unfused-0.32.0"), *DENSE, ATTENTION)
    gone = {missing.fuser: missing for missing in check.missing}
    assert set(gone) == {"GLU", "RMSNorm"}
    assert gone["GLU"].reason == "it fuses as MergedColumnParallel instead"
    assert gone["RMSNorm"].reason == "vLLM says that it only looks like an RMSNorm"
    assert [line.fuser for line in check.more] == ["MergedColumnParallel"]
    assert check.to_json()["looks_like_rms_norm"] == ["TarnRMSNorm"]
    assert check.reader.ready


# Each takes the log of a server and gives what somebody may have captured of it.
def coloured(text: str) -> str:
    text = re.sub(r"^(\(\w+ pid=\d+\)) ", "\x1b[0;36m\\1\x1b[0;0m ", text, flags=re.MULTILINE)
    return re.sub(r"\b(INFO|WARNING)\b", "\x1b[32m\\1\x1b[0m", text)


def windows(text: str) -> str:
    return text.replace("\n", "\r\n")


def compose(text: str) -> str:
    return "".join(f"vllm-1  | {line}" for line in text.splitlines(keepends=True))


def kubernetes(text: str) -> str:
    stamp = "2026-11-30T08:16:29.123456789Z stdout F "
    return "".join(stamp + line for line in text.splitlines(keepends=True))


def ranks(text: str) -> str:
    return "".join(f"[rank0]: {line}" for line in text.splitlines(keepends=True))


def two_workers(text: str) -> str:
    """Every line of the worker from two of them, as with tensor parallelism on two nodes."""
    lines = []
    for line in text.splitlines(keepends=True):
        found = re.match(r"\(Worker(?:_TP\d)? pid=\d+\)", line)
        rest = line[found.end() :] if found else ""
        lines += [f"(Worker_TP{n} pid={40 + n}){rest}" for n in (0, 1)] if found else [line]
    return "".join(lines)


def cut(width: int) -> Callable[[str], str]:
    """A terminal that cuts within words."""

    def wrap(text: str) -> str:
        lines = text.splitlines()
        pieces = [line[i : i + width] for line in lines for i in range(0, len(line) or 1, width)]
        return "\n".join(pieces) + "\n"

    wrap.__name__ = f"cut_at_{width}"
    return wrap


def folded(text: str) -> str:
    """A viewer that breaks lines at blanks, and indents what goes on."""
    fold = textwrap.TextWrapper(90, subsequent_indent="    ", break_long_words=False)
    return "".join(fold.fill(line) + "\n" for line in text.splitlines())


def progress(text: str) -> str:
    bar = "\rLoading: 10%|#   | 1/10\rLoading: 100%|####| 10/10\n"
    return "".join(bar + line for line in text.splitlines(keepends=True))


def json_lines(text: str) -> str:
    """vLLM's own JSON logging."""
    lines = []
    for line in text.splitlines():
        found = re.match(r"(?:\(.*?\) )?(INFO|WARNING) \S+ \S+ \[[^\]]*\] (.*)", line)
        if found:
            data = {"asctime": "-", "levelname": found[1], "process": 7, "message": found[2]}
            lines.append(json.dumps(data))
    return "\n".join(lines) + "\n"


NOISE = (
    coloured,
    windows,
    compose,
    kubernetes,
    ranks,
    two_workers,
    *map(cut, range(60, 130, 7)),
    folded,
    progress,
    json_lines,
)


@pytest.mark.parametrize("noise", NOISE, ids=lambda noise: noise.__name__)
@pytest.mark.parametrize("name", [*names(), "tarn_unfused-0.32.0"])
def test_noise_changes_nothing(name: str, noise: Callable[[str], str]) -> None:
    plain, noisy = (checked(t, *DENSE) for t in (text_of(name), noise(text_of(name))))
    assert set(noisy.counts) == set(plain.counts)
    assert noisy.missing == plain.missing
    assert [w.class_name for w in noisy.warned if w.class_name] == [
        w.class_name for w in plain.warned if w.class_name
    ] * (2 if noise is two_workers and plain.warned else 1)


def test_all_noise_at_once() -> None:
    text = compose(coloured(folded(two_workers(text_of("tarn-0.32.0")))))
    check = checked(windows(text), *DENSE, ATTENTION)
    assert check.missing == ()
    assert set(check.counts.values()) == {2}  # once in each process, which is no second fusion
    line = next(iter(check.counts))
    assert check.workers(line) == ("Worker_TP0 40", "Worker_TP1 41")


def test_each_single_line_is_missed_when_it_is_gone() -> None:
    """Not one of the lines is there for nothing."""
    lines = text_of("tarn-0.32.0").splitlines(keepends=True)
    said = [i for i, line in enumerate(lines) if "Fused: " in line or "Found: " in line]
    assert len(said) == 8
    for index in said:
        check = checked("".join(lines[:index] + lines[index + 1 :]), *DENSE, ATTENTION)
        (missing,) = check.missing
        assert f"{missing.name}" in lines[index] and missing.class_name in lines[index]


def test_text_that_only_quotes_such_a_line_is_none() -> None:
    head = "(APIServer pid=1) INFO 11-30 08:16:29 [logger.py:40] "
    quoted = "Received request: prompt: 'Fused: a (mlp: TarnMLP) -> gate_up_proj (Merged'\n"
    check = checked(head + quoted, DENSE[1])
    assert check.counts == {}
    assert len(check.missing) == 1


def test_a_real_mixture_of_experts() -> None:
    expected = (
        Expectation("OlmoeAttention", "Attention", 2, ("self_attn",)),
        Expectation("OlmoeAttention", "QKV", 2, ("self_attn",)),
        Expectation("OlmoeRMSNorm", "RMSNorm", 9, NORMS),
        Expectation("OlmoeSparseMoeBlock", "MoEBlock (internal routing)", 2, ("mlp",)),
    )
    check = checked(text_of("olmoe-0.32.0"), *expected)
    assert (check.missing, check.more) == ((), ())
    outside = Expectation("OlmoeSparseMoeBlock", "MoEBlock (external routing)", 2, ("mlp",))
    (missing,) = checked(text_of("olmoe-0.32.0"), *expected[:3], outside).missing
    assert missing.class_name == "OlmoeSparseMoeBlock"


def test_the_mixture_of_experts() -> None:
    """Blocks that vLLM routes are logged under their own class, others under their experts'."""
    head = "(Worker pid=1) INFO 11-30 08:16:29 [moe.py:369] "
    internal = Expectation("TarnBlock", "MoEBlock (internal routing)", 2, ("mlp",))
    external = Expectation("TarnBlock", "MoEBlock (external routing)", 2, ("mlp",))
    inside = f"{head}Fused: gate + experts (TarnBlock) -> MoERunner (internal routing)\n"
    outside = f"{head}Fused: experts (TarnExperts) -> MoERunner (external routing)\n"
    assert checked(inside, internal).missing == ()
    assert checked(outside, external).missing == ()
    assert checked(outside, external).more == ()
    assert checked(outside, internal).missing[0].fuser == "MoEBlock (internal routing)"
    assert len(checked(inside, external).missing) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no line of vLLM"),
        ("hello\nworld\n", "no line of vLLM"),
        (
            "INFO 11-30 08:16:29 [model.py:1] Resolved architecture: LlamaForCausalLM\n",
            "did not say that it uses its Transformers backend",
        ),
        (
            "(APIServer pid=1) ERROR 11-30 08:16:29 [x.py:1] Engine core initialization failed.\n",
            "engine did not start",
        ),
    ],
)
def test_a_log_without_any_fusion_says_why(text: str, words: str) -> None:
    check = checked(text, *DENSE)
    assert words in check.doubt
    assert len(check.missing) == 3


def test_warnings_of_other_kinds_are_listed() -> None:
    reader = LogReader()
    text = "TarnBlock could be fused but routing it in vLLM would apply the scale in float16"
    (event,) = reader.feed(f"(Worker pid=1) WARNING 11-30 08:16:29 [moe.py:324] {text}\n")
    assert event == Warned(text, "", "Worker 1")


class TestCommand:
    """From outside."""

    @pytest.fixture
    def lockfile(self, tmp_path: Path) -> Path:
        write(tmp_path / "modelcheck.lock", lock(*DENSE, ATTENTION))
        return tmp_path / "modelcheck.lock"

    def test_a_file(self, command: Command, lockfile: Path) -> None:
        done = command("log", str(LOGS / "tarn-0.32.0.log"), "--expect", "modelcheck.lock")
        assert done.returncode == 0, done
        assert "8 different lines of fusers in vLLM 0.32.0; nothing missing of" in done.stdout
        rows = [line.split() for line in done.stdout.splitlines()]
        assert ["TarnMLP", "GLU", "1", "Fused:"] in [row[:4] for row in rows]
        done = command("log", str(LOGS / "tarn_unfused-0.32.0.log"), "--expect", "modelcheck.lock")
        assert done.returncode == 1
        assert "vLLM warns: TarnRMSNorm looks like an RMSNorm" in done.stdout
        assert "missing: TarnMLP (mlp): GLU: it fuses as MergedColumnParallel" in done.stdout

    def test_json(self, command: Command, lockfile: Path) -> None:
        log = str(LOGS / "tarn-0.32.0.log")
        data = json.loads(command("log", log, "--expect", "modelcheck.lock", "--json").stdout)
        assert (data["schema_version"], data["ok"], data["vllm"]) == (1, True, "0.32.0")
        assert {line["times"] for line in data["lines"]} == {1}

    def test_without_a_lock_it_only_counts(self, command: Command) -> None:
        done = command("log", str(LOGS / "tarn_unfused-0.32.0.log"))
        assert done.returncode == 0
        assert "looks like an RMSNorm" in done.stdout

    def test_bad_usage(self, command: Command, lockfile: Path, tmp_path: Path) -> None:
        log = str(LOGS / "tarn-0.32.0.log")
        for arguments, words in (
            (["no.log"], "no.log: No such file"),
            ([str(tmp_path)], "Is a directory"),
            ([log, "--expect", "no.lock"], "no.lock: no such file"),
        ):
            done = command("log", *arguments)
            assert (done.returncode, done.stdout) == (2, "")
            (line,) = done.stderr.splitlines()
            assert words in line

    def test_bytes_that_are_no_text(self, command: Command, tmp_path: Path) -> None:
        log = tmp_path / "odd.log"
        log.write_bytes(b"\xff\xfe\x00" + (LOGS / "tarn-0.32.0.log").read_bytes())
        assert "8 different lines" in command("log", "odd.log").stdout

    def test_a_pipe_is_read_while_the_server_starts(self, lockfile: Path) -> None:
        """Each line is shown before the next one comes, and the verdict when it is up."""
        process = subprocess.Popen(
            [sys.executable, "-m", "modelcheck", "log", "--expect", str(lockfile), "--until-ready"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert process.stdin is not None and process.stdout is not None
        shown = []
        for line in (LOGS / "tarn-0.32.0.log").read_bytes().splitlines(keepends=True):
            process.stdin.write(line)
            process.stdin.flush()
            if b"Fused: " in line or b"Found: " in line:
                shown.append(process.stdout.readline())  # hangs if it waited for more
                assert line.rstrip().endswith(shown[-1].rpartition(b" [")[0])
        start = time.monotonic()
        rest = process.stdout.read().decode()  # standard input is still open
        assert process.wait() == 0
        assert time.monotonic() - start < 30
        assert len(shown) == 8
        assert "nothing missing" in rest
        process.stdin.close()
        process.stdout.close()

    def test_a_pipe_that_ends_early(self, command: Command, lockfile: Path) -> None:
        text, found, _ = text_of("tarn-0.32.0").partition("(Worker pid=26769) INFO")
        done = command("log", "-", "--expect", "modelcheck.lock", stdin=text)
        assert found and done.returncode == 1
        assert done.stdout.count("missing: ") == 4
