// How long positions ponder over the test data, one row for each group of examples.
import { max, sum } from "d3-array";
import { scaleBand, scaleLinear } from "d3-scale";
import { select } from "d3-selection";
import type { Histogram, Run } from "../document";
import { el, percent, rowNames, svg } from "../dom";
import type { Colors } from "../theme";

interface Row {
  name: string;
  shares: number[];
  mean: number;
  total: number;
}

export function meanOf(counts: number[]): number {
  const total = sum(counts);
  return total ? sum(counts, (count, time) => count * time) / total : 0;
}

/** The sentence that says whether some groups take longer. */
export function groupSentence(histogram: Histogram): string {
  const rows = histogram.groups.map(({ name, counts }) => ({ name, mean: meanOf(counts) }));
  if (rows.length < 2) return "";
  const sorted = [...rows].sort((a, b) => a.mean - b.mean);
  const low = sorted[0];
  const high = sorted[sorted.length - 1];
  if (high.mean - low.mean < 0.05) return `All groups take about ${low.mean.toFixed(1)} steps.`;
  const digits = high.mean - low.mean < 0.3 ? 2 : 1;
  return `“${low.name}” takes ${low.mean.toFixed(digits)} steps on average, “${high.name}” ${high.mean.toFixed(digits)}.`;
}

export function histogramFigure(
  run: Run,
  histogram: Histogram,
  width: number,
  colors: Colors,
): HTMLElement {
  const rows: Row[] = histogram.groups.map(({ name, counts }) => {
    const total = sum(counts);
    return {
      name,
      total,
      mean: meanOf(counts),
      shares: counts.map((count) => count / Math.max(1, total)),
    };
  });
  const longest = Math.max(1, max(rows, (row) => row.shares.length - 1) ?? 1);
  const first = rows.some((row) => row.shares[0] > 0) ? 0 : 1;
  const times = Array.from({ length: longest - first + 1 }, (_, i) => i + first);
  const labelWidth = Math.min(170, width * 0.38);
  const names = rowNames(
    rows.map((row) => row.name),
    labelWidth,
  );
  const rowHeight = 54;
  const height = rows.length * rowHeight + 34;
  const x = scaleBand(times, [labelWidth, width - 58]).paddingInner(0.12);
  const tallest = max(rows, (row) => max(row.shares)) ?? 1;
  const tall = scaleLinear([0, tallest], [0, rowHeight - 14]);
  const root = svg("svg", {
    class: "chart histogram",
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    role: "img",
  });
  root.setAttribute(
    "aria-label",
    `${histogram.title}, ${run.name}. ${rows.map((row) => `${row.name}: mean ${row.mean.toFixed(2)}`).join("; ")}.`,
  );
  const chart = select(root);
  const lines = chart
    .selectAll("g.group")
    .data(rows)
    .join("g")
    .attr("class", "group")
    .attr("transform", (_, i) => `translate(0, ${i * rowHeight})`);
  lines
    .append("text")
    .attr("class", "key")
    .attr("x", labelWidth - 10)
    .attr("y", rowHeight - 8)
    .attr("text-anchor", "end")
    .text((_, i) => names[i]);
  lines
    .selectAll("rect")
    .data((row) => times.map((time) => ({ time, share: row.shares[time] ?? 0, name: row.name })))
    .join("rect")
    .attr("x", (bar) => x(bar.time)!)
    .attr("width", x.bandwidth())
    .attr("y", (bar) => rowHeight - 4 - tall(bar.share))
    .attr("height", (bar) => tall(bar.share))
    .attr("rx", 1.5)
    .attr("fill", (bar) => colors.ponder(0.25 + (0.6 * bar.time) / longest))
    .append("title")
    .text((bar) => `${bar.name}: ${percent(bar.share)} take ${bar.time} ${histogram.unit}`);
  lines
    .append("line")
    .attr("class", "base")
    .attr("x1", labelWidth)
    .attr("x2", width - 58)
    .attr("y1", rowHeight - 4)
    .attr("y2", rowHeight - 4);
  const middle = scaleLinear(
    [times[0], times[times.length - 1] || 1],
    [x(times[0])! + x.bandwidth() / 2, x(times[times.length - 1])! + x.bandwidth() / 2],
  );
  lines
    .append("path")
    .attr("class", "mean")
    .attr("d", "M0,0l4,7h-8z")
    .attr("transform", (row) => `translate(${middle(row.mean)}, ${rowHeight - 3})`)
    .attr("fill", colors.attentionLine);
  lines
    .append("text")
    .attr("class", "mean-text")
    .attr("x", width)
    .attr("y", rowHeight - 8)
    .attr("text-anchor", "end")
    .text((row) => `⌀ ${row.mean.toFixed(2)}`);
  const every = Math.max(1, Math.ceil(22 / x.step()));
  chart
    .selectAll("text.tick")
    .data(times.filter((_, i) => i % every === 0))
    .join("text")
    .attr("class", "tick axis")
    .attr("x", (time) => x(time)! + x.bandwidth() / 2)
    .attr("y", rows.length * rowHeight + 14)
    .attr("text-anchor", "middle")
    .text(String);
  chart
    .append("text")
    .attr("class", "axis")
    .attr("x", (labelWidth + width - 58) / 2)
    .attr("y", height - 4)
    .attr("text-anchor", "middle")
    .text(`ponder time (${histogram.unit})`);
  return el(
    "figure",
    { class: "histogram-figure" },
    el(
      "figcaption",
      {},
      el("strong", {}, histogram.title),
      `, ${histogram.part}. ${groupSentence(histogram)}`,
    ),
    root,
  );
}
