// How much the state of each position changes per step, and where each exit rule would stop it.
import { extent, quantile } from "d3-array";
import { axisBottom, axisLeft } from "d3-axis";
import { scaleLinear, scaleLog } from "d3-scale";
import { select } from "d3-selection";
import { area, line } from "d3-shape";
import { type Part, positionName } from "../document";
import { el, percent, plural, shorten, svg } from "../dom";
import { halts } from "../wording";
import { type Context, shownStep, shownToken, touches, type View } from "./view";

const HEIGHT = 250;
const MARGIN = { top: 26, right: 22, bottom: 38, left: 48 };

export function changeView(context: Context): View | null {
  const { part, run, state, colors, width } = context;
  if (!part.state_change?.length) return null;
  const steps = part.state_change.map((_, i) => i + 1);
  const low = part.low_state_change ?? [];
  const positive = [...part.state_change, ...low].flat().filter((value) => value > 0);
  const [least, most] = extent(positive) as [number, number];
  const floor = Math.max(least ?? 1e-3, 1e-4);
  const x = scaleLinear([1, Math.max(2, part.steps)], [MARGIN.left, width - MARGIN.right]);
  const y = scaleLog(
    [floor, Math.max(most ?? 1, floor * 2)],
    [HEIGHT - MARGIN.bottom, MARGIN.top],
  ).nice();
  const root = svg("svg", {
    class: "chart",
    viewBox: `0 0 ${width} ${HEIGHT}`,
    width,
    height: HEIGHT,
    role: "img",
  });
  const chart = select(root);
  const stepTicks = x
    .ticks(Math.min(part.steps, 12))
    .filter((tick) => Number.isInteger(tick) && tick <= part.steps);
  chart
    .append("g")
    .attr("class", "axis")
    .attr("transform", `translate(0, ${HEIGHT - MARGIN.bottom})`)
    .call(
      axisBottom(x)
        .tickValues(stepTicks)
        .tickFormat((tick) => String(tick))
        .tickSizeOuter(0),
    );
  chart
    .append("g")
    .attr("class", "axis")
    .attr("transform", `translate(${MARGIN.left}, 0)`)
    .call(axisLeft(y).ticks(4, "~g").tickSizeOuter(0));
  label(chart.append("text"), (MARGIN.left + width) / 2, HEIGHT - 4, "step").attr(
    "text-anchor",
    "middle",
  );
  label(chart.append("text"), 4, 10, "change relative to the state (log)");

  const at = (value: number) => y(Math.max(value, floor));
  const shape = line<number>((_, i) => x(i + 1), at);
  const running = part.state_change.map((row) => row.filter((value) => value > 0));
  const bands = running.map((row) => [quantile(row, 0.1), quantile(row, 0.9)]);
  if (part.positions.length > 2) {
    const band = area<(number | undefined)[]>(
      (_, i) => x(i + 1),
      ([lower]) => at(lower ?? floor),
      ([, upper]) => at(upper ?? floor),
    ).defined(([lower]) => lower !== undefined);
    chart
      .append("path")
      .attr("class", "band")
      .attr("d", band(bands))
      .attr("fill", colors.ponder(0.35));
  }
  const now = chart
    .append("line")
    .attr("class", "now-line")
    .attr("y1", MARGIN.top)
    .attr("y2", HEIGHT - MARGIN.bottom);
  const exits = chart.append("g").attr("class", "exits");
  const curve = chart.append("path").attr("class", "curve").attr("stroke", colors.ponderLine);
  const lowCurve = chart
    .append("path")
    .attr("class", "curve low")
    .attr("stroke", colors.ponderLine);
  const dots = chart.append("g").attr("class", "dots").attr("fill", colors.ponderLine);
  const table = el("ul", { class: "exit-list" });

  const drawToken = () => {
    const token = shownToken(context);
    const values = part.state_change.map((row) => row[token]);
    curve.attr("d", shape(values));
    lowCurve.attr("d", shape(low.map((row) => row[token])));
    dots
      .selectAll("circle")
      .data(values)
      .join("circle")
      .attr("cx", (_, i) => x(i + 1))
      .attr("cy", at)
      .attr("r", steps.length > 30 ? 2 : 3.5)
      .on("click", (_, value) => state.set({ step: values.indexOf(value) + 1 }));
    drawExits(token);
    const name = positionName(part, token);
    const first = values[0]?.toFixed(2);
    const last = values[values.length - 1]?.toFixed(3);
    root.setAttribute(
      "aria-label",
      `Change of “${name}” per step: ${first} at first, ${last} at the last step.`,
    );
  };
  const drawExits = (token: number) => {
    const stops = Object.entries(part.exit_steps).map(([rule, positions]) => {
      return { rule, step: positions[token] ?? null };
    });
    const halting = part.halting_probability ? part.positions[token].ponder_time : null;
    const what = halts(run) ? "halting" : run.exit_rule;
    if (halting !== null) stops.unshift({ rule: `${what} (this model)`, step: halting });
    const seen = stops.filter((stop) => stop.step !== null);
    // Rules that stop at the same step stand side by side, with their names beside them all; late
    // ones towards the left, where there is room for any number.
    const alike = (stop: (typeof stops)[0]) => seen.filter((other) => other.step === stop.step);
    const isLate = (stop: (typeof stops)[0]) => x(stop.step!) > width * 0.7;
    const beside = (stop: (typeof stops)[0], by: number) =>
      x(stop.step!) + (isLate(stop) ? -by : by);
    const place = (stop: (typeof stops)[0]) => beside(stop, 2 * alike(stop).indexOf(stop));
    const groups = exits.selectAll<SVGGElement, (typeof stops)[0]>("g").data(seen).join("g");
    groups.selectAll("*").remove();
    groups.attr("class", "exit").attr("data-rule", (stop) => stop.rule);
    groups
      .append("line")
      .attr("x1", place)
      .attr("x2", place)
      .attr("y1", MARGIN.top)
      .attr("y2", HEIGHT - MARGIN.bottom);
    groups
      .append("text")
      .attr("x", (stop) => beside(stop, 2 * alike(stop).length + 4))
      .attr("y", (_, i) => MARGIN.top + 11 + 14 * i)
      .attr("text-anchor", (stop) => (isLate(stop) ? "end" : "start"))
      .text((stop) => stop.rule);
    table.replaceChildren(
      ...stops.map(({ rule, step }) => {
        const threshold = context.run.exit_rules.find((other) => other.name === rule)?.threshold;
        const when =
          step === null ? "not before it ends by itself" : `stops it after ${plural(step, "step")}`;
        const limit = threshold === undefined ? "" : ` (threshold ${threshold})`;
        return el("li", { "data-rule": rule }, el("strong", {}, rule), `${limit}: ${when}`);
      }),
    );
  };
  const drawStep = () => {
    const place = x(shownStep(context));
    now.attr("x1", place).attr("x2", place);
    numbers.textContent = numbersAt(part, shownStep(context));
  };
  const numbers = el("p", { class: "readout" });
  drawToken();
  drawStep();
  const subject = el("p", { class: "subject" });
  const name = () => {
    const text = `“${shorten(positionName(part, shownToken(context)), 60)}”`;
    const others =
      part.positions.length > 2 ? "; the band holds 80% of the positions that still change" : "";
    const levels = low.length ? "; the dashed line is the low level's" : "";
    subject.textContent = `The state of ${text}${others}${levels}`;
  };
  name();
  return {
    node: el("div", { class: "change-figure" }, subject, root, numbers, table),
    update(change) {
      if (touches(change, "token")) {
        drawToken();
        name();
      }
      if (touches(change, "step")) drawStep();
    },
  };
}

/** What is known of all positions together after a step, in words. */
function numbersAt(part: Part, step: number): string {
  const residual = part.residual?.[step - 1];
  const low = part.low_residual?.[step - 1];
  const q = part.q_halt?.[step - 1];
  const said: string[] = [];
  if (residual != null) said.push(`residual ${residual.toPrecision(2)}`);
  if (low != null) said.push(`of the low level ${low.toPrecision(2)}`);
  if (q != null) said.push(`probability of halting (q) ${percent(q)}`);
  return said.length ? `All positions, step ${step}: ${said.join(", ")}` : "";
}

// biome-ignore lint/suspicious/noExplicitAny: the four types of a selection do not matter here.
function label(text: any, x: number, y: number, content: string) {
  return text.attr("class", "axis").attr("x", x).attr("y", y).text(content);
}
