// Elements are made from tags, attributes and text; nothing is ever parsed as HTML.
type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined>;

function fill<E extends Element>(node: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child) node.append(child);
  return node;
}

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children);
}

const SVG = "http://www.w3.org/2000/svg";

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  return fill(document.createElementNS(SVG, tag) as SVGElementTagNameMap[K], attributes, children);
}

/** Buttons of which one is pressed, as a radio group. */
export function segmented<T extends string>(
  label: string,
  options: { value: T; text: string; title?: string }[],
  chosen: T,
  choose: (value: T) => void,
): { node: HTMLElement; set: (value: T) => void } {
  const buttons = options.map(({ value, text, title }) => {
    const button = el(
      "button",
      { type: "button", role: "radio", title, "data-value": value },
      text,
    );
    button.addEventListener("click", () => choose(value));
    return button;
  });
  const node = el(
    "div",
    { class: "segmented", role: "radiogroup", "aria-label": label },
    ...buttons,
  );
  const set = (value: T) => {
    for (const button of buttons) {
      button.setAttribute("aria-checked", String(button.dataset.value === value));
    }
  };
  set(chosen);
  return { node, set };
}

export function percent(value: number): string {
  if (value > 0 && value < 0.005) return "<1%";
  if (value < 1 && value >= 0.995) return ">99%";
  return `${Math.round(100 * value)}%`;
}

export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

export function shorten(text: string, length: number): string {
  const symbols = [...text];
  return symbols.length <= length ? text : `${symbols.slice(0, length - 1).join("")}…`;
}

/** Pixels of a letter, on average, in the names of rows. */
export const LETTER = 6.6;

/** Names of rows that fit a width: cut before the last word, and numbered where that leaves two
 * that differ alike. */
export function rowNames(names: string[], width: number): string[] {
  const length = Math.floor((width - 8) / LETTER);
  const cut = names.map((name) => withoutMiddle(name, length));
  const alike = new Map<string, Set<string>>();
  cut.forEach((text, i) => {
    alike.set(text, (alike.get(text) ?? new Set()).add(names[i]));
  });
  return cut.map((text, i) =>
    alike.get(text)!.size > 1
      ? `${i + 1} ${withoutMiddle(names[i], length - String(i + 1).length - 1)}`
      : text,
  );
}

function withoutMiddle(text: string, length: number): string {
  const symbols = [...text];
  if (symbols.length <= length) return text;
  const word = symbols.length - 1 - symbols.lastIndexOf(" ");
  const end = word <= 0.6 * length ? word : Math.floor(length / 2);
  const start = symbols.slice(0, length - 1 - end).join("");
  return `${start.trimEnd()}…${symbols.slice(symbols.length - end).join("")}`;
}
