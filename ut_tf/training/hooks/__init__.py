"""Hooks: small objects that act every so many updates."""
