"""What a model computes for an example at every step, as a document and a page that show it.

``inspector.py`` collects, ``rendering.py`` writes the page, ``server.py`` answers inputs that are
typed there; docs/insights.md describes the document.
"""
