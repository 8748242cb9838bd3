// The bar at the bottom: play, the slider over the steps, and how many positions still run.
import { hasOneAnswer, isRunning, type Part, predictionsAt } from "./document";
import { el, plural } from "./dom";
import type { State } from "./state";

export interface Player {
  node: HTMLElement;
  toggle(): void;
  update(): void;
  rebuild(): void;
}

const MILLISECONDS_PER_STEP = 900;

export function makePlayer(state: State): Player {
  let timer = 0;
  const play = el("button", { type: "button", class: "play", "aria-label": "Play the steps" }, "▶");
  const back = el(
    "button",
    { type: "button", class: "step-back", "aria-label": "One step back" },
    "‹",
  );
  const forward = el(
    "button",
    { type: "button", class: "step-forward", "aria-label": "One step on" },
    "›",
  );
  const slider = el("input", { type: "range", min: 1, step: 1, id: "step", "aria-label": "Step" });
  const bars = el("div", { class: "running-bars", "aria-hidden": "true" });
  const label = el("output", { class: "step-label", for: "step" });
  const rail = el("div", { class: "rail" }, bars, slider);
  const node = el(
    "div",
    { class: "player", role: "group", "aria-label": "Steps" },
    play,
    back,
    rail,
    forward,
    label,
  );

  const stop = () => {
    clearInterval(timer);
    timer = 0;
    play.textContent = "▶";
    play.setAttribute("aria-label", "Play the steps");
  };
  const toggle = () => {
    if (timer) return stop();
    if (state.selection.step >= state.steps) state.set({ step: 1 });
    play.textContent = "❚❚";
    play.setAttribute("aria-label", "Pause");
    timer = window.setInterval(
      () => {
        if (state.selection.step < state.steps) state.set({ step: state.selection.step + 1 });
        if (state.selection.step >= state.steps) stop();
      },
      Math.min(MILLISECONDS_PER_STEP, 12000 / state.steps),
    );
    return undefined;
  };
  const move = (by: number) => {
    stop();
    state.set({ step: state.selection.step + by });
  };
  play.addEventListener("click", toggle);
  back.addEventListener("click", () => move(-1));
  forward.addEventListener("click", () => move(1));
  slider.addEventListener("input", () => {
    stop();
    state.set({ step: Number(slider.value) });
  });

  const update = () => {
    const { step } = state.selection;
    slider.value = String(step);
    slider.setAttribute("aria-valuetext", `step ${step} of ${state.steps}`);
    label.textContent = `step ${step} of ${state.steps}`;
    back.disabled = step <= 1;
    forward.disabled = step >= state.steps;
    bars.querySelectorAll(".running-bar").forEach((bar, index) => {
      bar.classList.toggle("passed", index + 1 <= step);
    });
  };
  const rebuild = () => {
    slider.max = String(state.steps);
    rail.style.setProperty("--steps", String(state.steps));
    const [thought] = state.shown;
    const part = thought ? state.partOf(thought) : null;
    bars.replaceChildren(...(part ? runningBars(part, state.steps) : []));
    node.hidden = !thought;
    update();
  };
  return { node, toggle, update, rebuild };
}

function runningBars(part: Part, steps: number): HTMLElement[] {
  return Array.from({ length: steps }, (_, i) => {
    const running = part.positions.filter((position) => isRunning(position, i + 1)).length;
    const bar = el("span", {
      class: "running-bar",
      title: `step ${i + 1}: ${plural(running, "position")} running`,
    });
    bar.style.height = `${Math.max(4, (100 * running) / Math.max(1, part.positions.length))}%`;
    if (i > 0 && answerChanges(part, i + 1)) bar.classList.add("changed");
    return bar;
  });
}

function answerChanges(part: Part, step: number): boolean {
  if (!hasOneAnswer(part) || step > part.steps) return false;
  return predictionsAt(part, step, 0)[0]?.text !== predictionsAt(part, step - 1, 0)[0]?.text;
}
