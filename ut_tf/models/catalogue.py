"""The models by name, each with its class, its configuration and a description. A model is called
as ``model(config, spec)``.
"""

from ut_tf.config.catalogues import read_catalogues

MODELS = read_catalogues(__file__, __package__)["models"]
