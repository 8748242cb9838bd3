"""Commands: one file each. They parse flags, make a Run and hand it to the library."""

if __name__ != "ut_tf.bin":
    raise ImportError(
        "import ut_tf.bin, not bin: the same module under two names would register everything"
        " twice."
    )
