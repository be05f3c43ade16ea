"""Family plans: tensor- and pipeline-parallel plans against the modules they are for."""

import re
from pathlib import Path

import pytest

from modelcheck.fusers.contract import contract_for
from modelcheck.rules.base import rule_named
from modelcheck.scan import Scanner, Selection

FIXTURES = Path(__file__).resolve().parent.parent.parent / "fixtures"


def example(code, section="Example"):
    text = rule_named(code).sections[section]
    return re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]


@pytest.fixture
def scan(tmp_path):
    def run(code, text, vllm=None):
        path = tmp_path / "modeling_x.py"
        path.write_text(text)
        return Scanner(contract_for(vllm), Selection(select=(code,))).scan([str(path)]).findings

    return run


def change(text, *pairs):
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def test_the_stale_plan_of_a_whole_model():
    folder = FIXTURES / "rules" / "plan_names_nothing"
    scanner = Scanner(selection=Selection(select=("MC8",)))
    (finding,) = scanner.scan([str(folder / "modeling_bad.py")]).findings
    assert (finding.code, finding.class_name, finding.span.line) == ("MC802", "FagusConfig", 19)
    assert (finding.severity, finding.tp_only) == ("slow", True)
    assert "'layers.*.self_attn.q_proj'" in finding.advice
    assert scanner.scan([str(folder / "modeling_good.py")]).findings == ()


class TestPlanNamesNothing:
    def test_one_stale_entry_is_worth_knowing_only(self, scan):
        text = change(example("MC807", "Use instead"), ('"layers.*.o_proj"', '"layers.*.dense"'))
        (finding,) = scan("MC802", text)
        assert finding.severity == "info"
        assert "'layers.*.dense'" in finding.message

    def test_a_module_that_a_setting_brings_is_none(self, scan):
        text = change(
            example("MC807", "Use instead"),
            ('"layers.*.o_proj"', '"layers.*.extra": "rowwise",\n        "layers.*.o_proj"'),
            (
                "        self.scaling =",
                "        if config.hidden_size < 0:\n"
                "            self.extra = nn.Linear(1, 1)\n"
                "        self.scaling =",
            ),
        )
        assert scan("MC802", text) == ()

    def test_names_of_embeddings_and_parameters_are_no_stale_names(self, scan):
        text = change(
            example("MC807", "Use instead"),
            (
                '"layers.*.o_proj"',
                '"embed_tokens": "x",\n        "layers.*.q_proj.weight": "x",\n'
                '        "layers.*.o_proj"',
            ),
        )
        assert scan("MC802", text) == ()

    def test_below_a_module_that_is_not_known_anything_may_be(self, scan):
        text = change(
            example("MC807", "Use instead"),
            ('"layers.*.o_proj"', '"layers.*.block.fc": "rowwise",\n        "layers.*.o_proj"'),
            ("        self.scaling =", "        self.block = make(config)\n        self.scaling ="),
        )
        assert scan("MC802", text) == ()


class TestPlanEntryRefused:
    def test_no_regular_expression(self, scan):
        text = change(example("MC803"), ('("colwise", "rowwise")', '"replicate"'))
        assert scan("MC803", text) == ()
        (finding,) = scan("MC803", change(text, ('"out_gate":', '"out_**gate":')))
        assert "no regular expression" in finding.message
        assert (finding.severity, finding.tp_only) == ("error", False)

    def test_a_layer_that_is_fused_is_not_looked_up(self, scan):
        text = change(example("MC803", "Use instead"), ('q_proj": "colwise"', 'q_proj": None'))
        assert scan("MC803", text) == ()


@pytest.mark.parametrize("style", ["replicate", "mla_kv_a_proj", "replicated_with_grad_allreduce"])
def test_a_style_that_leaves_the_layer_whole(scan, style):
    assert scan("MC804", change(example("MC804"), ("colwise_rep", style))) == ()


