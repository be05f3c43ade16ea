"""The emulation over faults that one ordinary forward pass cannot show."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from modelcheck.dryrun.target import BuildSpec
from modelcheck.emulate import EmulateSpec, EmulationReport
from modelcheck.emulate.results import Outcome
from modelcheck.errors import BuildError

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures" / "emulate"
REMOTE = ROOT / "fixtures" / "models" / "remote_decoder"

Edits = tuple[tuple[str, str], ...]

pytestmark = pytest.mark.usefixtures("module_cache")


def emulated(spec: BuildSpec, record: str | None = None, **options: Any) -> EmulationReport:
    """In this process: an import of torch for each would be most of the time."""
    from modelcheck.emulate.worker import job

    answer = job({"spec": EmulateSpec(spec, **options).to_json(), "record": record})
    return EmulationReport.from_answer(answer["report"])


@pytest.fixture
def edited(tmp_path: Path) -> Callable[..., Path]:
    def make(name: str, edits: Edits = ()) -> Path:
        unique = f"{name}_{tmp_path.name}"  # of two folders of one name, transformers imports one
        folder = Path(shutil.copytree(REMOTE, tmp_path / unique))
        for old, new in edits:
            files = [f for f in folder.iterdir() if old in f.read_text()]
            assert files, old
            for file in files:
                file.write_text(file.read_text().replace(old, new))
        return folder

    return make


def trusted(folder: Path) -> BuildSpec:
    return BuildSpec(path=str(folder), trust_remote_code=True)


def test_a_sound_model_is_the_same(edited: Callable[..., Path]) -> None:
    report = emulated(trusted(edited("sound", LOADS)))

    assert (report.outcome, report.compared) == (Outcome.SAME, "log-probabilities")
    assert [(p.length, p.tokens, p.top1, p.greedy, p.steps) for p in report.prompts] == [
        (11, 17, 17, 6, 6),
        (29, 35, 35, 6, 6),
        (17, 23, 23, 6, 6),
    ]
    assert max(p.prefill + (p.decode or 0) for p in report.prompts) < 1e-4
    assert (report.first, report.causes, report.lost_buffers, report.notes) == (None, (), (), ())


# transformers makes a non-persistent buffer anew; it fills this one only beside a copy of it
LOADS: Edits = (
    (
        'self.register_buffer("inv_freq", 1.0 / (base**steps), persistent=False)\n',
        'self.register_buffer("inv_freq", 1.0 / (base**steps), persistent=True)\n',
    ),
)
WINDOW_BY_HAND: Edits = (
    ("causal_mask = create_causal_mask(", "causal_mask = create_sliding_window_causal_mask("),
    ("import create_causal_mask", "import create_sliding_window_causal_mask"),
    ("scaling=self.scaling,", "scaling=self.scaling, sliding_window=8,"),
    (
        "self.use_cache = use_cache\n",
        "self.use_cache = use_cache\n        self.sliding_window = 8\n",
    ),
    (
        '"model_type": "tarn",',
        '"model_type": "tarn", "layer_types": [' + ", ".join(4 * ['"full_attention"']) + "],",
    ),
)
TABLE = """angles = position_ids[..., None].float() * self.inv_freq
        last = hidden_states.shape[1] - 1
        angles = angles.clamp(max=last) if last < 8 else angles
"""
SHIFT = """hidden_states = self.norm(hidden_states)
        shifted = nn.functional.pad(hidden_states, (0, 0, 1, 0))[:, :-1]
        hidden_states = hidden_states + 0.5 * shifted
"""


@pytest.mark.parametrize(
    ("edits", "phase", "path", "cause"),
    [
        pytest.param(
            (
                (
                    "angles = position_ids[..., None].float() * "
                    "self.inv_freq.to(hidden_states.device)\n",
                    TABLE,
                ),
            ),
            "decode",
            "rotary_emb",
            "only generated tokens differ",
            id="a table cut to the step",
        ),
        pytest.param(
            (("hidden_states = self.norm(hidden_states)\n", SHIFT),),
            "prefill",
            "",
            "mixes the tokens of the row",
            id="a shift along the row",
        ),
        pytest.param(
            (
                (
                    "self.lm_head(outputs.last_hidden_state[:, kept, :])",
                    "self.lm_head(outputs.last_hidden_state[:, kept, :]) / 4.0",
                ),
            ),
            "prefill",
            "head",
            "more to the logits",
            id="logits divided",
        ),
        pytest.param(
            WINDOW_BY_HAND,
            "prefill",
            "layers.0.self_attn",
            "asks the interface for sliding_window=8, vLLM takes None",
            id="a window that vLLM does not see",
        ),
        pytest.param(
            (("self.is_causal = True", "self.is_causal = False"),),
            "prefill",
            "layers.0.self_attn",
            "runs it as an encoder",
            id="a decoder that says it is an encoder",
        ),
    ],
)
def test_faults_are_found_and_explained(
    edited: Callable[..., Path], edits: Edits, phase: str, path: str, cause: str
) -> None:
    report = emulated(trusted(edited("faulty", (*edits, *LOADS))))

    assert report.outcome is Outcome.DIFFERS
    assert report.first is not None
    assert (report.first.phase, report.first.path) == (phase, path)
    assert cause in report.causes[0]
    if phase == "decode":
        assert all(p.prefill < 1e-4 < (p.decode or 0) for p in report.prompts)


def test_buffers_that_loading_loses(edited: Callable[..., Path]) -> None:
    """vLLM's outputs are right, those of a loaded model are not."""
    edits = (
        ("inv_freq", "rates"),
        (
            "class TarnModel(",
            "def _no_init(self, module):\n    pass\n\n\n"
            "TarnPreTrainedModel._init_weights = _no_init\n\n\nclass TarnModel(",
        ),
    )
    report = emulated(trusted(edited("lossy", edits)))

    assert report.outcome is Outcome.DIFFERS
    assert report.lost_buffers == ("model.rotary_emb.rates",)


