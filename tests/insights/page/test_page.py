"""The page in a browser: every control, and what it changes."""

from __future__ import annotations

import pytest

from tests.insights.page import synthetic
from tests.insights.page.tab import Tab


def _widths(tab: Tab, selector: str) -> list[str]:
    script = "return [...document.querySelectorAll(arguments[0])].map(e => e.style.width)"
    return tab.run(script, selector)


def test_the_headline_says_why_it_took_long(story: Tab) -> None:
    assert story.text(".headline") == (
        "The facts took 2 or 3 steps, the question 6; at step 3 it looked most at “dimitri went to"
        " the pantry”, and the answer became pantry (before: studio)."
    )
    assert story.text(".verdict .right") == "✓ right"
    assert story.text(".step-label") == "step 6 of 6"
    assert story.driver.title == "Questions about stories"


def test_bars_grow_with_the_slider_until_each_position_halts(story: Tab) -> None:
    assert story.texts(".story .number") == ["2", "2", "2", "2", "3", "2", "2", "3", "6"]
    story.slide(1)
    assert story.texts(".story .number") == ["1"] * 9
    assert story.count(".story-row.halted") == 0
    story.slide(2)
    assert story.count(".story .story-row.halted") == 6
    story.slide(3)
    halves = _widths(story, ".story .fill")
    assert halves[-1] == halves[4] == "50%"
    assert story.text(".step-label") == "step 3 of 6"


def test_answers_are_marked_where_they_change(story: Tab) -> None:
    assert story.texts(".answers .first strong") == ["studio"] * 2 + ["pantry"] * 4
    assert story.texts(".answers tr.changed th") == ["3"]
    assert story.texts(".answers tbody tr:nth-child(3) .other") == ["studio 17%", "kitchen 6%"]
    story.click(".answers tbody tr:nth-child(2)")
    assert story.texts(".answers tr[aria-current=step] th") == ["2"]
    assert story.text(".step-label") == "step 2 of 6"


def test_attention_by_step_and_head_of_the_chosen_row(story: Tab) -> None:
    assert story.texts("#attention [role=radio]") == ["mean", "1", "2", "3", "4"]
    label = "return document.querySelector('.heatmap').getAttribute('aria-label')"
    assert "Strongest: dimitri went to the pantry, 70% in column 4" in story.run(label)
    story.click("#attention [role=radio][data-value='3']")
    assert "Strongest: dimitri picked up the letter, 100% in column 3" in story.run(label)
    cell = ".story-row:nth-child(7) .cell:nth-child(3)"
    assert story.find(cell).get_attribute("title") == "step 3: 100%"
    story.click(".story .story-row:nth-child(2)")
    assert story.find(".story-row[aria-selected=true] .text").text == "dimitri went to the pantry"
    assert "“dimitri went to the pantry”" in story.text("#attention .subject")
    assert story.find(cell).get_attribute("title") != "step 3: 100%"
    story.slide(2)
    assert story.find(".by-head svg").get_attribute("data-step") == "2"


def test_the_grid_of_halting_says_what_is_at_a_step(story: Tab) -> None:
    assert "the last step, p = 0.60" in story.text(".readout")
    assert "remainder 0.20" in story.text(".readout")
    story.click(".story .story-row:nth-child(1)")
    assert "halted since step 2" in story.text(".readout")
    picture = "return document.querySelector('canvas.grid').toDataURL()"
    seen = {story.run(picture)}
    for measure in ("sum", "running"):
        story.click(f"#halting [data-value={measure}]")
        seen.add(story.run(picture))
    assert len(seen) == 3
    # A click on the question's row, at its fourth step.
    story.run(
        "const box = document.querySelector('canvas.grid').getBoundingClientRect();"
        "const marker = document.querySelector('.grid-marker').getBoundingClientRect();"
        "document.querySelector('canvas.grid').dispatchEvent(new MouseEvent('click', {"
        "bubbles: true, clientX: marker.left - 1.5 * marker.width, clientY: box.top + 8.5 * 22}))"
    )
    assert story.text(".step-label") == "step 4 of 6"
    assert "“where is the letter” at step 4: running" in story.text(".readout")