@pytest.mark.parametrize("style", ["packed_colwise", "rowwise_rep", "grouped_gemm"])
def test_a_style_that_vllm_does_not_know(scan, style):
    (finding,) = scan("MC804", change(example("MC804"), ("colwise_rep", style)))
    assert (finding.severity, finding.tp_only) == ("slow", True)


class TestPlanKeyTooWide:
    def test_the_finding(self, scan):
        (finding,) = scan("MC805", example("MC805"))
        assert "mix_gate" in finding.message
        assert (finding.severity, finding.tp_only) == ("error", True)

    def test_a_style_that_gathers_does_no_harm(self, scan):
        text = change(example("MC805"), ('"mix": "colwise"', '"mix": "colwise_gather_output"'))
        assert scan("MC805", text) == ()

    def test_a_key_for_all_below_a_module_is_meant(self, scan):
        text = change(example("MC805", "Use instead"), ('"layers.*.o_proj"', '"layers.*"'))
        assert scan("MC805", text) == ()


class TestNoPlan:
    def test_a_model_that_fuses_throughout_needs_none(self, scan):
        text = example("MC807", "Use instead")
        without = re.sub(r"    base_model_tp_plan = \{.*?\n    \}\n", "", text, flags=re.DOTALL)
        assert without != text
        assert scan("MC806", without) == ()


class TestHardCodedHeads:
    def test_every_projection(self, scan):
        found = scan("MC807", example("MC807"))
        assert len(found) == 3
        assert all((f.severity, f.tp_only) == ("error", True) for f in found)

    @pytest.mark.parametrize(
        "shape",
        [
            "batch, length, -1",
            "*hidden_states.shape[:-1], -1",
            "batch, length, -1, 1",
        ],
    )
    def test_the_attention_s_output_may_be_any_width(self, scan, shape):
        text = change(
            example("MC807", "Use instead"), ("reshape(batch, length, -1)", f"reshape({shape})")
        )
        assert scan("MC807", text) == ()

    @pytest.mark.parametrize("shape", ["batch, length, 64", "batch, length, _"])
    def test_the_attention_s_output(self, scan, shape):
        text = change(
            example("MC807", "Use instead"), ("reshape(batch, length, -1)", f"reshape({shape})")
        )
        (finding,) = scan("MC807", text)
        assert "attention's output" in finding.message

    def test_what_is_not_cut_may_have_all_heads(self, scan):
        text = change(
            example("MC807"), ("self.q_proj(hidden_states)", "self.q_proj(input=hidden_states)")
        )
        lines = {f.span.line for f in scan("MC807", change(text, ('"colwise"', '"replicate"')))}
        q_line = text[: text.index("self.q_proj(input=")].count("\n") + 1
        assert len(lines) == 2 and q_line not in lines  # k and v are still merged, and cut


