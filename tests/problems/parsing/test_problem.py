"""Constituency parsing: trees and their symbols, EVALB's rules, files and splits, examples and
codec.
"""

from __future__ import annotations

import random
import zipfile
from pathlib import Path
from typing import Literal

import pytest
import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.problems.parsing.alignment import align
from ut_tf.problems.parsing.codec import kinds_of_words
from ut_tf.problems.parsing.files import find_treebank, read_tree_files, split_treebank
from ut_tf.problems.parsing.problem import Parsing
from ut_tf.problems.parsing.score import compare, intervals, scores
from ut_tf.problems.parsing.trees import Tree, linearise, read_trees, rebuild, simplify

RAW = """
( (S (NP-SBJ-1 (DT The) (NN cat) )
    (VP (VBZ seems) (ADVP|PRT (RB away))
      (S (NP-SBJ (-NONE- *-1) ) (VP (TO to) (VP (VB sit) ))))
    (PRN (-LRB- -LRB-) (NP=2 (PRP it)) (-RRB- -RRB-))
    (. .) ))
"""
PLAIN = (
    "(S (NP (DT The) (NN cat)) (VP (VBZ seems) (ADVP (RB away)) (S (VP (TO to) (VP (VB sit))))) "
    "(PRN (-LRB- -LRB-) (NP (PRP it)) (-RRB- -RRB-)) (. .))"
)


def tree_of(text: str) -> Tree:
    (tree,) = read_trees(text, "test")
    return tree


def plain_of(text: str) -> Tree:
    plain = simplify(tree_of(text))
    assert plain is not None
    return plain


def random_tree(draws: random.Random, depth: int = 4) -> Tree:
    if depth == 0 or draws.random() < 0.3:
        return Tree(draws.choice(["NN", "DT", ",", "."]), word=draws.choice("abc"))
    return Tree(
        draws.choice(["S", "NP", "VP"]),
        tuple(random_tree(draws, depth - 1) for _ in range(draws.randint(1, 3))),
    )


def test_traces_and_functional_tags_are_taken_out() -> None:
    assert str(plain_of(RAW)) == PLAIN
    assert simplify(tree_of("( (NP (-NONE- *)) )")) is None
    assert str(plain_of("( (S (UH Yes)) (. .) )")) == "(TOP (S (UH Yes)) (. .))"


def test_linearised_trees_by_hand() -> None:
    expected = (
        "(S (NP XX XX )NP (VP XX (ADVP XX )ADVP (S (VP XX (VP XX )VP )VP )S )VP (PRN XX (NP XX )NP"
        " XX )PRN XX )S"
    )
    assert " ".join(linearise(plain_of(RAW))) == expected


def test_every_tree_comes_back_from_its_symbols() -> None:
    draws = random.Random(3)
    for _ in range(200):
        tree = Tree("S", (random_tree(draws), random_tree(draws)))
        assert tree_of(str(tree)) == tree
        assert rebuild(linearise(tree), tree.leaves()) == (tree, False)


def test_any_symbols_give_a_tree_over_all_words() -> None:
    draws = random.Random(4)
    leaves = [Tree("NN", word=word) for word in "abcde"]
    for _ in range(500):
        symbols = draws.choices(["(S", ")S", "(NP", ")NP", "XX", "(", ")"], k=draws.randint(0, 12))
        tree, mended = rebuild(symbols, leaves)
        assert tree.leaves() == leaves
        assert mended or linearise(tree) == symbols, "what is not mended stays what it was"


@pytest.mark.parametrize(
    ("symbols", "expected"),
    [
        (
            "(S (NP XX XX )NP (VP XX",
            "(S (NP (N a) (N b)) (VP (N c)))",
        ),  # Unclosed brackets are closed.
        (
            "(S (NP XX )S",
            "(S (NP (N a)) (N b) (N c))",
        ),  # Words left over go to the outermost constituent.
        (
            "(S (NP XX XX )S XX )S",
            "(TOP (S (NP (N a) (N b))) (N c))",
        ),  # What closes closes what is inside; the second )S is left out.
        (
            "(S (NP )NP XX XX XX XX )S",
            "(S (N a) (N b) (N c))",
        ),  # Empty constituents and words beyond the last are left out.
        ("", "(TOP (N a) (N b) (N c))"),
    ],
)
def test_how_malformed_symbols_are_mended(symbols: str, expected: str) -> None:
    leaves = [Tree("N", word=word) for word in "abc"]
    tree, mended = rebuild(symbols.split(), leaves)
    assert (str(tree), mended) == (expected, True)


