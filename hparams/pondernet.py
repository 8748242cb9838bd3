"""PonderNet's sets: a Universal Transformer that learns a distribution over the steps at which to
stop (arXiv 2107.05407).

How it is used::

    ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=ut_pondernet_tiny

How it works: docs/halting.md has the loss. The weight of the divergence is the paper's 0.01. A
prior of rate r, cut off after N steps, expects 1/r - N (1 - r)^N / (1 - (1 - r)^N) of them.
"""

from __future__ import annotations

from ut_tf.config.hparams import HParams
from ut_tf.hparams.universal_transformer import ut_algorithmic_reverse, ut_babi, ut_base


def ut_pondernet_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=ut_pondernet_tiny``

    ut_algorithmic_reverse with at most 4 steps, of which the prior expects 1.9, for 1000 updates.
    """
    return ut_algorithmic_reverse().change(
        halting="pondernet", act_max_steps=4, ponder_prior=0.4, train_steps=1000, eval_frequency=125
    )


def ut_pondernet_babi() -> HParams:
    """``ut-trainer --problem=babi_sim_task1 --hparams_set=ut_pondernet_babi``

    ut_babi with at most 6 steps, of which the prior expects 2.5.
    """
    return ut_babi().change(halting="pondernet", act_max_steps=6, ponder_prior=0.3)


def ut_pondernet_base() -> HParams:
    """``ut-trainer --problem=babi_qa --hparams_set=ut_pondernet_base``

    ut_base with at most 12 steps, of which the prior expects 4.1.
    """
    return ut_base().change(halting="pondernet", act_max_steps=12, ponder_prior=0.2)
