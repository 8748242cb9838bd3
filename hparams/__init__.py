"""Named hyperparameter sets: the papers' sizes, a file of recipes per task, tensor2tensor's."""

if __name__ != "ut_tf.hparams":
    raise ImportError(
        "import ut_tf.hparams, not hparams: the same module under two names would register"
        " everything twice."
    )
