"""Trained models as folders: saved, described by a card, loaded, fetched from a hub."""
