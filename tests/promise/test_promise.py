"""The version number keeps its promise: names, signatures, flags, hyperparameters and registered
names change only with the version that CHANGELOG.md says.
"""

import pytest

from tests.promise.public import needed_version, numbers, public, stored
from ut_tf.version import __version__


def test_what_changed_since_the_release_has_the_version_it_needs() -> None:
    version, before = stored()
    if __version__.startswith("0."):
        pytest.skip("the promise begins with 1.0")
    assert numbers(version)[0] == numbers(__version__)[0], "store the names of the release anew"
    now = public()
    needed = needed_version(version, before, now)
    gone, came = sorted(set(before) - set(now)), sorted(set(now) - set(before))
    assert numbers(__version__) >= needed, (
        f"since {version} went {gone} and came {came}: that needs version"
        f" {'.'.join(map(str, needed))} in ut_tf/version.py, or what went must come back."
    )


@pytest.mark.parametrize(
    ("came", "gone", "needed"),
    [
        ([], [], (1, 2, 3)),
        (["flag ut-eval --new"], [], (1, 3, 0)),
        (["parameter ut_tf.train(new)"], [], (1, 3, 0)),
        (["parameter ut_tf.train(new)", "required ut_tf.train(new)"], [], (2, 0, 0)),
        (["python ut_tf.new", "required ut_tf.new(run)"], [], (1, 3, 0)),
        ([], ["required ut_tf.train(run)"], (1, 2, 3)),
        ([], ["python ut_tf.train"], (2, 0, 0)),
        (["hyperparameter A.depth=4"], ["hyperparameter A.depth=3"], (2, 0, 0)),
    ],
)
def test_a_change_needs_a_version(
    came: list[str], gone: list[str], needed: tuple[int, ...]
) -> None:
    before = [
        "python ut_tf.train",
        "parameter ut_tf.train(run)",
        "required ut_tf.train(run)",
        "hyperparameter A.depth=3",
    ]
    now = [*(line for line in before if line not in gone), *came]
    assert needed_version("1.2.3", before, now) == needed
