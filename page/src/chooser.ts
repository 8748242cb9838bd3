// Which example is shown, and in serve mode the form for one's own.
import type { Example } from "./document";
import { el, shorten } from "./dom";
import type { State } from "./state";

export interface Chooser {
  node: HTMLElement;
  update(): void;
}

export function makeChooser(state: State): Chooser {
  const select = el("select", { id: "example", "aria-label": "Example" });
  const previous = el(
    "button",
    { type: "button", class: "previous", "aria-label": "Previous example" },
    "‹",
  );
  const next = el("button", { type: "button", class: "next", "aria-label": "Next example" }, "›");
  const move = (by: number) => {
    const { length } = state.insights.examples;
    state.set({ example: (state.selection.example + by + length) % length });
  };
  previous.addEventListener("click", () => move(-1));
  next.addEventListener("click", () => move(1));
  select.addEventListener("change", () => state.set({ example: Number(select.value) }));
  const fill = () => {
    const groups = new Map<string, HTMLOptGroupElement>();
    select.replaceChildren();
    state.insights.examples.forEach((example, index) => {
      const option = el("option", { value: index }, optionText(example));
      if (example.group === null) {
        select.append(option);
        return;
      }
      const group = groups.get(example.group) ?? el("optgroup", { label: example.group });
      if (!groups.has(example.group)) select.append(group);
      groups.set(example.group, group);
      group.append(option);
    });
  };
  fill();
  const node = el("div", { class: "chooser" }, previous, select, next);
  node.hidden = !state.insights.examples.length;
  return {
    node,
    update() {
      node.hidden = false;
      if (select.querySelectorAll("option").length !== state.insights.examples.length) fill();
      select.value = String(state.selection.example);
    },
  };
}

function optionText(example: Example): string {
  const marks = example.thoughts
    .map((thought) => (thought?.correct === false ? " ✗" : ""))
    .join("");
  return shorten(example.title, 90) + marks;
}

/** The form that sends an input to the server that wrote the page. */
export function makeForm(state: State): HTMLElement | null {
  const serve = state.insights.serve;
  if (!serve) return null;
  const field = serve.multiline
    ? el("textarea", { id: "own-input", rows: 5, placeholder: serve.input_hint })
    : el("input", { id: "own-input", type: "text", placeholder: serve.input_hint });
  const button = el("button", { type: "submit" }, "See it think");
  const message = el("p", { class: "form-message", role: "alert" });
  const form = el(
    "form",
    { class: "own" },
    el("label", { for: "own-input" }, "Try your own"),
    el("div", { class: "own-row" }, field, button),
    el("p", { class: "hint" }, `Expected: ${serve.input_hint}.`),
    message,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    message.textContent = "";
    try {
      const examples = await think(field.value);
      const start = state.insights.examples.length;
      state.insights.examples.push(...examples);
      state.set({ example: start });
    } catch (error) {
      message.textContent = error instanceof Error ? error.message : String(error);
    } finally {
      button.disabled = false;
    }
  });
  return form;
}

async function think(input: string): Promise<Example[]> {
  const answer = await fetch("think", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ input }),
  }).catch(() => {
    throw new Error("The server does not answer: start ut-insights --serve again.");
  });
  const result = await answer.json().catch(() => ({}));
  if (!answer.ok || !result.examples?.length) {
    throw new Error(result.error ?? `The server answered with status ${answer.status}.`);
  }
  return result.examples;
}
