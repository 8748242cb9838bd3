// #example=..&part=..&step=..&token=..&head=..: steps, tokens and heads count from 1.
import { MEAN } from "./attention";
import type { Change, State } from "./state";

function readHash(state: State): Change {
  const fields = new URLSearchParams(location.hash.slice(1));
  const change: Change = {};
  const index = state.insights.examples.findIndex(
    (example) => example.id === fields.get("example"),
  );
  if (index >= 0) change.example = index;
  const part = fields.get("part");
  if (part) change.part = part;
  const step = number(fields.get("step"));
  if (step !== null) change.step = step;
  const token = number(fields.get("token"));
  if (token !== null) change.token = token - 1;
  const head = fields.get("head");
  if (head === "mean") change.head = MEAN;
  const headNumber = number(head);
  if (headNumber !== null) change.head = headNumber - 1;
  return change;
}

function number(text: string | null): number | null {
  if (text === null || !/^\d+$/.test(text)) return null;
  return Number(text);
}

function writeHash(state: State): void {
  const { part, step, token, head } = state.selection;
  const fields = new URLSearchParams({
    example: state.example.id,
    part,
    step: String(step),
    token: String(token + 1),
    head: head === MEAN ? "mean" : String(head + 1),
  });
  const hash = `#${fields}`;
  if (hash !== location.hash) history.replaceState(null, "", hash);
}

export function keepPermalink(state: State): void {
  addEventListener("hashchange", () => state.set(readHash(state)));
  let waiting = 0;
  state.listen(() => {
    // Browsers reject more than some hundred replacements in half a minute.
    clearTimeout(waiting);
    waiting = window.setTimeout(() => writeHash(state), 150);
  });
}

export function selectionOfHash(state: State): Change {
  return readHash(state);
}