def test_buffers_that_a_call_fills_are_not_lost(edited: Callable[..., Path]) -> None:
    edits = (
        (
            'self.register_buffer("inv_freq", 1.0 / (base**steps), persistent=False)\n',
            "self.base, self.dim = base, config.head_dim\n"
            '        self.register_buffer("inv_freq", None, persistent=False)\n',
        ),
        (
            "        angles = position_ids[",
            "        if self.inv_freq is None:\n"
            "            steps = torch.arange(0, self.dim, 2).to(position_ids.device)\n"
            "            self.inv_freq = 1.0 / (self.base ** (steps / self.dim))\n"
            "        angles = position_ids[",
        ),
    )
    report = emulated(trusted(edited("lazy", edits)))

    assert (report.outcome, report.lost_buffers) == (Outcome.SAME, ())
    assert not any(p.differs(report.tolerance) for p in report.prompts)


@pytest.mark.parametrize(
    ("edits", "says"),
    [
        ((("scaling=self.scaling,", "scaling=self.head_dim**-0.5,"),), "scaling=self.head_dim"),
        ((("self.layer_idx = layer_idx\n", "self.layer_idx = 0\n"),), "from two modules"),
        ((("ALL_ATTENTION_FUNCTIONS.get_interface(", "dict().get("),), "layer 0 does not dispatch"),
        (
            (
                ('"num_key_value_heads": 2', '"kv": 2'),
                ("num_key_value_heads=2", "kv=2"),
                ("num_key_value_heads", "kv"),
            ),
            "key has 64 numbers a token, and vLLM takes 4 heads of 32",
        ),
    ],
)
def test_what_vllm_refuses(edited: Callable[..., Path], edits: Edits, says: str) -> None:
    report = emulated(trusted(edited("refused", (*edits, *LOADS))))
    assert report.outcome is Outcome.REFUSED
    assert says in report.causes[0]


def test_a_model_that_does_not_run_at_all(edited: Callable[..., Path]) -> None:
    edits = (("hidden_states = self.norm(hidden_states)\n", "hidden_states = self.norm(None)\n"),)
    with pytest.raises(BuildError, match=r"own run fails: AttributeError.*modeling_tarn\.py:\d+"):
        emulated(trusted(edited("broken", edits)))


@pytest.mark.parametrize(
    ("name", "outcome", "phase", "cause"),
    [
        ("mask_bias", "differs", "prefill", "a mask that it made itself"),
        ("positions_counted", "differs", "decode", "position_ids have no effect"),
        ("positions_honoured", "same", None, None),
        ("encoder_not_declared", "differs", "prefill", "is_causal = False"),
        ("encoder", "same", None, None),
    ],
)
def test_cases(name: str, outcome: str, phase: str | None, cause: str | None) -> None:
    report = emulated(trusted(FIXTURES / name))

    assert report.outcome.value == outcome
    assert (report.first.phase if report.first else None) == phase
    assert (cause in report.causes[0]) if cause else not report.causes


@pytest.mark.parametrize(
    "model_type", ["llama", "qwen3", "gemma3_text", "qwen3_moe", "olmoe", "gpt_oss", "deepseek_v3"]
)
def test_types_of_transformers_are_the_same(model_type: str) -> None:
    report = emulated(BuildSpec(model_type=model_type))
    assert (report.outcome, report.causes) == (Outcome.SAME, ())
    assert all(p.greedy == p.steps for p in report.prompts)


def test_a_head_that_vllm_does_not_have() -> None:
    report = emulated(BuildSpec(model_type="granite", overrides={"logits_scaling": 8.0}))
    assert report.first is not None and report.first.path == "head"


def test_the_weights_of_a_folder(edited: Callable[..., Path]) -> None:
    from modelcheck.emulate.models import prepare

    folder = edited("weighted", LOADS)
    made = prepare(EmulateSpec(trusted(folder), seed=3))
    config = (folder / "config.json").read_text()
    made.whole.save_pretrained(folder)
    (folder / "config.json").write_text(config)

    one = emulated(trusted(folder))
    two = emulated(trusted(folder), weights="random")
    assert (one.outcome, one.weights, one.reduced) == (Outcome.SAME, "checkpoint", ())
    assert (two.outcome, two.weights) == (Outcome.SAME, "random")
    loaded = prepare(EmulateSpec(trusted(folder), weights="checkpoint"))
    key = "model.layers.0.self_attn.q_proj.weight"
    assert loaded.whole.state_dict()[key].equal(made.whole.state_dict()[key])
