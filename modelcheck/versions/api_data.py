"""Members that transformers' own classes no longer have, read off the wheels of 4.30 to 5.24."""

from __future__ import annotations

from collections.abc import Mapping

from modelcheck.versions.table import Change, Kind

_CACHE = "transformers.cache_utils.DynamicCache"
_MODEL = "transformers.PreTrainedModel"
_CONFIG = "transformers.PreTrainedConfig"
_ROPE = "transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS"

_MASKS = "transformers.masking_utils"
_CAUSAL = ("create_causal_mask", "create_sliding_window_causal_mask", "create_chunked_causal_mask")


def _members(kind: Kind, owner: str, text: str) -> tuple[Change, ...]:
    """One change for each line "name since until replacement"."""
    rows = (line.strip().split(None, 3) for line in text.strip().splitlines())
    return tuple(Change(kind, owner, *row) for row in rows)


CHANGES: tuple[Change, ...] = (
    *_members(
        Kind.CACHE_METHOD,
        _CACHE,
        """
        from_legacy_cache 4.38.2 5.0.0 DynamicCache(config=self.config)
        to_legacy_cache 4.38.2 5.0.0 the cache itself
        get_usable_length 4.38.2 4.54.1 get_seq_length()
        seen_tokens 4.38.2 4.54.1 get_seq_length()
        key_cache 4.38.2 4.56.2 layers[i].keys
        value_cache 4.38.2 4.56.2 layers[i].values
        """,
    ),
    *_members(
        Kind.MODEL_METHOD,
        _MODEL,
        """
        get_head_mask 4.30.2 5.0.0 [None] * num_hidden_layers
        prune_heads 4.30.2 5.0.0
        invert_attention_mask 4.30.2 5.17.0 transformers.masking_utils.create_bidirectional_mask
        get_extended_attention_mask 4.30.2 5.17.0 transformers.masking_utils.create_causal_mask
        create_extended_attention_mask_for_decoder 4.30.2 5.17.0
        _convert_head_mask_to_5d 4.30.2 5.0.0
        _tie_or_clone_weights 4.30.2 5.0.0 _tied_weights_keys
        """,
    ),
    *_members(
        Kind.CONFIG_ATTRIBUTE,
        _CONFIG,
        """
        pad_token_id 4.30.2 5.0.0
        bos_token_id 4.30.2 5.0.0
        eos_token_id 4.30.2 5.0.0
        sep_token_id 4.30.2 5.0.0
        decoder_start_token_id 4.30.2 5.0.0
        tie_word_embeddings 4.30.2 5.0.0
        tie_encoder_decoder 4.30.2 5.0.0
        is_decoder 4.30.2 5.0.0
        add_cross_attention 4.30.2 5.0.0
        cross_attention_hidden_size 4.30.2 5.0.0
        pruned_heads 4.30.2 5.0.0
        torchscript 4.30.2 5.0.0
        use_bfloat16 4.30.2 5.0.0
        finetuning_task 4.30.2 5.0.0
        task_specific_params 4.30.2 5.0.0
        prefix 4.30.2 5.0.0
        tokenizer_class 4.30.2 5.0.0
        max_length 4.30.2 5.0.0
        min_length 4.30.2 5.0.0
        do_sample 4.30.2 5.0.0
        early_stopping 4.30.2 5.0.0
        num_beams 4.30.2 5.0.0
        num_return_sequences 4.30.2 5.0.0
        temperature 4.30.2 5.0.0
        top_k 4.30.2 5.0.0
        top_p 4.30.2 5.0.0
        typical_p 4.30.2 5.0.0
        repetition_penalty 4.30.2 5.0.0
        length_penalty 4.30.2 5.0.0
        no_repeat_ngram_size 4.30.2 5.0.0
        """,
    ),
    *(
        Change(Kind.ARGUMENT, f"{_MASKS}.{function}", name, "4.53.3", "5.9.0", instead)
        for function in _CAUSAL
        for name, instead in (("input_embeds", "inputs_embeds"), ("cache_position", ""))
    ),
    Change(Kind.CONSTANT, _ROPE, "default", "4.44.2", "5.0.0"),
)

# What every configuration of transformers 4.30 to 4.57 had unless it said otherwise.
CONFIG_DEFAULTS: Mapping[str, str] = {
    "pad_token_id": "None",
    "bos_token_id": "None",
    "eos_token_id": "None",
    "sep_token_id": "None",
    "decoder_start_token_id": "None",
    "tie_word_embeddings": "True",
    "tie_encoder_decoder": "False",
    "is_decoder": "False",
    "add_cross_attention": "False",
    "cross_attention_hidden_size": "None",
    "torchscript": "False",
    "use_bfloat16": "False",
    "finetuning_task": "None",
    "task_specific_params": "None",
    "prefix": "None",
    "tokenizer_class": "None",
    "max_length": "20",
    "min_length": "0",
    "do_sample": "False",
    "early_stopping": "False",
    "num_beams": "1",
    "num_return_sequences": "1",
    "temperature": "1.0",
    "top_k": "50",
    "top_p": "1.0",
    "typical_p": "1.0",
    "repetition_penalty": "1.0",
    "length_penalty": "1.0",
    "no_repeat_ngram_size": "0",
}
