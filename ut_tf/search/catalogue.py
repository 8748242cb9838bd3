"""Search strategies by name; ``DecodeConfig.strategy`` chooses one. User code adds its own with
``registry.register_strategy``.
"""

from ut_tf.config.catalogues import read_catalogues

STRATEGIES = read_catalogues(__file__, __package__)["strategies"]
