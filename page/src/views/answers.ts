// The three most probable answers after each step, with a mark where the first one changes.
import { hasOneAnswer, positionName, predictionsAt } from "../document";
import { el, percent } from "../dom";
import { type Context, shownStep, shownToken, touches, type View } from "./view";

export function answersView(context: Context): View {
  const { part, state } = context;
  const node = el("div", { class: "answers-figure" });
  let rows: HTMLElement[] = [];
  const build = () => {
    node.replaceChildren();
    rows = [];
    if (!part.predictions) {
      const text = `This part (${part.label}) has no answer of its own. Choose a symbol of the output.`;
      node.append(el("p", { class: "empty" }, text));
      return;
    }
    const token = shownToken(context);
    if (!hasOneAnswer(part)) {
      const name = positionName(part, token);
      node.append(
        el(
          "p",
          { class: "subject" },
          part.board ? `The cell at ${name}` : `In the place of “${name}”`,
        ),
      );
    }
    let before: string | null = null;
    for (let step = 1; step <= part.steps; step++) {
      const choices = predictionsAt(part, step, token);
      const first = choices[0]?.text ?? "";
      const changed = before !== null && first !== before;
      before = first;
      const halted = !hasOneAnswer(part) && step > part.positions[token].ponder_time;
      rows.push(row(step, choices, changed, halted));
    }
    const head = el(
      "tr",
      {},
      ...["step", "answer", "", "next", "then"].map((text) => el("th", { scope: "col" }, text)),
    );
    node.append(el("table", { class: "answers" }, el("thead", {}, head), el("tbody", {}, ...rows)));
    mark();
  };
  const row = (
    step: number,
    choices: { text: string; probability: number }[],
    changed: boolean,
    halted: boolean,
  ) => {
    const [first, second, third] = choices;
    const bar = el("span", { class: "fill" });
    bar.style.width = `${100 * (first?.probability ?? 0)}%`;
    const line = el(
      "tr",
      { class: `${changed ? "changed" : ""} ${halted ? "halted" : ""}`, "data-step": step },
      el("th", { scope: "row" }, el("button", { type: "button" }, String(step))),
      el(
        "td",
        { class: "first" },
        el(
          "span",
          { class: "mark", title: changed ? "the answer changed here" : null },
          changed ? "◆" : "",
        ),
        el("strong", {}, first?.text || "–"),
        changed ? el("span", { class: "visually-hidden" }, " (changed)") : null,
      ),
      el(
        "td",
        { class: "sure" },
        el("span", { class: "track" }, bar),
        first ? percent(first.probability) : "",
      ),
      el(
        "td",
        { class: "other" },
        second?.probability ? `${second.text} ${percent(second.probability)}` : "",
      ),
      el(
        "td",
        { class: "other" },
        third?.probability ? `${third.text} ${percent(third.probability)}` : "",
      ),
    );
    line.addEventListener("click", () => state.set({ step }));
    return line;
  };
  const mark = () => {
    const step = shownStep(context);
    rows.forEach((line, index) => {
      line.classList.toggle("now", index + 1 === step);
      if (index + 1 === step) line.setAttribute("aria-current", "step");
      else line.removeAttribute("aria-current");
    });
  };
  build();
  return {
    node,
    update(change) {
      if (touches(change, "token") && !hasOneAnswer(part)) build();
      else if (touches(change, "step")) mark();
    },
  };
}
