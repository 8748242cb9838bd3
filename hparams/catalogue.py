"""Every named hyperparameter set: where its function is, and one line that says what it is."""

from __future__ import annotations

from collections.abc import Mapping

from ut_tf.hparams import tensor2tensor
from ut_tf.registry import Entry

_SIZES = {
    "ut_base": "d 1024, 6 steps",
    "ut_small": "d 512, 6 steps",
    "ut_tiny": "d 128, 8 steps, the paper's semantics",
    "ut_big": "d 2048, 6 steps",
    "ut_teeny": "d 128 with a narrow transition, 10 steps",
    "ut_tall": "d 512, 16 steps",
    "ut_act_base": "ut_base with dynamic halting",
    "ut_act_small": "ut_small with dynamic halting",
    "ut_act_tiny": "ut_tiny with dynamic halting",
    "ut_conditional_base": "ut_base with a transition for each step",
    "ut_hybrid_base": "ut_base with a GRU over the positions before the recurrence",
    "ut_pondernet_base": "ut_base with PonderNet's halting",
    "transformer_base": "Transformer, d 512, 6 layers",
    "transformer_big": "Transformer, d 1024, 6 layers",
    "transformer_tiny": "Transformer, d 128, 2 layers",
    "mem_transformer_base": "transformer_base with 10 memory vectors",
    "mem_bottleneck_transformer_base": "the base set with memory as the only way between symbols",
    "memn2n": "memory network, d 50, 3 hops: all bAbI tasks jointly",
    "lstm_seq2seq": "tensor2tensor's LSTM without attention, d 128, 2 layers",
    "lstm_luong_attention": "lstm_seq2seq with Luong's attention",
    "lstm_bahdanau_attention": "lstm_seq2seq with Bahdanau's attention",
    "convs2s_base": "ConvS2S, d 512, 20 layers",
    "bytenet_base": "ByteNet, d 1600, 30 layers",
    "neural_gpu": "Neural GPU, 24 maps, with the curriculum and relaxed tying of its paper",
    "extended_neural_gpu": "Neural GPU with an output tape, 512 maps, for translation",
}
_BABI = {
    "ut_babi": "bAbI on a CPU",
    "ut_act_babi": "bAbI on a CPU with dynamic halting",
    "ut_demo": "babi_sim within two minutes on a CPU, with dynamic halting (make demo)",
    "ut_babi_unordered": "bAbI on a CPU, for tasks whose facts may stand in any order",
    "ut_babi_induction": "bAbI on a CPU, for task 16",
    "ut_babi_joint": "all bAbI tasks at once, 10k stories each, on a CPU",
    "ut_babi_1k": "one bAbI task of a thousand questions, on a CPU",
    "ut_babi_joint_1k": "all bAbI tasks at once, 1k stories each, on a CPU",
    "ut_pondernet_babi": "bAbI on a CPU with PonderNet's halting",
    "transformer_babi": "Transformer for bAbI on a CPU, as many parameters as ut_babi",
    "lstm_tiny": "LSTM for a bAbI task on a CPU, as many parameters as ut_babi",
    "bytenet_tiny": "ByteNet for a bAbI task on a CPU, d 128, 6 layers",
    "memn2n_tiny": "memory network, d 20, 3 hops: a single bAbI task",
}
_ALGORITHMIC = {
    "ut_algorithmic": "copy and reverse on a CPU",
    "ut_algorithmic_reverse": "ut_algorithmic with target positions that count down, for reversal",
    "ut_act_algorithmic": "ut_algorithmic with dynamic halting",
    "ut_algorithmic_rotary": "ut_algorithmic with rotary positions",
    "ut_highway_tiny": "reversal on a CPU with the highway recurrence",
    "ut_skip_tiny": "reversal on a CPU with the skip recurrence",
    "ut_dwa_tiny": "reversal on a CPU with depth-wise attention over the steps",
    "ut_gru_tiny": "reversal on a CPU, states combined by a GRU",
    "ut_lstm_tiny": "reversal on a CPU, states combined by an LSTM",
    "ut_conditional_tiny": "reversal on a CPU with a transition for each step",
    "ut_hybrid_tiny": "reversal on a CPU with a GRU over the positions before the recurrence",
    "ut_pondernet_tiny": "reversal on a CPU with PonderNet's halting",
    "transformer_algorithmic": (
        "Transformer for copy and reverse on a CPU, as many parameters as ut_algorithmic"
    ),
    "mem_transformer_tiny": "Transformer with memory on a CPU, d 128, 2 layers, 10 memory vectors",
    "mem_bottleneck_transformer_tiny": "the tiny set with memory as the only way between symbols",
    "lstm_attention_tiny": (
        "LSTM with Bahdanau's attention on a CPU, as many parameters as ut_algorithmic"
    ),
    "convs2s_tiny": "ConvS2S on a CPU, d 128, 4 layers",
    "neural_gpu_tiny": "Neural GPU on a CPU, 24 maps, 2 columns, with a curriculum",
    "extended_neural_gpu_tiny": "Extended Neural GPU on a CPU, 24 maps, 2 columns",
}
_LENGTH_GENERALIZATION = {
    "ut_length_generalization": "copy and reverse to ten times the training's length",
    "ut_length_generalization_addition": (
        "addition beyond the training's length, digits of equal worth at equal positions"
    ),
}
_LTE = {
    "ut_lte": "learning to execute on a CPU: programs",
    "ut_lte_digits": (
        "control and programs written from the last digit (little_endian=true), with positions by"
        " the digits' places"
    ),
    "ut_act_lte": "ut_lte with dynamic halting",
    "transformer_lte": "a Transformer with about as many parameters as ut_lte",
    "lstm_lte": "an LSTM with attention and about as many parameters as ut_lte",
    "ut_lte_memory": "learning to execute on a CPU: copying",
    "transformer_lte_memory": "a Transformer with about as many parameters as ut_lte_memory",
    "lstm_lte_memory": "lstm_lte, trained as ut_lte_memory",
    "ut_lte_double": "learning to execute on a CPU: doubling",
    "ut_lte_reverse": "learning to execute on a CPU: reversal",
}
_REASONING = {
    "ut_sudoku4": "Sudoku with 4 digits on a CPU",
    "ut_act_sudoku4": "ut_sudoku4 with dynamic halting",
    "ut_prefix_sums": "prefix sums beyond the training's length, on a CPU",
}
_LAMBADA = {
    "ut_lambada": "LAMBADA as a language model on a CPU",
    "ut_act_lambada": "ut_lambada with dynamic halting",
    "transformer_lambada": "a Transformer with as many parameters as ut_lambada",
    "lstm_lambada": "an LSTM with as many parameters as ut_lambada",
    "ut_lambada_rc": "reading LAMBADA on a CPU",
    "ut_act_lambada_rc": "ut_lambada_rc with dynamic halting",
    "transformer_lambada_rc": "a Transformer with about as many parameters as ut_lambada_rc",
    "lstm_lambada_rc": "an LSTM with about as many parameters as ut_lambada_rc",
}
_AGREEMENT = {
    "ut_agreement": "agreement of subject and verb on a CPU",
    "ut_act_agreement": "ut_agreement with dynamic halting",
    "transformer_agreement": "a Transformer with as many parameters as ut_agreement",
}
_PARSING = {
    "ut_parsing": "constituency parsing of a few thousand trees on a CPU",
    "transformer_parsing": "a Transformer with as many parameters as ut_parsing",
    "ut_parsing_leaves": "ut_parsing for trees with XX: symbols stand where their words stand",
    "transformer_parsing_leaves": "a Transformer with as many parameters as ut_parsing_leaves",
}
_OWN_FILES = {
    "ut_classify": "classes of your own texts on a CPU, in minutes",
    "ut_act_classify": "ut_classify with dynamic halting",
    "transformer_classify": "a Transformer with as many parameters as ut_classify",
    "ut_lm": "a language model of your own text on a CPU, in minutes",
    "ut_act_lm": "ut_lm with dynamic halting",
    "transformer_lm": "a Transformer with as many parameters as ut_lm",
}
_TRANSLATION = {
    "ut_wmt14": "ut_base with the paper's batches and vocabulary for WMT14",
    "ut_translate_small": "translation of small corpora on a CPU",
    "transformer_translate_small": "a Transformer with as many parameters as ut_translate_small",
    "ut_multi30k": "ut_translate_small, trained longer on tens of thousands of pairs",
    "transformer_multi30k": "a Transformer with as many parameters as ut_multi30k",
}