def test_scores_worked_out_by_hand() -> None:
    reference = (
        "(S (NP (DT the) (NN man)) (VP (VBD saw) (NP (DT a) (NN dog)) (PP (IN with) (NP (NN joy))))"
        " (. .))"
    )
    # Of the reference S, NP, VP, NP, PP, NP; the output has PP inside of the NP, which is then
    # longer: S, NP, VP, NP, NP, PP, NP.
    written = "(S (NP XX XX )NP (VP XX (NP (NP XX XX )NP (PP XX (NP XX )NP )PP )NP )VP XX )S"
    counts = compare(written, reference)
    assert counts == (6, 6, 7, False, False)
    found = scores(
        [counts, compare("(S (NP XX )NP (VP XX )VP )S", "(S (NP (PRP it)) (VP (VBZ works)))")]
    )
    assert found == pytest.approx(
        {
            "f1": 100 * 18 / 19,
            "precision": 90.0,
            "recall": 100.0,
            "exact_match": 50.0,
            "malformed": 0.0,
        }
    )


def test_evalbs_rules() -> None:
    # Punctuation is taken out: where it hangs changes nothing. PRT is ADVP. The root of two
    # constituents does not count.
    assert compare(
        "(S (NP XX XX )NP (VP XX (ADVP XX )ADVP XX )VP )S",
        "(S (NP (NN a)) (, ,) (VP (VB b) (PRT (RP c))) (. .))",
    ).is_exact
    assert compare("(TOP (S XX )S (NP XX )NP )TOP", "(TOP (S (UH a)) (NP (NN b)))") == (
        2,
        2,
        2,
        True,
        False,
    )
    # A constituent inside of its like counts for itself.
    assert compare("(NP (NP XX )NP )NP", "(NP (NP (NN a)))") == (2, 2, 2, True, False)
    assert compare("(NP XX )NP", "(NP (NP (NN a)))") == (1, 2, 1, False, False)
    assert compare("(NP (NP (NP XX )NP )NP )NP", "(NP (NP (NN a)))") == (2, 2, 3, False, False)
    assert compare("(NP XX )NP", "(NP (. .))") == (0, 0, 0, True, False)


def test_malformed_outputs_count() -> None:
    reference = "(S (NP (PRP it)) (VP (VBZ works)))"
    assert compare("", reference) == (0, 3, 0, False, True)
    found = scores([compare("", reference), compare("(S (NP XX )NP (VP XX )VP )S", reference)])
    assert found == pytest.approx(
        {
            "f1": 100 * 6 / 9,
            "precision": 100.0,
            "recall": 50.0,
            "exact_match": 50.0,
            "malformed": 50.0,
        }
    )
    bounds = intervals([compare("", reference), compare("(S (NP XX )NP (VP XX )VP )S", reference)])
    assert all(bounds[name][0] <= value <= bounds[name][1] for name, value in found.items())
    assert scores([compare("", reference)])["f1"] == 0.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(S (NN a)\n(VP (VB b))", "line 1: a bracket is opened and never closed"),
        ("(S (NN a))\n\n)", "line 3: a bracket is closed that was not opened"),
        ("(S (NN a))\nstray", "line 2: 'stray' stands outside"),
        ("(S (NN))", "line 1: a bracket holds neither"),
        ("\n", "has no tree with a word"),
    ],
)
def test_files_that_hold_no_trees_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.mrg").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message) as refusal:
        read_tree_files([tmp_path / "a.mrg"])
    assert str(tmp_path / "a.mrg") in str(refusal.value)


def test_archives_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "treebank.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bank/wsj_0001.mrg", RAW * 50)
        archive.writestr("bank/wsj_0002.mrg", b"( (S\n(NN \xff)))")
    with pytest.raises(UserError, match=r"treebank\.zip:bank/wsj_0002\.mrg, line 2"):
        read_tree_files([path])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=r"treebank\.zip cannot be read as a zip archive.*cut off"):
        read_tree_files([path])
    path.write_bytes(whole[:60] + b"?" * 20 + whole[80:])
    with pytest.raises(UserError, match=r"treebank\.zip cannot be read as a zip archive"):
        read_tree_files([path])
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("README", "nothing")
    with pytest.raises(UserError, match=r"has no file \*\.mrg"):
        read_tree_files([path])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"has no file \*\.mrg"):
        read_tree_files([tmp_path / "empty"])
    for absent in ("absent.mrg", "absent.zip", "absent"):
        with pytest.raises(UserError, match=rf"there is no .*{absent}"):
            read_tree_files([tmp_path / absent])


