// What the page says of its runs: positions that halt, positions that an exit rule stops, or a depth
// that is fixed.
import type { Run } from "./document";

type Stop = "halts" | "sure" | "settled" | "fixed";

// Exit rules that judge the answer of a step, not what has changed.
const OF_ANSWERS = ["confidence", "entropy"];

const STOPS: Record<Stop, string> = {
  halts: "every position decides how many steps it needs",
  sure: "an exit rule stops every position that is sure",
  settled: "an exit rule stops every position that has changed little",
  fixed: "the depth is fixed",
};
const WHY: Record<Stop, string> = {
  halts:
    "At each step a position adds its halting probability p to a sum. Near 1 it halts; what was " +
    "missing before that step is the remainder. A halted position is copied, not computed.",
  sure:
    "After each step the exit rule looks at every position: one whose answer is sure stops. " +
    "The rule decides, not the model: there is no halting probability.",
  settled:
    "After each step the exit rule looks at every position: one that has changed little stops. " +
    "The rule decides, not the model: there is no halting probability.",
  fixed: "The depth is fixed: nothing stops before the last step, and nothing is decided.",
};

function stopOf(run: Run): Stop {
  if (run.halting !== "none") return "halts";
  if ((run.exit_rule ?? "none") === "none") return "fixed";
  return OF_ANSWERS.includes(run.exit_rule) ? "sure" : "settled";
}

function groups(runs: Run[]): [Stop, Run[]][] {
  const kinds = [...new Set(runs.map(stopOf))];
  return kinds.map((kind) => [kind, runs.filter((run) => stopOf(run) === kind)]);
}

export function halts(run: Run): boolean {
  return stopOf(run) === "halts";
}

export function isFixed(run: Run): boolean {
  return stopOf(run) === "fixed";
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
  if (runs.every(isFixed)) return ". The depth is fixed: every position takes all of the steps.";
  const kinds = groups(runs);
  if (kinds.length === 1)
    return `, and ${STOPS[kinds[0][0]]}. Easy places stop early; hard ones go on.`;
  return `. ${said(kinds, STOPS)}.`;
}

function said(kinds: [Stop, Run[]][], words: Record<Stop, string>): string {
  const all = kinds.map(([kind, runs]) => `in ${names(runs)}, ${words[kind]}`).join("; ");
  return all.charAt(0).toUpperCase() + all.slice(1);
}

export function titleOfPlaces(runs: Run[]): string {
  return runs.every(isFixed) ? "What each position takes in" : "Where it spends its time";
}

export function aboutPlaces(runs: Run[]): string {
  const looks = "Choose one to see where it looks.";
  if (runs.every(isFixed))
    return `The depth is fixed: every position takes as many steps as the others. ${looks}`;
  const kinds = groups(runs);
  const stops = kinds.length === 1 ? STOPS[kinds[0][0]] : said(kinds, STOPS);
  const sentence = stops.charAt(0).toUpperCase() + stops.slice(1);
  return (
    `One block of layers is applied again and again. ${sentence}: the hard places take many ` +
    `steps. ${looks}`
  );
}

export function aboutStops(runs: Run[]): string {
  const kinds = groups(runs);
  if (kinds.length === 1) return WHY[kinds[0][0]];
  return kinds.map(([kind, some]) => `${names(some)}: ${WHY[kind]}`).join(" ");
}
