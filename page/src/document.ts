// The document that Python writes into the page; see docs/insights.md.
export interface Position {
  text: string;
  role: "fact" | "question" | "token" | "start" | "end" | "cell" | "memory";
  ponder_time: number;
  remainder: number;
}

export interface Prediction {
  text: string;
  probability: number;
}

export interface Attention {
  shape: [number, number, number, number]; // steps, heads, queries, keys kept
  indices: string | null;
  weights: string;
  averaged: boolean;
}

export interface Board {
  rows: number;
  columns: number;
  box_rows: number | null;
  box_columns: number | null;
}

export interface Part {
  name: "encoder" | "decoder";
  label: string;
  steps: number;
  max_steps: number;
  positions: Position[];
  halting_probability: number[][] | null;
  state_change: number[][];
  low_state_change: number[][] | null;
  residual: (number | null)[] | null;
  low_residual: (number | null)[] | null;
  q_halt: number[] | null;
  exit_steps: Record<string, (number | null)[]>;
  attention: Attention | null;
  memory_attention: Attention | null;
  predictions: Prediction[][][] | null;
  board: Board | null;
}

export interface Thought {
  answer: string;
  probability: number | null;
  correct: boolean | null;
  parts: Part[];
}

export interface Example {
  id: string;
  title: string;
  target: string | null;
  input: string;
  group: string | null;
  thoughts: (Thought | null)[];
}

export interface Histogram {
  title: string;
  unit: string;
  part: string;
  groups: { name: string; counts: number[] }[];
}

export interface Run {
  name: string;
  model: string;
  halting: string;
  exit_rule: string;
  num_heads: number; // of a layer; 0: unknown
  kind: "facts" | "text" | "language_model" | "board";
  facts: Record<string, string>;
  histograms: Histogram[];
  exit_rules: { name: string; threshold: number }[];
}

export interface InsightsDocument {
  format: string;
  version: number;
  title: string;
  runs: Run[];
  examples: Example[];
  serve?: { input_hint: string; multiline: boolean };
}

export function readDocument(): InsightsDocument {
  const text = document.getElementById("insights")?.textContent;
  if (!text) throw new Error("The page holds no document: no element with the id `insights`.");
  const insights = JSON.parse(text) as InsightsDocument;
  if (insights.format !== "ut-tf-insights" || insights.version !== 1) {
    throw new Error(
      `The document has the format ${insights.format} ${insights.version}; this page reads ` +
        "ut-tf-insights 1. Write the page anew with the ut-insights of the same version.",
    );
  }
  return insights;
}

/** The predictions after a step (from 1) at a position; a classifier has one for all positions. */
export function predictionsAt(part: Part, step: number, position: number): Prediction[] {
  const row = part.predictions?.[step - 1];
  if (!row) return [];
  return (row.length === 1 ? row[0] : row[position]) ?? [];
}

export function hasOneAnswer(part: Part): boolean {
  return (part.predictions?.[0]?.length ?? 0) === 1;
}

export function isRunning(position: Position, step: number): boolean {
  return step <= position.ponder_time;
}

/** The position that is looked at unless the reader has chosen another. */
export function defaultPosition(part: Part): number {
  const question = part.positions.findIndex((position) => position.role === "question");
  if (question >= 0) return question;
  const first = part.positions.findIndex((position) => position.role !== "memory");
  let slowest = Math.max(0, first);
  part.positions.forEach((position, index) => {
    if (position.role === "memory") return;
    if (position.ponder_time > part.positions[slowest].ponder_time) slowest = index;
  });
  return slowest;
}

/** A position in words: its text, or where a board's cell stands. */
export function positionName(part: Part, index: number): string {
  const position = part.positions[index];
  if (part.board) {
    const row = Math.floor(index / part.board.columns) + 1;
    return `row ${row}, column ${(index % part.board.columns) + 1}`;
  }
  return position.text.trim() || (position.role === "token" ? "(blank)" : `(${position.role})`);
}
