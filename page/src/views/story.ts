// Facts and question, one row each: a bar of the steps taken, and the attention by step.
import { isRunning, positionName } from "../document";
import { el, percent, plural } from "../dom";
import { attentionTo, type Context, shownStep, shownToken, touches, type View } from "./view";

export function storyView(context: Context): View {
  const { part, state, colors, longest } = context;
  const steps = Array.from({ length: part.steps }, (_, i) => i + 1);
  const heads = steps.map((step) => {
    const button = el("button", { type: "button", class: "column", tabindex: -1 }, String(step));
    button.setAttribute("aria-label", `Go to step ${step}`);
    button.addEventListener("click", () => state.set({ step }));
    return button;
  });
  const attends = attentionTo(context, part) !== null;
  const caption = el("span", { class: "cells-title" });
  const header = el(
    "div",
    { class: "story-row story-head" },
    el("span", {}),
    el("span", { class: "bar-title" }, "steps taken"),
    el(
      "span",
      { class: "cells-head" },
      attends ? "where it looks, at step" : null,
      el("span", { class: "cells" }, ...(attends ? heads : [])),
    ),
  );
  const rows = part.positions.map((position, index) => {
    const fill = el("span", { class: "fill" });
    const ghost = el("span", { class: "ghost" });
    ghost.style.width = `${(100 * position.ponder_time) / longest}%`;
    const number = el("span", { class: "number" });
    const cells = steps.map(() => el("span", { class: "cell" }));
    const node = el(
      "div",
      { class: `story-row role-${position.role}`, role: "option", "data-token": index },
      el("span", { class: "text" }, position.text),
      el("span", { class: "bar" }, el("span", { class: "track" }, ghost, fill), number),
      el("span", { class: "cells", "aria-hidden": "true" }, ...(attends ? cells : [])),
    );
    node.addEventListener("click", () => state.set({ token: index }));
    return { node, fill, number, cells, position };
  });
  const list = el(
    "div",
    { class: "story", role: "listbox", "aria-label": `${part.label}: choose one` },
    ...rows.map((row) => row.node),
  );

  const paintAttention = () => {
    const attention = attentionTo(context, part);
    if (!attention) return;
    const { weights, head } = attention;
    const token = shownToken(context);
    const name =
      part.positions[token].role === "question" ? "the question" : `“${positionName(part, token)}”`;
    caption.textContent = `orange: how much ${name} attends to each row, step by step`;
    for (const step of steps) {
      const row = weights.row(Math.min(step, weights.steps), head, token, part.positions.length);
      rows.forEach(({ cells }, index) => {
        cells[step - 1].style.backgroundColor = colors.attention(row[index]);
        cells[step - 1].title = `step ${step}: ${percent(row[index])}`;
      });
    }
  };
  const paintStep = () => {
    const step = shownStep(context);
    const token = shownToken(context);
    const attention = attentionTo(context, part);
    const now = attention?.weights.row(step, attention.head, token, rows.length);
    heads.forEach((button, index) => {
      button.classList.toggle("now", index + 1 === step);
    });
    rows.forEach(({ node, fill, number, cells, position }, index) => {
      const taken = Math.min(step, position.ponder_time);
      fill.style.width = `${(100 * taken) / longest}%`;
      fill.style.backgroundColor = colors.ponder(0.3 + (0.6 * taken) / longest);
      number.textContent = String(taken);
      node.classList.toggle("halted", !isRunning(position, step + 1));
      node.setAttribute("aria-selected", String(index === token));
      node.tabIndex = index === token ? 0 : -1;
      const attended = now ? `, attended with ${percent(now[index])}` : "";
      node.setAttribute(
        "aria-label",
        `${position.text}: ${plural(position.ponder_time, "step")}${attended}`,
      );
      cells.forEach((cell, cellIndex) => {
        cell.classList.toggle("now", cellIndex + 1 === step);
        cell.classList.toggle("later", cellIndex + 1 > step);
      });
    });
  };
  paintAttention();
  paintStep();
  const legend = el(
    "p",
    { class: "legend" },
    el("span", { class: "key ponder" }, "blue: steps taken"),
  );
  if (attends) legend.append(" ", el("span", { class: "key attention" }, caption));
  return {
    node: el("div", { class: "story-figure" }, header, list, legend),
    update(change) {
      if (touches(change, "token", "head")) paintAttention();
      if (touches(change, "step", "token", "head")) paintStep();
    },
  };
}
