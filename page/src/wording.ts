// What the page says of its runs: positions that halt, or a depth that is fixed.
import type { Run } from "./document";

function halts(run: Run): boolean {
  return run.halting !== "none";
}

function repeatsItsBlock(run: Run): boolean {
  return run.model.includes("universal_transformer");
}

function names(runs: Run[]): string {
  return runs.map((run) => run.name).join(" and ");
}

export function intro(runs: Run[]): string {
  const subject = runs.every(repeatsItsBlock)
    ? "A Universal Transformer applies one block of layers step by step"
    : runs.some(repeatsItsBlock)
      ? "A Universal Transformer applies one block of layers step by step; other models have a layer for each step"
      : "This model has a layer for each step";
  return `${subject}${depth(runs)} Move through the steps and watch.`;
}

function depth(runs: Run[]): string {
  if (runs.every(halts))
    return ", and every position decides how many steps it needs. Easy places stop early; hard ones go on.";
  const fixed = runs.filter((run) => !halts(run));
  if (fixed.length === runs.length)
    return ". The depth is fixed: every position takes all of the steps.";
  const halting = names(runs.filter(halts));
  return `. In ${halting}, every position decides how many steps it needs; in ${names(fixed)}, the depth is fixed.`;
}

export function aboutPlaces(runs: Run[]): string {
  const looks = "Choose one to see where it looks.";
  const halting = runs.filter(halts);
  if (!halting.length)
    return `The depth is fixed: every position takes as many steps as the others. ${looks}`;
  const every = halting.length === runs.length ? "Every" : `In ${names(halting)}, every`;
  return (
    `One block of layers is applied again and again. ${every} position decides for itself after ` +
    `each step whether it goes on: the hard places take many steps. ${looks}`
  );
}
