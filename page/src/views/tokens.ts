// Text as a skyline: over each symbol a bar of its steps, under it the guess after this step.
import { max } from "d3-array";
import { hasOneAnswer, isRunning, type Part, positionName, predictionsAt } from "../document";
import { el, percent, plural, shorten } from "../dom";
import { attentionTo, type Context, shownStep, shownToken, touches, type View } from "./view";

const FEW = 40;
const MANY = 120;

interface Chip {
  node: HTMLElement;
  fill: HTMLElement;
  word: HTMLElement;
  guess: HTMLElement | null;
  guessed: string;
  attended: number;
}

export function tokensView(context: Context): View {
  const strips = context.thought.parts.map((part) => strip(context, part));
  const several = context.thought.parts.length > 1;
  const node = el("div", { class: "tokens-figure" });
  strips.forEach(({ list, part }) => {
    if (several) {
      const steps = `${part.label}, ${plural(part.steps, "step")}`;
      node.append(el("h4", { class: part === context.part ? "chosen" : "" }, steps));
    }
    node.append(list);
  });
  node.append(legend(context));
  return {
    node,
    update(change) {
      if (touches(change, "step", "token", "head")) for (const { paint } of strips) paint();
      if (touches(change, "token")) {
        strips.find(({ part }) => part === context.part)?.scrollTo(shownToken(context));
      }
    },
  };
}

function legend(context: Context): HTMLElement {
  const guesses = context.thought.parts.some((part) => part.predictions && !hasOneAnswer(part));
  const node = el(
    "p",
    { class: "legend" },
    el("span", { class: "key ponder" }, "bar: steps taken"),
    " ",
    el("span", { class: "key attention" }, "shade: attention of the outlined symbol"),
  );
  if (guesses) {
    const what =
      context.run.kind === "language_model"
        ? "small: what the model would write there after this step"
        : "small: the guess after this step";
    node.append(" ", el("span", { class: "key guess" }, what));
  }
  return node;
}

function strip(context: Context, part: Part) {
  const { state, colors, longest } = context;
  const guesses = part.predictions !== null && !hasOneAnswer(part);
  const chips: Chip[] = part.positions.map((position, index) => {
    const fill = el("span", { class: "fill" });
    const ghost = el("span", { class: "ghost" });
    ghost.style.height = `${(100 * position.ponder_time) / longest}%`;
    const word = el("span", { class: "word" }, shownText(position.text, position.role));
    const guess = guesses ? el("span", { class: "guess" }) : null;
    const node = el(
      "div",
      {
        class: `chip role-${position.role}`,
        role: "option",
        tabindex: -1,
        "aria-selected": "false",
        "data-token": index,
      },
      el("span", { class: "tower" }, ghost, fill),
      word,
      guess,
    );
    node.addEventListener("click", () => state.set({ part: part.name, token: index }));
    const chip = { node, fill, word, guess, guessed: "", attended: 0 };
    // When somebody looks: written for all symbols at every step, it would take longest.
    node.addEventListener("pointerenter", () => describe(chip, index));
    node.addEventListener("focus", () => describe(chip, index));
    return chip;
  });
  const size = chips.length <= FEW ? "few" : chips.length > MANY ? "many" : "";
  const list = el(
    "div",
    { class: `tokens ${size}`, role: "listbox", "aria-label": `${part.label}: choose a symbol` },
    ...chips.map((chip) => chip.node),
  );
  const scrollTo = (token: number) => {
    const { offsetTop, offsetHeight } = chips[token].node;
    const below = offsetTop + offsetHeight - list.clientHeight;
    if (offsetTop < list.scrollTop) list.scrollTop = offsetTop;
    else if (below > list.scrollTop) list.scrollTop = below;
  };
  const paint = () => {
    const isChosen = part === context.part;
    // While one part thinks, the other has finished.
    const step = isChosen ? shownStep(context, part) : part.steps;
    const token = shownToken(context);
    const attention = attentionTo(context, part);
    const row = attention?.weights.row(
      Math.min(shownStep(context), attention.weights.steps),
      attention.head,
      token,
      chips.length,
    );
    const strongest = row ? Math.max(1e-6, max(row) ?? 1) : 1;
    chips.forEach((chip, index) => {
      const position = part.positions[index];
      const taken = Math.min(step, position.ponder_time);
      chip.fill.style.height = `${(100 * taken) / longest}%`;
      chip.fill.style.backgroundColor = colors.ponder(0.3 + (0.6 * taken) / longest);
      chip.node.classList.toggle("halted", !isRunning(position, step + 1));
      shade(chip.word, row ? row[index] : 0, strongest);
      if (chip.guess) paintGuess(chip, index, step);
      chip.attended = row ? row[index] : 0;
    });
    select(isChosen ? token : -1);
  };
  let selected = -1;
  // Of hundreds of symbols only two change: the others are left alone.
  const select = (token: number) => {
    if (token === selected) return;
    for (const index of [selected, token].filter((index) => index >= 0)) {
      chips[index].node.setAttribute("aria-selected", String(index === token));
      chips[index].node.tabIndex = index === token ? 0 : -1;
    }
    selected = token;
  };
  const describe = (chip: Chip, index: number) => {
    const attended = chip.attended > 0 ? `, attended with ${percent(chip.attended)}` : "";
    const taken = plural(part.positions[index].ponder_time, "step");
    chip.node.title = `${positionName(part, index)}: ${taken}${attended}`;
  };
  const shade = (word: HTMLElement, weight: number, strongest: number) => {
    // Relative to the strongest: over long texts all weights are small.
    const value = weight / Math.max(strongest, 0.25);
    const background = value > 0.04 ? colors.attention(value) : "";
    word.style.backgroundColor = background;
    word.style.color = background ? colors.text(background) : "";
  };
  const paintGuess = (chip: Chip, index: number, step: number) => {
    const guessed = predictionsAt(part, step, index)[0]?.text ?? "";
    const before = step > 1 ? (predictionsAt(part, step - 1, index)[0]?.text ?? "") : guessed;
    if (chip.guessed !== guessed) chip.guess!.textContent = shorten(guessed, 14);
    chip.guessed = guessed;
    chip.guess!.classList.toggle("changed", guessed !== before);
    chip.guess!.classList.toggle("other", guessed !== part.positions[index].text);
  };
  paint();
  return { list, paint, part, scrollTo };
}

function shownText(text: string, role: string): string {
  if (role === "end") return "⏎ end";
  if (text.trim() === "") return text === "" ? "·" : "␣";
  return text;
}
