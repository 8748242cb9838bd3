import { makeChooser, makeForm } from "./chooser";
import type { Part } from "./document";
import { positionName, predictionsAt, readDocument } from "./document";
import { el, percent } from "./dom";
import { interest } from "./headline";
import { listenToKeys } from "./keys";
import { keepPermalink, selectionOfHash } from "./permalink";
import { makePlayer } from "./player";
import { Stage } from "./stage";
import { State } from "./state";
import { colors, themeSwitch } from "./theme";
import { histogramFigure } from "./views/histograms";
import { intro } from "./wording";

function start(): void {
  const insights = readDocument();
  const app = document.getElementById("app")!;
  app.hidden = false;
  if (!insights.examples.length && !insights.serve) {
    app.append(el("p", { class: "empty" }, "The document holds no examples."));
    return;
  }
  const state = new State(insights);
  const stage = new Stage(state);
  const player = makePlayer(state);
  const chooser = makeChooser(state);
  const live = el("p", { class: "visually-hidden", role: "status", "aria-live": "polite" });
  const test = el("div", { class: "test-set" });
  const redraw = () => {
    if (insights.examples.length) stage.rebuild();
    drawHistograms(state, test);
  };
  app.append(
    header(state, redraw),
    el("main", {}, chooserRow(state, chooser.node), stage.node, test),
    live,
    player.node,
  );
  document.getElementById("static")!.replaceWith(staticTable());
  app.querySelector("main")!.append(footer(), document.querySelector(".static-table")!);
  state.listen((change) => {
    if (change.example !== undefined || change.part !== undefined) {
      chooser.update();
      stage.rebuild();
      player.rebuild();
    } else {
      stage.update(change);
      player.update();
    }
    live.textContent = announcement(state);
  });
  player.node.hidden = !insights.examples.length;
  if (insights.examples.length)
    state.set({ example: firstExample(state), ...selectionOfHash(state) });
  drawHistograms(state, test);
  keepPermalink(state);
  listenToKeys(state, player);
  redrawOnResize(redraw);
}

function header(state: State, redraw: () => void): HTMLElement {
  const { runs } = state.insights;
  const facts = runs.map((run) => {
    const items = Object.entries(run.facts).flatMap(([key, value]) => [
      el("dt", {}, key),
      el("dd", {}, String(value)),
    ]);
    return el("dl", { class: "facts", "aria-label": run.name }, ...items);
  });
  return el(
    "header",
    { class: "page-head" },
    el(
      "div",
      { class: "head-row" },
      el("p", { class: "kicker" }, "See it think"),
      themeSwitch(redraw),
    ),
    el("h1", {}, heading(state)),
    el("p", { class: "intro" }, intro(runs)),
    el(
      "details",
      { class: "run-facts" },
      el("summary", {}, `About ${runs.map((run) => run.name).join(" and ")}`),
      ...facts,
    ),
  );
}

/** The title, or in its place what the model does where the title is only the runs' names. */
function heading(state: State): string {
  const { runs, title } = state.insights;
  if (!runs.every((run) => title.includes(run.name))) return title;
  const tasks = {
    facts: "How a model answers questions about stories",
    text: "How a model reads and writes",
    language_model: "How a model predicts what comes next",
    board: "How a model fills in a board",
  };
  return tasks[runs[0].kind] ?? title;
}

/** The number of the example that is shown first. */
function firstExample(state: State): number {
  const scores = state.insights.examples.map((example) => interest(example.thoughts[0]));
  return Math.max(0, scores.indexOf(Math.max(...scores)));
}

function chooserRow(state: State, chooser: HTMLElement): HTMLElement {
  const row = el("div", { class: "choose" });
  const form = makeForm(state);
  if (form) row.append(form);
  row.append(chooser);
  return row;
}

function drawHistograms(state: State, node: HTMLElement): void {
  node.replaceChildren();
  const { runs } = state.insights;
  if (!runs.some((run) => run.histograms.length)) return;
  const about =
    "Over many test examples: the share of positions that took each number of steps, by kind of " +
    "example. ⌀ and the orange mark are the mean.";
  const figures = el("div", { class: "figures" });
  const section = el(
    "section",
    { id: "histograms", class: "view" },
    el(
      "div",
      { class: "about" },
      el("h3", {}, "Do hard examples take longer?"),
      el("p", {}, about),
    ),
    figures,
  );
  node.append(section);
  const palette = colors();
  const panels = runs.map(() => el("div", { class: "panel" }));
  figures.append(...panels);
  runs.forEach((run, index) => {
    const panel = panels[index];
    if (runs.length > 1) panel.append(el("p", { class: "run-name" }, run.name));
    const width = Math.max(220, panel.clientWidth);
    const compared = run.histograms.filter((histogram) => histogram.groups.length > 1);
    const [first, ...others] = compared.length ? compared : run.histograms;
    if (first) panel.append(histogramFigure(run, first, width, palette));
    if (others.length) {
      const more = el("details", { class: "more" }, el("summary", {}, "By other groups"));
      more.append(...others.map((other) => histogramFigure(run, other, width, palette)));
      panel.append(more);
    }
    if (!run.histograms.length)
      panel.append(el("p", { class: "empty" }, "All positions take the same steps."));
  });
}

function staticTable(): HTMLElement {
  const table = document.getElementById("static")!;
  const details = el(
    "details",
    { class: "static-table" },
    el("summary", {}, "All examples as tables"),
  );
  // A served page may begin without an example.
  details.hidden = !table.querySelector("section");
  details.append(...table.childNodes);
  return details;
}

function footer(): HTMLElement {
  const hints = [
    ["←", "→", "step"],
    ["↑", "↓", "position"],
    ["space", "play or pause"],
    ["p", "n", "previous, next example"],
  ].map((words) => {
    const what = words[words.length - 1];
    return el("li", {}, ...words.slice(0, -1).map((key) => el("kbd", {}, key)), ` ${what}`);
  });
  return el(
    "footer",
    {},
    el("ul", { class: "hints" }, ...hints),
    el("p", {}, "The address of this page names what you look at: copy it to share it."),
  );
}

function announcement(state: State): string {
  const { step, token } = state.selection;
  const texts = state.shown.map((thought) => {
    const part = state.partOf(thought);
    return `Step ${Math.min(step, part.steps)} of ${part.steps}. ${answerNow(part, step, token)}`;
  });
  return texts.join(" ");
}

function answerNow(part: Part, step: number, token: number): string {
  const index = Math.min(token, part.positions.length - 1);
  const running = part.positions.filter((position) => step <= position.ponder_time).length;
  const first = predictionsAt(part, Math.min(step, part.steps), index)[0];
  const answer = first ? `Answer: ${first.text}, ${percent(first.probability)}. ` : "";
  return `${answer}${running} of ${part.positions.length} positions are running. Chosen: ${positionName(part, index)}.`;
}

function redrawOnResize(redraw: () => void): void {
  let width = window.innerWidth;
  let waiting = 0;
  addEventListener("resize", () => {
    if (window.innerWidth === width) return; // a phone's address bar changes the height alone
    width = window.innerWidth;
    clearTimeout(waiting);
    waiting = window.setTimeout(redraw, 120);
  });
}

start();
