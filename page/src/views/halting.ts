// The grid of positions and steps on a canvas: halting probability, remainder, running or halted.
import { isRunning, positionName } from "../document";
import { el, percent, rowNames, segmented, shorten } from "../dom";
import { halts, isFixed } from "../wording";
import { type Context, nameWidth, shownStep, shownToken, touches, type View } from "./view";

type Measure = "probability" | "sum" | "running";

const LABELS: { value: Measure; text: string; title: string }[] = [
  { value: "probability", text: "halting probability", title: "p after each step" },
  {
    value: "sum",
    text: "sum and remainder",
    title: "the sum of p so far; the remainder where it halts",
  },
  { value: "running", text: "running or halted", title: "whether the position takes the step" },
];

export function haltingView(context: Context): View | null {
  const { part, run, state, colors } = context;
  if (state.insights.runs.every(isFixed)) return null;
  const count = part.positions.length;
  const fixed = isFixed(run);
  // What an exit rule decides is no probability.
  const decides = halts(run) && part.halting_probability !== null;
  let measure: Measure = decides ? "probability" : "running";
  // Few positions are rows with their texts beside them; many are narrow columns.
  const asRows = count <= 30;
  const labelWidth = asRows ? nameWidth(context.width, part) : 44;
  const texts = part.positions.map((_, index) => positionName(part, index));
  const names = asRows ? rowNames(texts, labelWidth) : null;
  const room = context.width - labelWidth - 4;
  const along = asRows ? Math.min(72, room / part.steps) : Math.max(3, room / count);
  const across = asRows ? 22 : Math.max(10, Math.min(22, 300 / part.steps));
  const columns = asRows ? part.steps : count;
  const rows = asRows ? count : part.steps;
  const width = labelWidth + columns * along;
  const height = rows * across + 36;
  const ratio = window.devicePixelRatio || 1;
  const canvas = el("canvas", { class: "grid", role: "img", tabindex: 0 });
  canvas.width = Math.ceil(width * ratio);
  canvas.height = Math.ceil(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const marker = el("div", { class: "grid-marker", "aria-hidden": "true" });
  const chosen = el("div", { class: "grid-marker token", "aria-hidden": "true" });
  const readout = el("p", { class: "readout" });
  const sums = !decides ? null : sumsOf(part.halting_probability!);

  const numbers = (step: number, index: number) => {
    const position = part.positions[index];
    const probability = part.halting_probability?.[step - 1]?.[index] ?? null;
    const running = isRunning(position, step);
    const last = running && !isRunning(position, step + 1);
    return { probability, running, last, sum: sums?.[step - 1]?.[index] ?? null, position };
  };
  const draw = () => {
    const pen = canvas.getContext("2d")!;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const gap = along > 6 ? 1 : 0;
    for (let step = 1; step <= part.steps; step++) {
      for (let index = 0; index < count; index++) {
        const x = labelWidth + (asRows ? step - 1 : index) * along;
        const y = (asRows ? index : step - 1) * across;
        const { probability, running, last, sum } = numbers(step, index);
        pen.fillStyle = running
          ? colors.ponder(
              measure === "running"
                ? 0.62
                : Math.min(1, (measure === "sum" ? sum : probability) ?? 0),
            )
          : colors.halted;
        pen.fillRect(x, y, along - gap, across - 1);
        if (measure === "sum" && last) drawRemainder(pen, x, y, part.positions[index].remainder);
        if (running && along >= 34) write(pen, cellText(step, index), x, y, String(pen.fillStyle));
        if (last && measure !== "running") outlineLast(pen, x, y, gap);
      }
    }
    drawLabels(pen);
  };
  const drawRemainder = (
    pen: CanvasRenderingContext2D,
    x: number,
    y: number,
    remainder: number,
  ) => {
    pen.fillStyle = colors.attention(0.55);
    const size = Math.max(1, remainder * (across - 1));
    pen.fillRect(x, y + across - 1 - size, Math.max(2, along * 0.16), size);
  };
  const outlineLast = (pen: CanvasRenderingContext2D, x: number, y: number, gap: number) => {
    if (along < 6) return;
    pen.strokeStyle = colors.attentionLine;
    pen.lineWidth = 1.5;
    pen.strokeRect(x + 1, y + 1, along - gap - 2, across - 3);
  };
  const write = (
    pen: CanvasRenderingContext2D,
    text: string,
    x: number,
    y: number,
    background: string,
  ) => {
    pen.fillStyle = colors.text(background);
    pen.font = "11px Inter, sans-serif";
    pen.textAlign = "center";
    pen.fillText(text, x + along / 2, y + across / 2 + 3.5);
  };
  const cellText = (step: number, index: number) => {
    const { probability, sum, last, position } = numbers(step, index);
    if (measure === "running") return "";
    if (measure === "sum")
      return last ? `r ${position.remainder.toFixed(2)}` : (sum ?? 0).toFixed(2);
    return (probability ?? 0).toFixed(2);
  };
  const drawLabels = (pen: CanvasRenderingContext2D) => {
    pen.fillStyle = colors.muted;
    pen.font = "12px Inter, sans-serif";
    pen.textAlign = "right";
    for (let row = 0; row < rows; row++) {
      const text = names?.[row] ?? `step ${row + 1}`;
      if (asRows || across >= 12) pen.fillText(text, labelWidth - 8, row * across + across / 2 + 4);
    }
    pen.textAlign = "center";
    const every = Math.max(1, Math.ceil(28 / along));
    for (let column = 0; column < columns; column += every) {
      const number = String(column + 1);
      // A number wider than the last column would be cut at the canvas's edge.
      const most = width - pen.measureText(number).width / 2;
      const middle = Math.min(labelWidth + (column + 0.5) * along, most);
      pen.fillText(number, middle, rows * across + 15);
    }
    const unit = asRows ? "step" : part.board ? "cell, row by row" : "position";
    pen.fillText(unit, labelWidth + (columns * along) / 2, rows * across + 31);
  };
  const place = () => {
    const step = shownStep(context);
    const token = shownToken(context);
    const box = (node: HTMLElement, column: number, row: number, wide: number, tall: number) => {
      node.style.transform = `translate(${labelWidth + column * along}px, ${row * across}px)`;
      node.style.width = `${wide * along}px`;
      node.style.height = `${tall * across}px`;
    };
    if (asRows) {
      box(marker, step - 1, 0, 1, rows);
      box(chosen, 0, token, columns, 1);
    } else {
      box(marker, 0, step - 1, columns, 1);
      box(chosen, token, 0, 1, rows);
    }
    readout.textContent = describe(step, token);
    const running = part.positions.filter((position) => isRunning(position, step)).length;
    const summary = `Positions and steps; at step ${step}, ${running} of ${count} positions run.`;
    canvas.setAttribute("aria-label", `${summary} ${describe(step, token)}`);
  };
  const describe = (step: number, index: number) => {
    const { probability, running, last, sum, position } = numbers(step, index);
    const start = `“${shorten(positionName(part, index), 40)}” at step ${step}: `;
    const stopped = decides ? "halted" : "stopped";
    if (!running) return `${start}${stopped} since step ${position.ponder_time}.`;
    if (fixed) return `${start}running; the depth is fixed, so nothing halts.`;
    if (!decides) return `${start}${last ? "the last step" : "running"}.`;
    const so = `p = ${(probability ?? 0).toFixed(2)}, sum ${(sum ?? 0).toFixed(2)}`;
    if (!last) return `${start}running, ${so}.`;
    const remainder = position.remainder ? `, remainder ${position.remainder.toFixed(2)}` : "";
    return `${start}the last step, ${so}${remainder}.`;
  };
  const cellAt = (event: MouseEvent) => {
    const box = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - labelWidth) / along);
    const row = Math.floor((event.clientY - box.top) / across);
    if (column >= columns || row < 0 || row >= rows) return null;
    if (column < 0) return asRows ? { token: row } : { step: row + 1 };
    return asRows ? { step: column + 1, token: row } : { step: row + 1, token: column };
  };
  canvas.addEventListener("click", (event) => {
    const cell = cellAt(event);
    if (cell) state.set(cell);
  });
  canvas.addEventListener("mousemove", (event) => {
    const cell = cellAt(event);
    if (cell)
      readout.textContent = describe(
        cell.step ?? shownStep(context),
        cell.token ?? shownToken(context),
      );
  });
  canvas.addEventListener("mouseleave", place);
  const choice = segmented("Show", LABELS, measure, (value) => {
    measure = value;
    choice.set(value);
    draw();
  });
  draw();
  place();
  const holder = el("div", { class: "grid-holder", tabindex: -1 }, canvas, marker, chosen);
  const mean =
    part.positions.reduce((sum, position) => sum + position.ponder_time, 0) / Math.max(1, count);
  const key = fixed
    ? "The depth is fixed: every position takes all steps."
    : `${decides ? "Outlined in orange: the last step of a position. Gray: halted." : "Gray: stopped by the exit rule."} Mean ponder time ${mean.toFixed(2)} steps (${percent(mean / part.max_steps)} of ${part.max_steps}).`;
  return {
    node: el(
      "div",
      { class: "halting-figure" },
      decides ? choice.node : null,
      holder,
      readout,
      el("p", { class: "legend" }, key),
    ),
    update(change) {
      if (touches(change, "step", "token")) place();
    },
  };
}

function sumsOf(probabilities: number[][]): number[][] {
  const sums: number[][] = [];
  probabilities.forEach((row, step) => {
    sums.push(row.map((p, index) => p + (step ? sums[step - 1][index] : 0)));
  });
  return sums;
}
