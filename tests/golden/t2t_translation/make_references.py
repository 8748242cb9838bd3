"""Two networks that tensor2tensor 1.15.7 trained, and what it translates with them.

::

    python make_references.py          # Python 3.7, tensor2tensor, about two minutes

A toy language: the words of a sentence, in any number and order, become other words. Each network
is a run directory without the optimizer's variables; references.json has the lines, their ids, and
the ids and texts that greedy search and a beam of 4 write.
"""

import json
import random
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "forms"))

from make_references import ACT, BASE, TINY, UT, T, registry, tf  # noqa: E402
from tensor2tensor.data_generators import problem_hparams, text_encoder  # noqa: E402
from tensor2tensor.utils import optimize  # noqa: E402
from tensorflow.python.autograph.core import ag_ctx  # noqa: E402

WORDS = {
    "one": "ein",
    "dog": "Hund",
    "two": "zwei",
    "cats": "Katzen",
    "run": "laufen",
    "jump": "springen",
    "and": "und",
    "sleep": "schlafen",
    ",": ",",
    "in_the": "im",
    "garden": "Garten",
    "near": "neben",
    "a": "dem",
    "house": "Haus",
    ".": ".",
}
SIZES = {
    "hidden_size": 32,
    "filter_size": 64,
    "num_heads": 4,
    "num_hidden_layers": 1,
    "symbol_modality_num_shards": 1,
    "layer_prepostprocess_dropout": 0.0,
    "attention_dropout": 0.0,
    "relu_dropout": 0.0,
    "learning_rate_schedule": "constant",
    "learning_rate_constant": 0.005,
    "optimizer_adam_beta2": 0.98,
}
NETWORKS = {
    "transformer": (T, BASE, {}, 300),
    "universal_transformer": (UT, TINY, dict(ACT, num_rec_steps=2, act_max_steps=3), 300),
}
BATCH, LINES = 32, 40
VOCABULARY = "vocab.translate_toy.64.subwords"


def pairs(draws, count):
    for _ in range(count):
        words = [draws.choice(list(WORDS)) for _ in range(draws.randint(2, 7))]
        yield " ".join(words), " ".join(WORDS[word] for word in words)


def padded(rows):
    ids = np.zeros([len(rows), max(map(len, rows)), 1, 1], np.int32)
    for number, row in enumerate(rows):
        ids[number, : len(row), 0, 0] = row
    return ids


def train(name, encoder):
    model_name, set_name, changes, updates = NETWORKS[name]
    tf.reset_default_graph()
    tf.set_random_seed(1)
    hparams = registry.hparams(set_name)
    for key, value in dict(SIZES, **changes).items():
        setattr(hparams, key, value)
    size = encoder.vocab_size
    problem = problem_hparams.test_problem_hparams(size, size, hparams)
    model = registry.model(model_name)(hparams, tf.estimator.ModeKeys.EVAL, problem)
    places = {key: tf.placeholder(tf.int32, [None, None, 1, 1]) for key in ("inputs", "targets")}
    _, losses = model(dict(places, target_space_id=tf.constant(1)))
    loss = sum(losses.values())
    tf.train.get_or_create_global_step()
    update = optimize.optimize(loss, hparams.learning_rate_constant, hparams)
    decoded = {}
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        model.set_mode(tf.estimator.ModeKeys.PREDICT)
        for label, beam_size in (("greedy", 1), ("beam4", 4)):
            asked = {"inputs": places["inputs"], "target_space_id": tf.constant(1)}
            result = model.infer(asked, 10, beam_size, 1, 0.6)
            decoded[label] = result["outputs"]
            if beam_size > 1:
                decoded["scores"] = result["scores"]
    draws = random.Random(0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for step in range(updates):
            rows = [[[*encoder.encode(text), 1] for text in pair] for pair in pairs(draws, BATCH)]
            feeds = {places["inputs"]: padded([row[0] for row in rows])}
            feeds[places["targets"]] = padded([row[1] for row in rows])
            value = session.run([loss, update], feeds)[0]
            if step % 50 == 0:
                print(name, step, value, flush=True)
        print(name, updates, value, flush=True)
        lines = list(pairs(random.Random(1), LINES))
        sources = [[*encoder.encode(source), 1] for source, _ in lines]
        outputs = session.run(decoded, {places["inputs"]: padded(sources)})
        folder = HERE / name
        folder.mkdir(exist_ok=True)
        saver = tf.train.Saver([*tf.trainable_variables(), tf.train.get_global_step()])
        saver.save(session, str(folder / "model.ckpt"), updates, write_meta_graph=False)
        (folder / "checkpoint").unlink()  # It names the folder of this machine.
    (folder / "hparams.json").write_text(hparams.to_json(indent=1, sort_keys=True) + "\n")
    references = []
    for number, (source, target) in enumerate(lines):
        entry = {"source": source, "target": target, "ids": sources[number]}
        for label in ("greedy", "beam4"):
            ids = [int(symbol) for symbol in outputs[label][number].reshape(-1)]
            ids = ids[: ids.index(1)] if 1 in ids else ids
            entry[label] = {"ids": ids, "text": encoder.decode(ids)}
        entry["beam4"]["score"] = float(outputs["scores"][number].reshape(-1)[0])
        references.append(entry)
    (folder / "references.json").write_text(json.dumps(references, indent=1) + "\n")
    right = sum(entry["greedy"]["text"] == entry["target"] for entry in references)
    print(name, "right:", right, "of", len(references), "variables:", size)


def main():
    texts = [text for pair in pairs(random.Random(2), 2000) for text in pair]
    encoder = text_encoder.SubwordTextEncoder.build_from_generator(texts, 64)
    for name in NETWORKS:
        (HERE / name).mkdir(exist_ok=True)
        encoder.store_to_file(str(HERE / name / VOCABULARY))
        began = time.time()
        with ag_ctx.ControlStatusCtx(status=ag_ctx.Status.DISABLED):
            train(name, encoder)
        print(name, "%.0f s" % (time.time() - began))


if __name__ == "__main__":
    main()
