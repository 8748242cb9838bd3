// One sentence in plain words on why this example took as long as it did.
import { max, mean, min } from "d3-array";
import { MEAN, unpack } from "./attention";
import type { Part, Position, Run, Thought } from "./document";
import { defaultPosition, hasOneAnswer, positionName, predictionsAt } from "./document";
import { plural, shorten } from "./dom";
import { cellText, isBlank } from "./views/board";

/** The step from which the most probable answer stays what it is at the end. */
export function settledAt(part: Part, position: number): number {
  const top = (step: number) => predictionsAt(part, step, position)[0]?.text;
  let step = part.steps;
  while (step > 1 && top(step - 1) === top(part.steps)) step -= 1;
  return step;
}

/** The positions whose answers may change: of a board the open cells. */
function watched(part: Part): number[] {
  const all = part.positions.map((_, index) => index);
  if (!part.board) return all;
  const count = part.board.rows * part.board.columns;
  return all.slice(0, count).filter((index) => isBlank(part.positions[index].text));
}

/** How much an example has to tell: one that is answered well, after its answer has changed. */
export function interest(thought: Thought | null): number {
  const part = thought?.parts[thought.parts.length - 1];
  if (!thought || !part) return 0;
  const changes = watched(part).map((index) => settledAt(part, index));
  const changed = changes.filter((step) => step > 1).length;
  const latest = max(changes) ?? 1;
  return (thought.correct === false ? 0.5 : 1) * (latest + part.steps / 100 + changed / 1e5);
}

export function headline(run: Run, thought: Thought): string {
  const part = thought.parts[thought.parts.length - 1];
  if (part.board) return boardHeadline(thought, part);
  if (part.positions.some((position) => position.role === "question"))
    return factsHeadline(thought, part);
  if (hasOneAnswer(part)) return classHeadline(thought, part);
  return textHeadline(run, thought, part);
}

function times(positions: Position[]): string {
  const low = min(positions, (position) => position.ponder_time) ?? 0;
  const high = max(positions, (position) => position.ponder_time) ?? 0;
  const average = mean(positions, (position) => position.ponder_time) ?? 0;
  if (low === high) return plural(low, "step");
  if (high - low === 1) return `${low} or ${high} steps`;
  return `${low} to ${high} steps (${average.toFixed(1)} on average)`;
}

function factsHeadline(thought: Thought, part: Part): string {
  const facts = part.positions.filter((position) => position.role === "fact");
  const index = defaultPosition(part);
  const question = part.positions[index];
  const start =
    part.halting_probability === null
      ? `Every fact and the question took ${plural(part.steps, "step")}, as the depth is fixed`
      : `${facts.length === 1 ? "The fact" : "The facts"} took ${times(facts)}, the question ${question.ponder_time}`;
  const settled = settledAt(part, index);
  const fact = factAttended(part, index, settled);
  const answer = settlement(thought, part, index, settled);
  if (!fact) return `${start}; ${answer}.`;
  return `${start}; at step ${settled} it looked most at “${shorten(fact, 60)}”, and ${answer}.`;
}

function settlement(thought: Thought, part: Part, index: number, settled: number): string {
  if (part.predictions === null) return `the answer is ${thought.answer}`;
  const before = settled > 1 ? predictionsAt(part, settled - 1, index)[0]?.text : null;
  if (!before) return `the answer was ${thought.answer} from the first step on`;
  return `the answer became ${thought.answer} (before: ${before})`;
}

function factAttended(part: Part, query: number, step: number): string | null {
  if (!part.attention) return null;
  const weights = unpack(part.attention);
  const row = weights.row(Math.min(step, weights.steps), MEAN, query, part.positions.length);
  let best = -1;
  part.positions.forEach((position, key) => {
    if (position.role === "fact" && (best < 0 || row[key] > row[best])) best = key;
  });
  return best >= 0 && row[best] > 0 ? part.positions[best].text : null;
}

