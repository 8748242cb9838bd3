// Where the chosen position looks: over the steps for one head, and over the heads at one step.
import { max } from "d3-array";
import { scaleBand } from "d3-scale";
import { select } from "d3-selection";
import { MEAN } from "../attention";
import { type Part, positionName } from "../document";
import { el, percent, rowNames, segmented, shorten, svg } from "../dom";
import {
  attentionTo,
  type Context,
  nameWidth,
  shownStep,
  shownToken,
  touches,
  type View,
} from "./view";

const MOST_KEYS = 16;
const WIDEST_COLUMN = 64;

interface Cell {
  key: number;
  column: number;
  weight: number;
}

export function attentionView(context: Context): View | null {
  const { part, thought, state } = context;
  const targets = thought.parts.filter((target) => attentionTo(context, target) !== null);
  if (!targets.length) return null;
  let target = targets[0];
  const head = el("div", { class: "controls" });
  const figures = el("div", { class: "heatmaps" });
  const caption = el("p", { class: "subject" });
  const node = el("div", { class: "attention-figure" }, head, caption, figures);

  const targetChoice = segmented(
    "Attention to",
    targets.map((other) => ({
      value: other.name,
      text: other === part ? `to the ${part.label} itself` : `to the ${other.label}`,
    })),
    target.name,
    (name) => {
      target = targets.find((other) => other.name === name) ?? target;
      targetChoice.set(name);
      build();
    },
  );
  if (targets.length > 1) head.append(targetChoice.node);
  const heads = attentionTo(context, target)!.weights.heads;
  // With several layers in a step the heads of each follow those of the one before.
  const perLayer = context.run.num_heads || heads;
  const layers = heads % perLayer ? 1 : heads / perLayer;
  const layerOf = (index: number) => Math.floor(index / perLayer) + 1;
  const inLayer = (index: number) => (index % perLayer) + 1;
  const named = (index: number) =>
    layers > 1 ? `${layerOf(index)}.${inLayer(index)}` : String(index + 1);
  const inWords = (index: number) =>
    layers > 1 ? `head ${inLayer(index)} of layer ${layerOf(index)}` : `head ${index + 1}`;
  const averaged = part.attention?.averaged || part.memory_attention?.averaged;
  const headOptions = [MEAN, ...Array.from({ length: heads }, (_, index) => index)].map(
    (index) => ({
      value: String(index),
      text: index === MEAN ? "mean" : named(index),
      title: index === MEAN ? "mean over all heads" : inWords(index),
    }),
  );
  const headChoice = segmented("Head", headOptions, String(state.selection.head), (value) =>
    state.set({ head: Number(value) }),
  );
  const label = layers > 1 ? "layer.head" : "head";
  if (heads > 1) head.append(el("span", { class: "label" }, label), headChoice.node);
  else if (averaged) head.append(el("span", { class: "label" }, "mean over all heads"));

  let keys: number[] = [];
  let bySteps: SVGSVGElement | null = null;
  const build = () => {
    const attention = attentionTo(context, target)!;
    const token = shownToken(context);
    const length = target.positions.length;
    const rows = Array.from({ length: attention.weights.steps }, (_, i) =>
      attention.weights.row(i + 1, attention.head, token, length),
    );
    const peaks = target.positions.map((_, key) => max(rows, (row) => row[key]) ?? 0);
    keys = strongestKeys(peaks, target);
    const who = positionName(part, token);
    const which =
      attention.head === MEAN || heads === 1 ? "mean over heads" : inWords(attention.head);
    const cut = keys.length < length ? `, the ${keys.length} most attended of ${length}` : "";
    caption.textContent = `What “${shorten(who, 60)}” attends to (${which}${cut})`;
    figures.replaceChildren();
    const labelWidth = nameWidth(context.width, target);
    const wide = context.width > 620 && heads > 1;
    const width = wide ? context.width * 0.6 : context.width;
    bySteps = heatmap(context, target, keys, {
      width,
      labelWidth,
      columns: rows.map((_, i) => String(i + 1)),
      cells: rows.flatMap((row, column) => keys.map((key) => ({ key, column, weight: row[key] }))),
      axis: "step",
      choose: (column) => state.set({ step: column + 1 }),
    });
    figures.append(bySteps);
    if (heads > 1) figures.append(el("div", { class: "by-head" }));
    paintStep();
  };
  const paintStep = () => {
    const step = shownStep(context);
    select(bySteps)
      .selectAll<SVGElement, unknown>("[data-column]")
      .each(function () {
        this.classList.toggle("now", Number(this.dataset.column) === step - 1);
      });
    const holder = figures.querySelector(".by-head");
    if (!holder) return;
    const weights = attentionTo(context, target)!.weights;
    const token = shownToken(context);
    const rows = Array.from({ length: heads }, (_, h) =>
      weights.row(Math.min(step, weights.steps), h, token, target.positions.length),
    );
    const wide = context.width > 620;
    const picture = heatmap(context, target, keys, {
      width: wide ? context.width * 0.4 - 24 : context.width,
      labelWidth: wide ? 0 : nameWidth(context.width, target),
      columns: rows.map((_, h) => named(h)),
      cells: rows.flatMap((row, column) => keys.map((key) => ({ key, column, weight: row[key] }))),
      axis: `${label}, at step ${step}`,
      choose: (column) => state.set({ head: column }),
    });
    picture.setAttribute("data-step", String(step));
    holder.replaceChildren(picture);
  };
  build();
  return {
    node,
    update(change) {
      if (touches(change, "head")) headChoice.set(String(state.selection.head));
      if (touches(change, "token", "head")) build();
      else if (touches(change, "step")) paintStep();
    },
  };
}

