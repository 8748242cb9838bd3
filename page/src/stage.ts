// The sections of an example: an explanation, and a figure for each run.
import type { Run, Thought } from "./document";
import { hasOneAnswer } from "./document";
import { el, percent } from "./dom";
import { headline } from "./headline";
import { type Change, hasSteps, type State } from "./state";
import { colors } from "./theme";
import { answersView } from "./views/answers";
import { attentionView } from "./views/attention";
import { boardView } from "./views/board";
import { changeView } from "./views/change";
import { haltingView } from "./views/halting";
import { storyView } from "./views/story";
import { tokensView } from "./views/tokens";
import type { Context, MakeView, View } from "./views/view";
import { aboutPlaces, aboutStops, titleOfPlaces } from "./wording";

interface Section {
  id: string;
  title: string | ((runs: Run[]) => string);
  about: string | ((runs: Run[]) => string);
  make: MakeView;
}

const SECTIONS: Section[] = [
  {
    id: "thinking",
    title: titleOfPlaces,
    about: aboutPlaces,
    make: (context) => placesView(context),
  },
  {
    id: "answers",
    title: "The answer after each step",
    about:
      "What the model would answer if it stopped there. On a wide screen, the next two answers " +
      "stand beside it. ◆ marks a step at which the answer changes.",
    make: answersView,
  },
  {
    id: "attention",
    title: "Where it looks",
    about:
      "Attention is how much a position reads from each other one, from faint (nothing) to strong " +
      "orange (all). Each head looks for something else; the mean hides that, so look at single " +
      "heads too.",
    make: attentionView,
  },
  {
    id: "halting",
    title: "When each position stops",
    about: aboutStops,
    make: haltingView,
  },
  {
    id: "change",
    title: "How much each step still changes",
    about:
      "The change of a state, relative to its size. Where the curve flattens, further steps do " +
      "little: exit rules stop there without any training. The residual is the mean over all " +
      "positions.",
    make: changeView,
  },
];

function worded(words: string | ((runs: Run[]) => string), runs: Run[]): string {
  return typeof words === "string" ? words : words(runs);
}

function placesView(context: Context): View {
  const { part } = context;
  if (part.board) return boardView(context);
  const told = part.positions.some(
    (position) => position.role === "fact" || position.role === "question",
  );
  return told ? storyView(context) : tokensView(context);
}

export class Stage {
  readonly node = el("div", { class: "stage" });
  private views: View[] = [];

  constructor(private readonly state: State) {}

  rebuild(): void {
    const { runs } = this.state.insights;
    const several = runs.length > 1;
    this.node.classList.toggle("two-runs", several);
    this.node.replaceChildren();
    this.views = [];
    this.node.append(this.headlines(several));
    const palette = colors();
    for (const section of SECTIONS) {
      const about = el(
        "div",
        { class: "about" },
        el("h3", {}, worded(section.title, runs)),
        el("p", {}, worded(section.about, runs)),
      );
      const figures = el("div", { class: "figures" });
      const node = el("section", { id: section.id, class: "view" }, about, figures);
      this.node.append(node);
      let drawn = 0;
      runs.forEach((run, index) => {
        const panel = el("div", { class: "panel", "data-run": index });
        if (several) panel.append(el("p", { class: "run-name" }, run.name));
        figures.append(panel);
        const thought = this.state.example.thoughts[index];
        const view = hasSteps(thought) && this.viewOf(section, run, thought, panel, palette);
        if (!view) {
          panel.append(el("p", { class: "empty" }, "Not shown for this run."));
          return;
        }
        panel.append(view.node);
        this.views.push(view);
        drawn += 1;
      });
      if (!drawn) node.remove();
    }
  }

  update(change: Change): void {
    for (const view of this.views) view.update(change);
  }

  private viewOf(
    section: Section,
    run: Run,
    thought: Thought,
    panel: HTMLElement,
    palette: Context["colors"],
  ) {
    const part = this.state.partOf(thought);
    const width = Math.max(220, Math.floor(panel.clientWidth));
    const { longest } = this.state;
    return section.make({ state: this.state, run, thought, part, colors: palette, width, longest });
  }

  private headlines(several: boolean): HTMLElement {
    const { example, insights } = this.state;
    const node = el("header", { class: "example-head" });
    const isBoard = this.state.shown.some((thought) => this.state.partOf(thought).board);
    node.append(
      el("p", { class: "group" }, example.group ?? ""),
      // A board is drawn below: its title is only its cells in a row.
      el("h2", { class: isBoard ? "visually-hidden" : null }, example.title),
    );
    const panels = insights.runs.map((run, index) => {
      const thought = example.thoughts[index];
      const panel = el("div", { class: "panel" });
      if (several) panel.append(el("p", { class: "run-name" }, run.name));
      if (!thought) {
        panel.append(el("p", { class: "empty" }, "This run cannot read the example."));
        return panel;
      }
      panel.append(
        el("p", { class: "headline" }, headlineOf(run, thought)),
        verdict(run, thought, example.target),
      );
      return panel;
    });
    const choice = this.partChoice();
    node.append(el("div", { class: "figures" }, ...panels));
    if (choice) node.append(choice);
    return node;
  }

  private partChoice(): HTMLElement | null {
    const [thought] = this.state.shown;
    if (!thought || thought.parts.length < 2) return null;
    const buttons = thought.parts.map((part) => {
      const button = el(
        "button",
        { type: "button", role: "radio", "data-value": part.name },
        part.label,
      );
      button.setAttribute("aria-checked", String(part.name === this.state.selection.part));
      button.addEventListener("click", () => this.state.set({ part: part.name }));
      return button;
    });
    return el(
      "div",
      { class: "controls" },
      el("span", { class: "label" }, "look at the"),
      el("div", { class: "segmented", role: "radiogroup", "aria-label": "Part" }, ...buttons),
    );
  }
}

function headlineOf(run: Run, thought: Thought): string {
  const shows: boolean = hasSteps(thought);
  if (shows) return headline(run, thought);
  return `The answer is ${thought.answer}; this model shows no steps.`;
}

function verdict(run: Run, thought: Thought, target: string | null): HTMLElement {
  const isBoard = thought.parts.some((part) => part.board);
  const node = el("p", { class: "verdict" });
  if (!isBoard) {
    node.append(
      el("span", { class: "label" }, run.kind === "language_model" ? "the last symbol" : "answer"),
      el("strong", { class: "answer" }, thought.answer || "(empty)"),
    );
    const classifier = thought.parts.some(hasOneAnswer);
    if (thought.probability !== null && (classifier || thought.probability > 0.005)) {
      node.append(el("span", { class: "sure" }, percent(thought.probability)));
    }
  }
  if (thought.correct === true) node.append(el("span", { class: "right" }, "✓ right"));
  if (thought.correct === false) node.append(el("span", { class: "wrong" }, "✗ wrong"));
  if (target !== null && target !== thought.answer && !isBoard) {
    node.append(el("span", { class: "target" }, `reference: ${target}`));
  }
  return node;
}
