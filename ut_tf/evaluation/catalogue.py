"""Evaluation methods by name; ``EvaluationSet.method`` chooses one. User code adds its own with
``registry.register_evaluation_method``.
"""

from ut_tf.config.catalogues import read_catalogues

METHODS = read_catalogues(__file__, __package__)["methods"]
