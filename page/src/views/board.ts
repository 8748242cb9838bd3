// A board as it stands after each step: the given cells, and the guesses for the others.
import { max } from "d3-array";
import { isRunning, type Part, positionName, predictionsAt } from "../document";
import { el, percent, plural, segmented } from "../dom";
import { attentionTo, type Context, shownStep, shownToken, touches, type View } from "./view";

type Shade = "steps" | "attention";

export function isBlank(text: string): boolean {
  return text.trim() === "" || text.trim() === ".";
}

/** The text in a cell after a step: the given one, or the most probable. */
export function cellText(part: Part, step: number, index: number): string {
  const given = part.positions[index].text;
  if (!isBlank(given)) return given;
  const guess = predictionsAt(part, step, index)[0]?.text ?? "";
  return isBlank(guess) ? "" : guess;
}

export function boardView(context: Context): View {
  const { part, state, colors, longest } = context;
  const { rows, columns, box_rows: boxRows, box_columns: boxColumns } = part.board!;
  const count = rows * columns;
  let shade: Shade = "steps";
  const cells = part.positions.slice(0, count).map((position, index) => {
    const row = Math.floor(index / columns);
    const column = index % columns;
    const edges = [
      boxRows && row % boxRows === 0 && row > 0 ? "edge-top" : "",
      boxColumns && column % boxColumns === 0 && column > 0 ? "edge-left" : "",
      isBlank(position.text) ? "" : "given",
    ].join(" ");
    const text = el("span", { class: "cell-text" });
    const node = el(
      "div",
      { class: `board-cell ${edges}`, role: "gridcell", "data-token": index },
      text,
    );
    node.addEventListener("click", () => state.set({ token: index }));
    return { node, text };
  });
  const lines = Array.from({ length: rows }, (_, row) =>
    el(
      "div",
      { role: "row", class: "board-row" },
      ...cells.slice(row * columns, (row + 1) * columns).map((cell) => cell.node),
    ),
  );
  const grid = el("div", { class: "board", role: "grid", "aria-label": part.label }, ...lines);
  grid.style.setProperty("--columns", String(columns));
  grid.style.setProperty(
    "--cell",
    `${Math.min(columns <= 6 ? 64 : 48, Math.floor((context.width - 8) / columns))}px`,
  );

  const paint = () => {
    const step = shownStep(context);
    const token = shownToken(context);
    const attention = shade === "attention" ? attentionTo(context, part) : null;
    const row = attention?.weights.row(step, attention.head, token, part.positions.length);
    const strongest = row ? Math.max(0.05, max(row) ?? 1) : 1;
    cells.forEach(({ node, text }, index) => {
      const position = part.positions[index];
      const taken = Math.min(step, position.ponder_time);
      const background = row
        ? colors.attention(row[index] / strongest)
        : colors.ponder((0.75 * taken) / longest);
      const now = cellText(part, step, index);
      const before = step > 1 ? cellText(part, step - 1, index) : now;
      if (text.textContent !== now) text.textContent = now;
      node.style.backgroundColor = background;
      node.style.color = colors.text(background);
      node.classList.toggle("changed", now !== before);
      node.classList.toggle("halted", !isRunning(position, step + 1));
      node.setAttribute("aria-selected", String(index === token));
      node.tabIndex = index === token ? 0 : -1;
      const guess = predictionsAt(part, step, index)[0];
      const sure = guess && isBlank(position.text) ? `, ${percent(guess.probability)}` : ", given";
      node.title = `${positionName(part, index)}: ${now || "blank"}${sure}; ${plural(taken, "step")}`;
      node.setAttribute("aria-label", node.title);
    });
    strip.forEach((item, index) => {
      item.classList.toggle("now", index + 1 === step);
    });
  };
  const choice = segmented<Shade>(
    "Shade the cells by",
    [
      { value: "steps", text: "steps taken" },
      { value: "attention", text: "attention of the chosen cell" },
    ],
    shade,
    (value) => {
      shade = value;
      choice.set(value);
      paint();
    },
  );
  const strip = filmStrip(context, columns, count);
  paint();
  return {
    node: el(
      "div",
      { class: "board-figure" },
      part.attention ? choice.node : null,
      grid,
      el("div", { class: "film", "aria-label": "The board after each step" }, ...strip),
      el(
        "p",
        { class: "legend" },
        el("span", { class: "key ponder" }, "blue: steps taken"),
        " ",
        el("span", { class: "key change" }, "◆ changed at this step"),
        " ",
        el("span", { class: "key" }, "bold: given"),
        " ",
        el("span", { class: "key" }, "small boards: gray is given, blue is final"),
      ),
    ),
    update(change) {
      if (touches(change, "step", "token", "head")) paint();
    },
  };
}

/** A small picture of each step: which cells changed, and which already have their last value. */
function filmStrip(context: Context, columns: number, count: number): HTMLElement[] {
  const { part, state, colors } = context;
  const size = Math.max(3, Math.min(9, Math.floor(72 / columns)));
  const ratio = window.devicePixelRatio || 1;
  return Array.from({ length: part.steps }, (_, i) => {
    const step = i + 1;
    const canvas = el("canvas", { "aria-hidden": "true" });
    const rows = Math.ceil(count / columns);
    canvas.width = columns * size * ratio;
    canvas.height = rows * size * ratio;
    canvas.style.width = `${columns * size}px`;
    const draw = canvas.getContext("2d")!;
    draw.scale(ratio, ratio);
    let changes = 0;
    for (let index = 0; index < count; index++) {
      const now = cellText(part, step, index);
      const changed = step > 1 && now !== cellText(part, step - 1, index);
      if (changed) changes += 1;
      const settled = now === cellText(part, part.steps, index) && now !== "";
      const given = !isBlank(part.positions[index].text);
      draw.fillStyle = changed
        ? colors.attentionLine
        : given
          ? colors.muted
          : colors.ponder(settled ? 0.55 : 0.06);
      const gap = size > 4 ? 1 : 0;
      draw.fillRect(
        (index % columns) * size,
        Math.floor(index / columns) * size,
        size - gap,
        size - gap,
      );
    }
    const label = changes ? `${step}: ${changes} changed` : String(step);
    const title = `step ${step}: ${plural(changes, "cell")} changed`;
    const button = el("button", { type: "button", class: "frame", title }, canvas, label);
    button.addEventListener("click", () => state.set({ step }));
    return button;
  });
}
