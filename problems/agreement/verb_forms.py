"""The other form of a verb in the present tense: "is" for "are", "write" for "writes".

How it is used::

    other_forms("are", "VBP")        # ("is",)
    other_forms("is", "VBZ")         # ("am", "are")

How it works: LemmInflect's dictionary gives the verb's lemmas and their forms; its models for words
that it does not know are not asked.
"""

import functools

from ut_tf.packages import imported

_OTHER = {"VBZ": "VBP", "VBP": "VBZ"}
_KINDS = ("VERB", "AUX")


@functools.cache
def other_forms(verb: str, form: str) -> tuple[str, ...]:
    """The verb in the other number: every spelling of it, none where the dictionary does not know
    the verb.

    Args:
      verb: lower-case.
      form: what it is: "VBZ" (he writes) or "VBP" (they write).

    Raises:
      UserError: the library is not installed.
    """
    library = imported("lemminflect", "the wrong forms of verbs need")
    lemmas = [
        lemma for kind in _KINDS for lemma in library.getLemma(verb, kind, lemmatize_oov=False)
    ]
    # "Lay" is the past of "lie" besides: where a lemma has the verb itself in this form, it is the
    # one that is meant.
    meant = [
        lemma for lemma in lemmas if verb in library.getInflection(lemma, form, inflect_oov=False)
    ]
    forms = [
        other
        for lemma in meant or lemmas
        for other in library.getInflection(lemma, _OTHER[form], inflect_oov=False)
    ]
    return tuple(other for other in dict.fromkeys(forms) if other != verb)