class TestTakenApart:
    """Outputs of merged projections: the latent of a case whose attention vLLM does not know."""

    SPLIT = "self.kv_a_proj(hidden_states).split((self.rank, self.rope), dim=-1)"

    def case(self, new="", name="modeling_case.py"):
        text = (FIXTURES / "cases" / "17_mla_inline_expansion" / name).read_text()
        first = "        query = self.q_proj("
        made = f"        packed = self.kv_a_proj(hidden_states)\n{first}"
        return change(text, (first, made), (self.SPLIT, new)) if new else text

    @pytest.mark.parametrize(
        ("code", "severity", "word"),
        [
            ("packed.split((self.rank, self.rope), dim=-1)", "error", "split into 32 + 16"),
            (
                "torch.split(packed, [self.rank, self.rope], -1)",
                "error",
                "split into 32 + 16",
            ),
            (
                "packed.to(hidden_states.dtype).split_with_sizes((self.rank, self.rope), dim=2)",
                "error",
                "split into 32 + 16",
            ),
            ("packed.split(24, dim=-1)", "error", "split into pieces of 24"),
            ("packed.chunk(2, dim=-1)", "wrong", "cut into 2 parts"),
            (
                "packed[..., : self.rank], packed[..., self.rank :]",
                "wrong",
                "sliced by [:32]",
            ),
            (
                "packed[..., -2 * self.rope :], packed[:, :, -self.rope :]",
                "wrong",
                "sliced by [-32:]",
            ),
        ],
    )
    def test_by_the_whole_width(self, scan, code, severity, word):
        (finding,) = scan("MC807", self.case(code))
        assert (finding.class_name, finding.severity) == ("QuillajaAttention", severity)
        assert finding.tp_only and finding.span.line == 148
        assert f"the output of kv_a_proj is {word}" in finding.message
        assert "merging kv_a_proj and q_proj" in finding.advice

    @pytest.mark.parametrize(
        "code",
        [
            "packed.split((1, 11), dim=1)",  # along the tokens
            "packed.split(1, dim=1)",
            "packed.chunk(2, dim=1)",
            "packed[:, -2:], packed[:, :2]",
            "packed[..., :48], packed[..., 0:]",  # all of them
            "packed[..., 0::2], packed[..., 1::2]",
            "packed.view(batch, length, -1, 24).chunk(2, dim=-1)",
        ],
    )
    def test_other_axes_and_whole_values(self, scan, code):
        assert scan("MC807", self.case(code)) == ()

    def test_as_it_was_written(self, scan):
        (finding,) = scan("MC807", self.case())
        assert finding.span.line == 147

    def test_what_is_not_merged_is_whole(self, scan):
        text = change(
            self.case(), (self.SPLIT, self.SPLIT.replace("states)", "states.contiguous())"))
        )
        assert scan("MC807", text) == ()

    def test_before_0_30_nothing_merges_them(self, scan):
        assert scan("MC807", self.case(), vllm="0.29") == ()

    def test_latent_attention_of_vllm_takes_their_place(self, scan):
        assert scan("MC807", self.case(name="modeling_fixed.py")) == ()

    def test_a_single_head_of_keys_is_whole_on_every_rank(self, scan):
        text = change(example("MC807"), ("num_key_value_heads=2", "num_key_value_heads=1"))
        (finding,) = scan("MC807", text)
        assert "q_proj" in finding.message


