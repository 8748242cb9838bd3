"""Search strategies by name; ``DecodeConfig.strategy`` chooses one. User code adds its own with
``registry.register_strategy``.
"""

from ut_tf.registry import Entry

STRATEGIES = {
    "greedy": Entry("ut_tf.search.greedy:Greedy", "The most probable symbol at each position."),
    "beam": Entry("ut_tf.search.beam:BeamSearch", "The best of beam_size hypotheses."),
    "sampling": Entry("ut_tf.search.sampling:Sampling", "Draws from the model's distribution."),
}
