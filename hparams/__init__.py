"""Named hyperparameter sets: one file per family of models, listed in catalogue.py."""

if __name__ != "ut_tf.hparams":
    raise ImportError(
        "import ut_tf.hparams, not hparams: the same module under two names would register"
        " everything twice."
    )