def test_of_a_language_model_the_page_says_how_much_it_guessed(tab: Tab) -> None:
    document = synthetic.document("language_model", [synthetic.language_model_example()])
    tab.open(document)
    assert tab.text(".headline").endswith(" It guessed 24 of 24 symbols from those before.")
    assert tab.text(".verdict .label") == "the last symbol"
    document["runs"][0]["halting"] = "none"
    (part,) = document["examples"][0]["thoughts"][0]["parts"]
    part["halting_probability"] = None
    for position in part["positions"]:
        position["ponder_time"] = 5
    for step in part["predictions"]:
        for choices in step:
            choices[0]["text"] = step[0][0]["text"] if choices is not step[3] else "hops"
    tab.open(document)
    assert tab.text(".headline").startswith(
        "The depth is fixed: each of the 24 symbols of the text took 5 steps"
    )


def test_an_exit_rule_has_no_probability_of_halting(tab: Tab) -> None:
    document = synthetic.document("facts", [synthetic.facts_example("first")])
    document["runs"][0] |= {"halting": "none", "exit_rule": "confidence"}
    tab.open(document)
    assert "an exit rule stops every position that is sure" in tab.text(".intro")
    assert "one whose answer is sure stops" in tab.text("#halting .about")
    assert tab.count("#halting [data-value=probability]") == 0
    assert tab.text("#halting .readout").endswith("at step 6: the last step.")
    assert "stopped by the exit rule" in tab.text("#halting .legend")
    assert "confidence (this model): stops it after 6 steps" in tab.text("#change")


@pytest.mark.parametrize("step", [2, 6])
def test_names_of_exit_rules_stand_beside_the_lines(tab: Tab, step: int) -> None:
    document = synthetic.document("facts", [synthetic.facts_example("first")])
    (part,) = document["examples"][0]["thoughts"][0]["parts"]
    part["exit_steps"] = {f"rule {n}": [step] * len(part["positions"]) for n in range(12)}
    tab.open(document)
    boxes = (
        "return [...document.querySelectorAll(`.exit[data-rule^='rule'] ${arguments[0]}`)]"
        ".map(e => e.getBoundingClientRect()).map(box => [box.left, box.right])"
    )
    lines, names = tab.run(boxes, "line"), tab.run(boxes, "text")
    assert len(lines) == len(names) == 12
    first, last = min(left for left, _ in lines), max(right for _, right in lines)
    assert all(right < first or left > last for left, right in names)
    assert last <= tab.run(
        "return document.querySelector('#change svg').getBoundingClientRect().right"
    )


def test_keys_move_the_step_the_position_and_the_example(tab: Tab) -> None:
    examples = [synthetic.facts_example("first"), synthetic.facts_example("second")]
    tab.open(synthetic.document("facts", examples))
    tab.press("ArrowLeft")
    assert tab.text(".step-label") == "step 5 of 6"
    assert "Step 5 of 6. Answer: pantry, 93%. 1 of 9 positions are running" in tab.text(
        "[role=status]"
    )
    tab.press("Home")
    assert tab.text(".step-label") == "step 1 of 6"
    tab.press("ArrowRight")
    assert tab.text(".step-label") == "step 2 of 6"
    tab.press("ArrowUp")
    assert tab.find("[aria-selected=true] .text").text == "clara grabbed the coin"
    tab.press("n")
    assert tab.find("#example").get_property("value") == "1"
    assert tab.text(".step-label") == "step 6 of 6"
    tab.click(".chooser .next")
    assert tab.find("#example").get_property("value") == "0"
    tab.click(".chooser .previous")
    assert tab.find("#example").get_property("value") == "1"


