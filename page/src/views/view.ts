// What every view is made from, and how it answers a change.
import { type AttentionWeights, unpack } from "../attention";
import { type Part, positionName, type Run, type Thought } from "../document";
import { LETTER } from "../dom";
import type { Change, State } from "../state";
import type { Colors } from "../theme";

export interface Context {
  state: State;
  run: Run;
  thought: Thought;
  part: Part; // the chosen one
  colors: Colors;
  width: number; // of the panel, in pixels
  longest: number; // ponder time, over all parts and runs of the example: the length of a full bar
}

export interface View {
  node: HTMLElement;
  update(change: Change): void;
}

export type MakeView = (context: Context) => View | null;

/** The step that a part shows: runs side by side may have taken fewer than the slider has. */
export function shownStep(context: Context, part: Part = context.part): number {
  return Math.min(context.state.selection.step, part.steps);
}

export function shownToken(context: Context): number {
  return Math.min(context.state.selection.token, context.part.positions.length - 1);
}

/** The attention of the chosen position to a part's positions, and which head is to be read. */
export function attentionTo(
  context: Context,
  target: Part,
): { weights: AttentionWeights; head: number } | null {
  const source = context.part;
  const attention = target === source ? source.attention : memoryOf(source, target);
  if (!attention) return null;
  const weights = unpack(attention);
  return { weights, head: Math.min(context.state.selection.head, weights.heads - 1) };
}

function memoryOf(source: Part, target: Part) {
  return source.name === "decoder" && target.name === "encoder" ? source.memory_attention : null;
}

/** Pixels for the names of a part's positions beside a figure of this width, as many as they need. */
export function nameWidth(width: number, part: Part): number {
  const longest = Math.max(...part.positions.map((_, index) => positionName(part, index).length));
  return Math.min(220, width * 0.42, Math.max(60, 16 + LETTER * longest));
}

/** Whether a step, token or head changed: what most views draw from. */
export function touches(change: Change, ...keys: (keyof Change)[]): boolean {
  return keys.some((key) => change[key] !== undefined);
}
