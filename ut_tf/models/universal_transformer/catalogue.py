"""The parts of a recurrence by name: cells, injections, initial states, depths and exit rules."""

from ut_tf.config.catalogues import read_catalogues

_PARTS = read_catalogues(__file__, __package__)
CELLS = _PARTS["cells"]
HALTING_FORMS = _PARTS["halting_forms"]
TRAIN_DEPTHS = _PARTS["train_depths"]
INPUT_INJECTIONS = _PARTS["input_injections"]
INITIAL_STATES = _PARTS["initial_states"]
EXIT_RULES = _PARTS["exit_rules"]
