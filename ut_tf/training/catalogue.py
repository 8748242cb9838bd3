"""The supervisions by name."""

from ut_tf.config.catalogues import read_catalogues

SUPERVISIONS = read_catalogues(__file__, __package__)["supervisions"]