function strongestKeys(peaks: number[], target: Part): number[] {
  const all = target.positions.map((_, key) => key);
  if (all.length <= MOST_KEYS) return all;
  const strongest = all.sort((a, b) => peaks[b] - peaks[a]).slice(0, MOST_KEYS);
  return strongest.sort((a, b) => a - b);
}

interface HeatmapOptions {
  width: number;
  labelWidth: number; // 0: no labels, the rows are those of the picture to the left
  columns: string[];
  cells: Cell[];
  axis: string;
  choose: (column: number) => void;
}

function heatmap(
  context: Context,
  target: Part,
  keys: number[],
  { width, labelWidth, columns, cells, axis, choose }: HeatmapOptions,
): SVGSVGElement {
  const { colors } = context;
  const rowHeight = 22;
  const height = keys.length * rowHeight;
  const x = scaleBand<number>(
    columns.map((_, i) => i),
    [labelWidth, Math.min(width - 2, labelWidth + columns.length * WIDEST_COLUMN)],
  ).paddingInner(0.06);
  const y = scaleBand<number>(keys, [0, height]).paddingInner(0.08);
  const strongest = cells.reduce(
    (best, cell) => (cell.weight > best.weight ? cell : best),
    cells[0],
  );
  const root = svg("svg", {
    class: "heatmap",
    viewBox: `0 0 ${width} ${height + 36}`,
    width,
    height: height + 36,
    role: "img",
    "aria-label": strongest
      ? `Attention by ${axis}. Strongest: ${positionName(target, strongest.key)}, ${percent(strongest.weight)} in column ${columns[strongest.column]}.`
      : "No attention",
  });
  const picture = select(root);
  if (labelWidth) {
    const names = rowNames(
      target.positions.map((_, index) => positionName(target, index)),
      labelWidth,
    );
    picture
      .selectAll("text.key")
      .data(keys)
      .join("text")
      .attr("class", "key")
      .attr("x", labelWidth - 8)
      .attr("y", (key) => y(key)! + y.bandwidth() / 2)
      .attr("dy", "0.35em")
      .attr("text-anchor", "end")
      .text((key) => names[key]);
  }
  picture
    .selectAll("rect.weight")
    .data(cells)
    .join("rect")
    .attr("class", "weight")
    .attr("data-column", (cell) => cell.column)
    .attr("x", (cell) => x(cell.column)!)
    .attr("y", (cell) => y(cell.key)!)
    .attr("width", x.bandwidth())
    .attr("height", y.bandwidth())
    .attr("rx", 2)
    .attr("fill", (cell) => colors.attention(cell.weight))
    .on("click", (_, cell) => choose(cell.column));
  picture
    .selectAll("text.column")
    .data(columns)
    .join("text")
    .attr("class", "column")
    .attr("data-column", (_, i) => i)
    .attr("x", (_, i) => x(i)! + x.bandwidth() / 2)
    .attr("y", height + 14)
    .attr("text-anchor", "middle")
    .text((text) => text)
    .on("click", (_, text) => choose(columns.indexOf(text)));
  picture
    .append("text")
    .attr("class", "axis")
    .attr("x", (x.range()[0] + x.range()[1]) / 2)
    .attr("y", height + 31)
    .attr("text-anchor", "middle")
    .text(axis);
  return root;
}
