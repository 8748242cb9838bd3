"""The pages that the tests open."""

from __future__ import annotations

import pytest

from tests.insights.page import synthetic
from tests.insights.page.tab import Tab


@pytest.fixture
def story(tab: Tab) -> Tab:
    """The page of the story of the docs, at its last step."""
    tab.open(synthetic.document("facts", [synthetic.facts_example()]))
    return tab