def test_play_goes_through_the_steps_and_stops(story: Tab) -> None:
    story.press(" ")
    assert story.find(".play").get_attribute("aria-label") == "Pause"
    assert story.text(".step-label") == "step 1 of 6"
    story.wait(lambda: story.text(".step-label") == "step 2 of 6", "the second step")
    story.click(".play")
    assert story.find(".play").get_attribute("aria-label") == "Play the steps"
    story.click(".step-forward")
    story.click(".step-forward")
    story.click(".step-back")
    assert story.text(".step-label") == "step 3 of 6"


def test_the_address_names_what_is_seen_and_is_followed(tab: Tab) -> None:
    examples = [synthetic.facts_example("first"), synthetic.facts_example("a b&c")]
    tab.open(synthetic.document("facts", examples), "#example=a+b%26c&step=3&token=2&head=3")
    assert tab.text(".step-label") == "step 3 of 6"
    assert tab.find("#example").get_property("value") == "1"
    assert tab.find("[aria-selected=true] .text").text == "dimitri went to the pantry"
    assert tab.texts("#attention [aria-checked=true]") == ["3"]
    tab.slide(4)
    wanted = "#example=a+b%26c&part=encoder&step=4&token=2&head=3"
    tab.wait(lambda: tab.run("return location.hash") == wanted, wanted)
    tab.run("location.hash = '#example=first&step=999&token=x'")
    tab.wait(lambda: tab.text(".step-label") == "step 6 of 6", "the last step")
    assert tab.find("#example").get_property("value") == "0"


def test_a_decoder_looks_at_the_source(tab: Tab) -> None:
    tab.open(synthetic.document("text", [synthetic.text_example()]))
    assert tab.text(".headline") == (
        "Reading took 2 or 3 steps a symbol. The 7 symbols of the output took 1 to 5 steps (2.7 on"
        " average); the longest thought, 5 steps, went into “einer”, where the guess went from"
        " “ein” to “einer” at step 4."
    )
    assert tab.texts(".tokens:last-of-type .guess")[4] == "einer"
    tab.slide(2)
    assert tab.texts(".tokens:last-of-type .guess")[4] == "einem"
    assert tab.texts(".guess.changed") == ["einem"]
    assert tab.texts(".answers .first strong") == ["ein", "einem", "einem", "einer", "einer"]
    assert tab.texts("#attention [role=radio]")[:2] == ["to the source", "to the output itself"]
    label = "return document.querySelector('.heatmap').getAttribute('aria-label')"
    source = tab.run(label)
    tab.click("#attention [data-value=decoder]")
    assert tab.run(label) != source
    tab.click(".example-head [data-value=encoder]")
    assert tab.text(".step-label") == "step 3 of 3"
    assert "no answer of its own" in tab.text("#answers .empty")
    tab.click(".tokens[aria-label^=output] .chip")
    assert tab.text(".step-label") == "step 5 of 5"
    assert tab.texts("[aria-selected=true] .word") == ["ein"]


def test_a_board_is_drawn_anew_at_each_step(tab: Tab) -> None:
    tab.open(synthetic.document("board", [synthetic.board_example()]))
    assert tab.texts(".board-cell") == list("1234341221434321")
    assert tab.count(".board-cell.given") == 6
    assert tab.count(".frame") == 5
    tab.click(".frame:nth-child(2)")
    assert tab.text(".step-label") == "step 2 of 5"
    assert tab.texts(".board-cell.changed") == ["2", "3"]
    assert tab.texts(".board-cell")[-3:] != list("321")
    shades = (
        "return [...document.querySelectorAll('.board-cell')].map(e => e.style.backgroundColor)"
    )
    by_steps = tab.run(shades)
    tab.click(".board-figure [data-value=attention]")
    assert tab.run(shades) != by_steps
    tab.click(".board-cell[data-token='5']")
    assert tab.text("#answers .subject") == "The cell at row 2, column 2"
    assert tab.count("#change .curve") == 2
    assert "small boards: gray is given, blue is final" in tab.text("#thinking .legend")
    said = "residual 0.50, of the low level 0.031, probability of halting (q) 25%"
    assert tab.text("#change .readout") == f"All positions, step 2: {said}"


