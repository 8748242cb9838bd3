// What is looked at, and who wants to know when it changes.
import { MEAN } from "./attention";
import type { Example, InsightsDocument, Part, Thought } from "./document";
import { defaultPosition } from "./document";

export interface Selection {
  example: number;
  part: string;
  step: number;
  token: number;
  head: number; // MEAN: over all heads
}

export type Change = Partial<Selection>;
type Listener = (change: Change) => void;

export class State {
  readonly selection: Selection = { example: 0, part: "", step: 1, token: 0, head: MEAN };
  private readonly listeners: Listener[] = [];

  constructor(readonly insights: InsightsDocument) {}

  get example(): Example {
    return this.insights.examples[this.selection.example];
  }

  /** The thoughts that have steps to show: some models show only their answer. */
  get shown(): Thought[] {
    return this.example.thoughts.filter(hasSteps);
  }

  /** Most steps of the chosen part over the runs: where the slider ends. */
  get steps(): number {
    return Math.max(1, ...this.shown.map((thought) => this.partOf(thought).steps));
  }

  /** The longest ponder time of the example, over all its parts and runs. */
  get longest(): number {
    const parts = this.shown.flatMap((thought) => thought.parts);
    return Math.max(1, ...parts.flatMap((part) => part.positions.map((p) => p.ponder_time)));
  }

  partNames(): string[] {
    const names = this.shown.flatMap((thought) => thought.parts.map((part) => part.name));
    return [...new Set(names)];
  }

  /** The chosen part of a thought; a thought without it shows its last. */
  partOf(thought: Thought): Part {
    const chosen = thought.parts.find((part) => part.name === this.selection.part);
    return chosen ?? thought.parts[thought.parts.length - 1];
  }

  listen(listener: Listener): void {
    this.listeners.push(listener);
  }

  set(wanted: Change): void {
    if (!this.insights.examples.length) return; // served without test examples
    const next: Selection = { ...this.selection, ...wanted };
    const before = { ...this.selection };
    next.example = clamp(next.example, 0, this.insights.examples.length - 1);
    const moved = next.example !== before.example || before.part === "";
    Object.assign(this.selection, next);
    this.settlePart(wanted, moved);
    const partMoved = moved || this.selection.part !== before.part;
    if (partMoved) this.settleDefaults(wanted);
    this.settleLimits();
    const change = difference(before, this.selection);
    if (moved) change.example = this.selection.example;
    if (Object.keys(change).length) for (const listener of this.listeners) listener(change);
  }

  private settlePart(wanted: Change, moved: boolean): void {
    const names = this.partNames();
    const chosen = moved && !wanted.part ? names[names.length - 1] : this.selection.part;
    this.selection.part = names.includes(chosen) ? chosen : (names[names.length - 1] ?? "");
  }

  private settleDefaults(wanted: Change): void {
    const [thought] = this.shown;
    if (!thought) return;
    if (wanted.step === undefined) this.selection.step = this.steps;
    if (wanted.token === undefined) this.selection.token = defaultPosition(this.partOf(thought));
    if (wanted.head === undefined) this.selection.head = MEAN;
  }

  private settleLimits(): void {
    const parts = this.shown.map((thought) => this.partOf(thought));
    const length = Math.max(1, ...parts.map((part) => part.positions.length));
    const heads = Math.max(1, ...parts.map(numHeads));
    this.selection.step = clamp(this.selection.step, 1, this.steps);
    this.selection.token = clamp(this.selection.token, 0, length - 1);
    this.selection.head = clamp(this.selection.head, MEAN, heads - 1);
  }
}

export function hasSteps(thought: Thought | null): thought is Thought {
  return thought?.parts.some((part) => part.steps > 0 && part.positions.length > 0) ?? false;
}

export function numHeads(part: Part): number {
  return Math.max(part.attention?.shape[1] ?? 0, part.memory_attention?.shape[1] ?? 0);
}

export function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(Math.round(value), low), Math.max(low, high));
}

function difference(before: Selection, after: Selection): Change {
  const changed = Object.entries(after).filter(([key, value]) => {
    return before[key as keyof Selection] !== value;
  });
  return Object.fromEntries(changed);
}
