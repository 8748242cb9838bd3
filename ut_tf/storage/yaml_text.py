"""YAML that users write: a key that stands twice is an error, as in JSON."""

from typing import Any

from ut_tf.storage.json_lines import unique_keys


def unique_yaml(text: str | bytes) -> Any:
    """Reads a text of YAML, which itself would take the last value of a key without a word.

    Raises:
      DoubledKeyError: a key stands twice in a mapping.
      yaml.YAMLError: the text is no YAML, or more than one document.
    """
    import yaml

    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        waiting, seen = [node], set[int]()
        while waiting:
            part = waiting.pop()
            # An alias is the node that it stands for.
            if id(part) in seen or not isinstance(part, yaml.CollectionNode):
                continue
            seen.add(id(part))
            if isinstance(part, yaml.MappingNode):
                named = [pair for pair in part.value if isinstance(pair[0], yaml.ScalarNode)]
                unique_keys([(key.value, value) for key, value in named])
                waiting += [value for _, value in part.value]
            else:
                waiting += part.value
        return None if node is None else loader.construct_document(node)
    finally:
        loader.dispose()
