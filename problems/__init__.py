"""Problems: one file per family of tasks, listed in catalogue.py."""

if __name__ != "ut_tf.problems":
    raise ImportError(
        "import ut_tf.problems, not problems: the same module under two names would register"
        " everything twice."
    )
