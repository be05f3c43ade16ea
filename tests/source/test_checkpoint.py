"""Names of tensors, read from an index or from a header, and never a tensor."""

import json
import struct

import pytest

from modelcheck.source.checkpoint import INDEX, SINGLE, read_checkpoint


def safetensors(header, data=b""):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def test_the_index_lists_the_names(tmp_path):
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"a.weight": "one", "b": "two"}}))
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.keys == {"a.weight", "b"}
    assert checkpoint.path.endswith(INDEX)


def test_the_header_has_shapes_too(tmp_path):
    header = {
        "__metadata__": {"format": "pt"},
        "a.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    }
    (tmp_path / SINGLE).write_bytes(safetensors(header, bytes(24)))
    assert read_checkpoint(tmp_path).shapes == {"a.weight": (2, 3)}


def test_what_safetensors_writes_is_read(tmp_path):
    torch = pytest.importorskip("torch")
    save = pytest.importorskip("safetensors.torch").save_file
    save({"x": torch.zeros(4, 5), "y.weight": torch.zeros(2)}, str(tmp_path / SINGLE))
    assert read_checkpoint(tmp_path).shapes == {"x": (4, 5), "y.weight": (2,)}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (INDEX, b"{"),
        (INDEX, b"[]"),
        (INDEX, b"\xff\xfe"),
        (INDEX, b"[" * 100_000),
        (SINGLE, b""),
        (SINGLE, b"\x00\x00"),
        (SINGLE, struct.pack("<Q", 2**60) + b"{}"),
        (SINGLE, struct.pack("<Q", 10) + b"{}"),
        (SINGLE, safetensors([])),
        (SINGLE, safetensors({})),
    ],
)
def test_what_is_no_checkpoint_is_none(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    assert read_checkpoint(tmp_path) is None


def test_no_checkpoint(tmp_path):
    assert read_checkpoint(tmp_path) is None