def _tensor2tensor() -> dict[str, Entry]:
    module = "ut_tf.hparams.tensor2tensor"
    available = {
        name: Entry(f"{module}:variant", entry.description, {"size": entry.size, **entry.changes})
        for name, entry in tensor2tensor.SETS.items()
    }
    missing = {
        name: Entry(
            f"{module}:unavailable",
            f"not available yet: use {entry.nearest}",
            {"name": name, "missing": entry.missing, "nearest": entry.nearest},
        )
        for name, entry in tensor2tensor.UNAVAILABLE.items()
    }
    return available | missing


def _entries(module: str, sets: Mapping[str, str]) -> dict[str, Entry]:
    group = module.rpartition(".")[2]
    return {
        name: Entry(f"ut_tf.hparams.{module}:{name}", text, group=group)
        for name, text in sets.items()
    }


HPARAMS_SETS: Mapping[str, Entry] = (
    _entries("sizes", _SIZES)
    | _entries("tasks.babi", _BABI)
    | _entries("tasks.algorithmic", _ALGORITHMIC)
    | _entries("tasks.length_generalization", _LENGTH_GENERALIZATION)
    | _entries("tasks.lte", _LTE)
    | _entries("tasks.reasoning", _REASONING)
    | _entries("tasks.lambada", _LAMBADA)
    | _entries("tasks.agreement", _AGREEMENT)
    | _entries("tasks.parsing", _PARSING)
    | _entries("tasks.own_files", _OWN_FILES)
    | _entries("tasks.translation", _TRANSLATION)
    | _tensor2tensor()
)