function classHeadline(thought: Thought, part: Part): string {
  const slowest = defaultPosition(part);
  const settled = settledAt(part, slowest);
  const name = shorten(positionName(part, slowest), 40);
  const longest = part.halting_probability === null ? "" : `, the longest at “${name}”`;
  const answer = settlement(thought, part, slowest, settled);
  const when = settled > 1 ? ` at step ${settled}` : "";
  return `The symbols took ${times(part.positions)}${longest}; ${answer}${when}.`;
}

function textHeadline(run: Run, thought: Thought, part: Part): string {
  const written = part.positions.filter((position) => position.role !== "memory");
  const place = run.kind === "language_model" ? "of the text" : "of the output";
  const noun = `${written.length === 1 ? "symbol" : "symbols"} ${place}`;
  const source = thought.parts.length > 1 ? thought.parts[0] : null;
  const reading = source ? `Reading took ${times(source.positions)} a symbol. ` : "";
  const low = min(written, (other) => other.ponder_time) ?? 0;
  const slowest = defaultPosition(part);
  const position = part.positions[slowest];
  const score = run.kind === "language_model" ? guessedWell(part) : "";
  if (part.halting_probability === null || low === position.ponder_time) {
    const fixed = part.halting_probability === null ? "The depth is fixed: each" : "Each";
    return `${reading}${fixed} of the ${written.length} ${noun} took ${plural(low, "step")}${latestGuess(part)}.${score}`;
  }
  const name = shorten(positionName(part, slowest), 30);
  const guess = changeOfGuess(part, slowest) || ", which it had guessed from the first step on";
  return `${reading}The ${written.length} ${noun} took ${times(written)}; the longest thought, ${plural(position.ponder_time, "step")}, went into “${name}”${guess}.${score}`;
}

/** How the guess at a position became what it is; empty where it was that from the first step on. */
function changeOfGuess(part: Part, index: number): string {
  const first = predictionsAt(part, 1, index)[0]?.text;
  const last = predictionsAt(part, part.steps, index)[0]?.text;
  if (first === undefined || first === last) return "";
  return `, where the guess went from “${first || "nothing"}” to “${last}” at step ${settledAt(part, index)}`;
}

/** Where the guess changed last. */
function latestGuess(part: Part): string {
  const settled = part.positions.map((_, index) => settledAt(part, index));
  const latest = settled.indexOf(max(settled) ?? 1);
  const change = changeOfGuess(part, latest);
  return change && `; the last to change was “${shorten(positionName(part, latest), 30)}”${change}`;
}

/** Of how many symbols of a text the model's guess is right. */
function guessedWell(part: Part): string {
  if (!part.predictions) return "";
  const read = part.positions.flatMap(({ role }, index) => (role === "token" ? [index] : []));
  const right = read.filter((index) => {
    const guess = predictionsAt(part, part.steps, index)[0]?.text;
    return guess === part.positions[index].text;
  });
  return ` It guessed ${right.length} of ${plural(read.length, "symbol")} from those before.`;
}

function boardHeadline(thought: Thought, part: Part): string {
  const count = part.board!.rows * part.board!.columns;
  const open = watched(part);
  if (!part.predictions)
    return `The cells of the board took ${times(part.positions.slice(0, count))}.`;
  const settled = open.map((index) => settledAt(part, index));
  if (!open.length) return "The board has no open cell.";
  const atOnce = settled.filter((step) => step === 1).length;
  const last = max(settled) ?? 1;
  const lastCell = open[settled.indexOf(last)];
  const all = open.length === 1 ? "The one open cell" : `All ${open.length} open cells`;
  if (last === 1) return `${all} had the last value after the first step; none changed later.`;
  const start =
    open.length === 1
      ? "The one open cell took its time"
      : `Of ${open.length} open cells, ${atOnce || "none"} had the last value after one step`;
  const value = cellText(part, part.steps, lastCell) || "blank";
  const right =
    thought.correct === null
      ? ""
      : thought.correct
        ? ", and the board is right"
        : ", but the board is not right";
  return `${start}; the last to change was ${positionName(part, lastCell)}, which became ${value} at step ${last}${right}.`;
}