def bank(folder: Path, names: list[str]) -> Path:
    """Writes a treebank in which every word of a file names the file."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        word = Path(name).stem
        (folder / name).write_text(
            f"( (S (NP-SBJ (NNP {word}) ) (VP (VBZ works) ) (. .) ))\n" * 2, encoding="utf-8"
        )
    return folder


def words(trees: list[Tree]) -> set[str]:
    return {tree.leaves()[0].word for tree in trees}


def test_the_usual_sections_are_the_usual_splits(tmp_path: Path) -> None:
    folder = bank(
        tmp_path / "treebank",
        [f"wsj/{section:02}/wsj_{section:02}{n:02}.mrg" for section in range(25) for n in range(2)],
    )
    found = find_treebank(tmp_path)
    assert found == folder
    splits = split_treebank(found)
    assert words(splits.train) == {
        f"wsj_{section:02}{n:02}" for section in range(2, 22) for n in range(2)
    }
    assert (words(splits.validation), words(splits.test)) == (
        {"wsj_2200", "wsj_2201"},
        {"wsj_2300", "wsj_2301"},
    )
    assert splits.note == "" and splits.report.endswith("; 6 files of other sections left out")
    with zipfile.ZipFile(tmp_path / "wsj.zip", "w") as archive:
        for path in folder.glob("wsj/*/*.mrg"):
            archive.write(path, path.relative_to(folder / "wsj"))
    zipped = split_treebank(tmp_path / "wsj.zip")
    assert (zipped.train, zipped.validation, zipped.test, zipped.note) == (
        splits.train,
        splits.validation,
        splits.test,
        "",
    )


def test_another_treebank_is_divided_by_files(tmp_path: Path) -> None:
    folder = bank(tmp_path / "files", [f"combined/wsj_{n:04}.mrg" for n in range(1, 41)])
    with zipfile.ZipFile(tmp_path / "treebank.zip", "w") as archive:
        for path in sorted(folder.glob("**/*.mrg"), reverse=True):
            archive.write(path, path.relative_to(folder))
    splits = split_treebank(tmp_path / "treebank.zip")
    assert words(splits.test) == {f"wsj_{n:04}" for n in range(37, 41)}
    assert words(splits.validation) == {"wsj_0035", "wsj_0036"}
    assert len(splits.train) == 68 and "divided by files" in splits.note


def test_tensor2tensors_files_are_found(tmp_path: Path) -> None:
    for part, n in (("train", 3), ("dev", 1)):
        (tmp_path / f"parsing_{part}.trees").write_text("(TOP (S (NN a)))\n" * n, encoding="utf-8")
    found = find_treebank(tmp_path)
    assert found is not None
    splits = split_treebank(found)
    assert [len(part) for part in (splits.train, splits.validation, splits.test)] == [3, 1, 0]
    (tmp_path / "parsing_dev.trees").unlink()
    with pytest.raises(UserError, match=r"no parsing_dev\.trees"):
        split_treebank(found)


def test_depth_has_a_bound() -> None:
    leaves = [Tree("N", word="a")]
    tree, mended = rebuild(["(S"] * 5000 + ["XX"], leaves)
    assert mended and linearise(tree) == ["(S"] * 100 + ["XX"] + [")S"] * 100
    assert compare("(S " * 5000 + "XX", "(S (N a))") == (1, 1, 100, False, True)
    assert len(tree_of("(S " * 99 + "(N a)" + ")" * 99).leaves()) == 1
    with pytest.raises(UserError, match="line 1: more than 100 brackets are open"):
        tree_of("(S " * 100 + "(N a)" + ")" * 100)


def test_kinds_of_unknown_words() -> None:
    given = tf.constant(["Walking", "1987", "mid-1980s", "up", "U.S.", "semi-annual", "Öl"])
    assert [kind.decode() for kind in kinds_of_words(given).numpy()] == [
        *("<Ang>", "<0>", "<0->", "<>", "<A>", "<-al>", "<A>"),
    ]


def prepared(tmp_path: Path, leaves: Literal["words", "XX"] = "words") -> Parsing:
    """Returns the problem of 40 trees for training, one of which has rare words of one kind, and of
    4 for the rest.
    """
    trees = [
        f"( (S (NP-SBJ (NNP Mr.) (NNP W{'x' * n}ing) ) (VP (VBZ works) ) (. .) ))"
        for n in range(40)
    ]
    (tmp_path / "train.mrg").write_text("\n".join(trees), encoding="utf-8")
    (tmp_path / "dev.mrg").write_text("( (NP (NNP Mr.) (NNP Xing)) )\n" * 4, encoding="utf-8")
    problem = Parsing(
        train_trees=str(tmp_path / "train.mrg"),
        dev_trees=(str(tmp_path / "dev.mrg"),),
        leaves=leaves,
    )
    problem.prepare(tmp_path / "data", tmp_path)
    return problem


@pytest.mark.parametrize(
    ("leaves", "written"), [("words", "(NP Mr. <Ang> )NP"), ("XX", "(NP XX XX )NP")]
)
def test_from_files_to_examples_and_back(
    tmp_path: Path, leaves: Literal["words", "XX"], written: str
) -> None:
    problem = prepared(tmp_path, leaves)
    data = tmp_path / "data"
    codec = problem.text_codec(problem.vocab_files(data)[0].parent)
    spec = problem.spec(data)
    assert codec.vocab_sizes == (
        spec.input_vocab_size,
        spec.target_vocab_size,
    ) and spec.shared_vocab == (leaves == "words")
    sources, references = problem.text_pairs("validation", data)
    assert (sources[0], references[0]) == ("Mr. Xing", "(NP (NNP Mr.) (NNP Xing))")
    example = next(iter(problem.dataset("validation", data)))
    assert codec.tokens({"inputs": example["inputs"]}).numpy().tolist() == [
        b"Mr.",
        b"<Ang>",
        b"<end>",
    ], "unknown words keep their kind"
    rarer = codec.encode(tf.constant(["Mr. Vinken"]))
    assert codec.tokens(rarer).numpy().tolist() == [[b"Mr.", b"<A>", b"<end>"]], (
        "or a wider one that training had"
    )
    assert codec.decode(example["targets"][tf.newaxis]).numpy().tolist() == [written.encode()]
    assert problem.text_metrics([written] * 4, references)["f1"] == 100.0
    assert [one.split for one in problem.evaluation_sets()] == ["validation", "validation"], (
        "no test trees were named"
    )
    assert problem.data_note(data) == "your own trees"
    lines = ["(NP XX XX )NP", "( (S (NP-SBJ (NN a)) (VP (VB b))))"]
    made = "(S (NP a )NP (VP b )VP )S" if leaves == "words" else "(S (NP XX )NP (VP XX )VP )S"
    assert list(codec.read_targets(lines, "file")) == [lines[0], made]
    if leaves == "words":
        words = [
            word
            for word in example["targets"].numpy().tolist()
            if word in example["inputs"].numpy().tolist()
        ]
        assert words == example["inputs"].numpy().tolist(), "words have the same ids on both sides"
        assert spec.leaf_symbol == 0
    else:
        of_leaves = example["targets"].numpy() == spec.leaf_symbol
        assert of_leaves.tolist() == [False, True, True, False, False], "one for each word"
    with pytest.raises(UserError, match="training trees of parse_ptb are not kept"):
        problem.text_pairs("train", data)
    with pytest.raises(UserError, match="no split 'test'"):
        problem.examples("test", data)


def test_what_is_prepared_is_not_prepared_again_and_is_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = prepared(tmp_path)
    capsys.readouterr()
    problem.prepare(tmp_path / "data", tmp_path)
    assert capsys.readouterr().err == "", "nothing is done twice"
    with (tmp_path / "train.mrg").open("a", encoding="utf-8") as file:
        file.write("(NP (NN a))\n")
    problem.prepare(tmp_path / "data", tmp_path)
    assert "prepared earlier from other files" in capsys.readouterr().err
    (tmp_path / "train.mrg").unlink()
    problem.prepare(tmp_path / "data", tmp_path)
    assert capsys.readouterr().err == "", "the files are gone, what was made of them is there"
    orders = [
        [
            one["inputs"].numpy().tobytes()
            for one in problem.dataset("train", tmp_path / "data", 1, epoch)
        ]
        for epoch in (0, 0, 1)
    ]
    assert orders[0] == orders[1] and len(orders[2]) == 40
    (problem.vocab_files(tmp_path / "data")[1]).write_text("(S\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"damaged .*labels\.txt"):
        problem.spec(tmp_path / "data")


def test_arguments_that_cannot_be() -> None:
    with pytest.raises(UserError, match="`train_trees` is missing"):
        Parsing(dev_trees="dev.mrg")
    with pytest.raises(UserError, match="`vocab_words`=-1"):
        Parsing(vocab_words=-1)


@pytest.mark.parametrize(
    ("written", "words", "expected"),
    [
        ("the cat sat", "the cat sat", [[0], [1], [2]]),
        (
            "the cat cat sat",
            "the cat sat .",
            [[0], [1], [], [2]],
        ),  # Written twice; the last word is left over.
        (
            "the sat",
            "the big cat sat",
            [[0], [1, 2, 3]],
        ),  # What is left out stands before the next one.
        ("a cat sat", "the cat sat", [[0], [1], [2]]),  # Another word in its place.
        ("<A> said <A>", "Vinken said so", [[0], [1], [2]]),
        ("XX XX XX", "it works", [[0], [1], []]),
        ("XX", "it works", [[0]]),
        ("", "it works", []),
    ],
)
def test_by_hand(written: str, words: str, expected: list[list[int]]) -> None:
    assert align(written.split(), words.split()) == expected
