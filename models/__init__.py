"""Trained models that come with ut-tf, each a folder: ``ut_tf.load("babi")``."""