def test_two_runs_stand_side_by_side(tab: Tab) -> None:
    examples = [synthetic.facts_example(runs=2), synthetic.facts_example("unread")]
    examples[1]["thoughts"].append(None)
    tab.open(synthetic.document("facts", examples, runs=2))
    assert tab.texts(".example-head .run-name") == ["ut_act", "ut_fixed"]
    assert tab.texts(".verdict .answer") == ["pantry", "studio"]
    assert tab.text(".step-label") == "step 6 of 6"
    assert tab.texts("#answers tr.now th") == ["6", "4"]
    tab.slide(2)
    assert tab.texts("#answers tr.now th") == ["2", "2"]
    fills = _widths(tab, ".story .fill")
    assert len(fills) == 18
    assert fills[8] == fills[17]
    assert "the depth is fixed" in tab.texts(".readout")[1]
    tab.press("n")
    assert tab.count(".panel[data-run='1'] .empty") > 0
    assert tab.count(".panel[data-run='0'] .story") == 1


def test_texts_never_become_markup(tab: Tab) -> None:
    document = synthetic.document("facts", [synthetic.untrusted_example()])
    document["title"] = document["runs"][0]["name"] = "<script>window.attacked=1</script>"
    tab.open(document)
    for step in range(1, 7):
        tab.slide(step)
    tab.click("#attention [data-value='1']")
    assert tab.run("return window.attacked") is None
    assert tab.count("img, #app script, b") == 0
    assert "<script>" in tab.text(".story-row .text")


def test_the_page_can_be_read_without_javascript(tab: Tab) -> None:
    disable = "Emulation.setScriptExecutionDisabled"
    tab.driver.execute_cdp_cmd(disable, {"value": True})
    try:
        tab.open(synthetic.document("facts", [synthetic.facts_example()]), drawn=False)
        assert "where is the letter" in tab.find("#static table").text
        assert not tab.find("#app").is_displayed()
    finally:
        tab.driver.execute_cdp_cmd(disable, {"value": False})
    tab.driver.refresh()
    tab.wait(lambda: tab.count("#static") == 0, "the page draws nothing")
    assert tab.count(".static-table td") == 18


def test_a_phone_needs_no_sideways_scrolling(tab: Tab) -> None:
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    tab.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        for document in (
            synthetic.document("facts", [synthetic.facts_example(runs=2)], runs=2),
            synthetic.document("text", [synthetic.text_example()]),
            synthetic.document("board", [synthetic.board_example()]),
        ):
            tab.open(document)
            assert tab.run("return document.documentElement.scrollWidth") == 390
            if document["runs"][0]["kind"] == "facts":
                assert tab.find(".story-head .column").text == "1"
                names = tab.texts("[data-run='0'] .heatmaps > .heatmap .key")
                assert names[0] == "dimitri went t…studio" and len(set(names)) == 9
    finally:
        tab.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_names_that_a_cut_makes_alike_have_numbers(tab: Tab) -> None:
    example = synthetic.facts_example()
    (part,) = example["thoughts"][0]["parts"]
    for place, verb in ((1, "walked"), (4, "strolled"), (6, "walked")):
        text = f"the one who lives next door {verb} slowly to the pantry"
        part["positions"][place]["text"] = text
    tab.open(synthetic.document("facts", [example]))
    names = tab.texts("#attention .heatmaps > .heatmap .key")
    assert names[0] == "dimitri went to the studio"
    alike = "the one who lives next…pantry"
    assert [names[place] for place in (1, 4, 6)] == [f"{n} {alike}" for n in (2, 5, 7)]


def test_a_model_without_steps_shows_its_answer(tab: Tab) -> None:
    examples = [synthetic.facts_example("silent"), synthetic.facts_example("told")]
    examples[0]["thoughts"][0]["parts"] = []
    tab.open(synthetic.document("facts", examples), "#example=silent")
    assert tab.text(".headline") == "The answer is pantry; this model shows no steps."
    assert tab.count("section.view") == 1  # the histograms
    tab.press("n")
    assert tab.text(".step-label") == "step 6 of 6"
    assert tab.find(".player").is_displayed()
