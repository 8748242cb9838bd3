// Arrows, space, n and p, wherever the focus is except in fields that need the keys themselves.
import type { Player } from "./player";
import type { State } from "./state";

export function listenToKeys(state: State, player: Player): void {
  const actions: Record<string, () => void> = {
    ArrowRight: () => state.set({ step: state.selection.step + 1 }),
    ArrowLeft: () => state.set({ step: state.selection.step - 1 }),
    ArrowDown: () => chooseToken(state, state.selection.token + 1),
    ArrowUp: () => chooseToken(state, state.selection.token - 1),
    Home: () => state.set({ step: 1 }),
    End: () => state.set({ step: state.steps }),
    " ": () => player.toggle(),
    n: () => state.set({ example: (state.selection.example + 1) % state.insights.examples.length }),
    p: () => {
      const { length } = state.insights.examples;
      state.set({ example: (state.selection.example + length - 1) % length });
    },
  };
  addEventListener("keydown", (event) => {
    const action = actions[event.key];
    if (
      !action ||
      !state.insights.examples.length ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      takesKey(event)
    )
      return;
    event.preventDefault();
    action();
  });
}

function takesKey(event: KeyboardEvent): boolean {
  const target = event.target;
  if (!(target instanceof HTMLElement)) return false;
  if (target.matches("textarea, select, input:not([type=range])")) return true;
  const presses = event.key === " " && target.matches("button, summary, a");
  const slides = target.matches("input[type=range]") && event.key !== " " && event.key.length > 1;
  return presses || slides;
}

function chooseToken(state: State, token: number): void {
  const list = document.activeElement?.closest("[role=listbox], [role=grid]");
  state.set({ token });
  // The focus goes along where it was in the list.
  if (list) list.querySelector<HTMLElement>("[aria-selected=true]")?.focus();
}