class TestFusedOutput:
    def test_without_the_dropout_vllm_finds_it(self, scan):
        text = change(
            example("MC808"), ("self.down_proj(self.dropout(gated))", "self.down_proj(gated)")
        )
        assert scan("MC808", text) == ()

    PACKED = (
        (
            """        self.q_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, width, bias=False)
""",
            """        self.sizes = (config.hidden_size, width)
        self.qkv_proj = nn.Linear(config.hidden_size, config.hidden_size + 2 * width, bias=False)
""",
        ),
        (
            "        query = self.q_proj(hidden_states).view",
            """        query, key, value = self.qkv_proj(hidden_states).split(
            (self.sizes[0], self.sizes[1], self.sizes[1]), dim=-1
        )
        query = query.view""",
        ),
        ("self.k_proj(hidden_states)", "key"),
        ("self.v_proj(hidden_states)", "value"),
        # Here the trace stops, and with it the search for the output projection.
        ("        attend = ", "        assert length > 0\n        attend = "),
        (
            """        "layers.*.q_proj": "colwise",
        "layers.*.k_proj": "colwise",
        "layers.*.v_proj": "colwise",
""",
            "",
        ),
    )

    def test_of_one_packed_projection(self, scan):
        """vLLM 0.32 on two ranks: right with the entry; without, o_proj meets half its input."""
        planned = change(example("MC320", "Use instead"), *self.PACKED)
        assert scan("MC8", planned, "0.32") == ()
        bare = change(planned, ('"layers.*.o_proj": "rowwise",', ""))
        (finding,) = (f for f in scan("MC8", bare, "0.32") if f.severity == "error")
        assert (finding.code, finding.class_name) == ("MC808", "MyAttention")
        assert "qkv_proj into columns" in finding.message

    def test_another_style_does_not_do(self, scan):
        text = change(
            example("MC808", "Use instead"),
            ('down_proj": "rowwise"', 'down_proj": "rowwise_split_input"'),
        )
        (finding,) = scan("MC808", text)
        assert (finding.class_name, finding.severity, finding.tp_only) == ("MyMLP", "error", True)

    LAYER = """class Output(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size)

    def forward(self, output, residual):
        return self.norm(self.dense(output) + residual)


class MyLayer(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.attention = MyAttention(config, layer_idx)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.output = Output(config)

    def forward(self, hidden_states, **kwargs):
        output, _ = self.attention(hidden_states, **kwargs)
        return {}


class MyModel("""

    def in_the_parent(self, code, style):
        style = f'"layers.*.o_proj": "{style}", "layers.*.output.dense": "{style}"' if style else ""
        made = "self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)\n"
        return change(
            example("MC807", "Use instead"),
            (f"        {made}", ""),
            ("return self.o_proj(output)", "return output, weights"),
            ("class MyModel(", self.LAYER.replace("return {}", f"return {code}")),
            ("[MyAttention(", "[MyLayer("),
            ('"layers.*.o_proj": "rowwise",', style),
            ("layers.*.q_proj", "layers.*.attention.q_proj"),
        )

    @pytest.mark.parametrize(
        ("code", "name", "entry"),
        [
            ("self.o_proj(output)", "o_proj", "layers.*.o_proj"),
            ("self.o_proj(output.contiguous())", "o_proj", "layers.*.o_proj"),
            ("self.output(output, hidden_states)", "dense", "layers.*.output.dense"),
        ],
    )
    def test_held_by_the_parent(self, scan, code, name, entry):
        (finding,) = scan("MC808", self.in_the_parent(code, ""))
        assert (finding.class_name, finding.severity) == ("MyAttention", "error")
        assert f"and {name} of My" in finding.message or f"and {name} of Output" in finding.message
        assert entry in finding.advice
        assert scan("MC808", self.in_the_parent(code, "rowwise")) == ()

    @pytest.mark.parametrize(
        "code",
        [
            "self.output(hidden_states, output)",  # dense gets another value
            "self.o_proj(hidden_states) + output",
            "self.o_proj(output * 2)",  # not followed
            "hidden_states + output",
        ],
    )
    def test_what_takes_another_value(self, scan, code):
        assert scan("MC808", self.in_the_parent(code, "")) == ()


class TestFullWidth:
    def test_a_parameter(self, scan):
        text = change(
            example("MC809"),
            ("nn.LayerNorm(config.hidden_size)", "nn.Parameter(torch.ones(config.hidden_size))"),
            ("self.q_norm(query)", "(query * self.q_norm)"),
        )
        (finding,) = scan("MC809", text)
        assert "each of the 64 outputs of q_proj" in finding.message

    def test_a_norm_of_another_value(self, scan):
        text = change(
            example("MC809"),
            ("self.q_norm(query)", "query"),
            ("self.o_proj(output)", "self.q_norm(self.o_proj(output))"),
        )
        assert scan("MC809", text) == ()


class TestPipeline:
    def test_lists_without_parameters_do_not_count(self, scan):
        text = change(
            example("MC810"),
            ("nn.Linear(config.hidden_size, config.hidden_size) for", "nn.Dropout() for"),
        )
        assert scan("MC810", text) == ()

    def test_a_plan_that_names_one_list(self, scan):
        plan = '    base_model_pp_plan = {"embed_tokens": ((), ()), "layers": ((), ())}\n'
        text = change(example("MC810"), ("    base_model_tp_plan", f"{plan}    base_model_tp_plan"))
        assert scan("MC810", text) == ()

    def test_no_list(self, scan):
        plan = '    base_model_pp_plan = {"embed_tokens": ((), ()), "embed_positions": ((), ())}\n'
        text = change(example("MC810"), ("    base_model_tp_plan", f"{plan}    base_model_tp_plan"))
        (finding,) = scan("MC810", text)
        assert (finding.severity, "no ModuleList" in finding.message) == ("info", True)
