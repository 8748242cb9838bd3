// Dark and light: the system's choice unless the reader has made one; colors of the scales.
import { lab, rgb } from "d3-color";
import { interpolateRgbBasis } from "d3-interpolate";
import { el } from "./dom";

export type Scale = (value: number) => string;

export interface Colors {
  ponder: Scale; // how long: 0 none, 1 the most steps
  attention: Scale; // how much: 0 none, 1 all
  text: (background: string) => string;
  halted: string;
  rule: string;
  ink: string;
  muted: string;
  surface: string;
  ponderLine: string;
  attentionLine: string;
}

// Blue for time and orange for attention: one hue each, lightness carries the value, and the two
// stay apart for all common forms of color blindness.
const LIGHT = {
  ponder: ["#eaf1f8", "#9fc5e3", "#3f83bd", "#123f73"],
  attention: ["#fff8ef", "#fdcf94", "#ea8426", "#8c3504"],
};
const DARK = {
  ponder: ["#1c2733", "#25527d", "#4b95d4", "#b5dcff"],
  attention: ["#2a2119", "#7a4313", "#dd8730", "#ffdca8"],
};

export function isDark(): boolean {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

export function colors(): Colors {
  const stops = isDark() ? DARK : LIGHT;
  return {
    ponder: tabulated(stops.ponder),
    attention: tabulated(stops.attention),
    text: (background) => (lab(rgb(background)).l > 56 ? "#14171c" : "#ffffff"),
    ...resolved({
      halted: "--halted",
      rule: "--rule",
      ink: "--ink",
      muted: "--muted",
      surface: "--surface",
      ponderLine: "--ponder",
      attentionLine: "--attention",
    }),
  };
}

/** The colors of variables as rgb(): a canvas does not know which theme light-dark() means. */
function resolved<T extends Record<string, string>>(variables: T): { [name in keyof T]: string } {
  const probe = document.body.appendChild(el("span", {}));
  const style = getComputedStyle(probe);
  const entries = Object.entries(variables).map(([name, variable]) => {
    probe.style.color = `var(${variable})`;
    return [name, style.color];
  });
  probe.remove();
  return Object.fromEntries(entries);
}

/** Interpolated once for 256 values: a step of a large grid asks for thousands. */
function tabulated(stops: string[]): Scale {
  const interpolate = interpolateRgbBasis(stops);
  const table = Array.from({ length: 256 }, (_, i) => interpolate(i / 255));
  return (value) => table[Math.max(0, Math.min(255, Math.round(value * 255)))];
}

function remembered(): string | null {
  try {
    return localStorage.getItem("ut-tf-theme");
  } catch {
    return null; // storage is switched off
  }
}

export function themeSwitch(changed: () => void): HTMLElement {
  const button = el("button", { type: "button", class: "theme", "aria-pressed": "false" });
  const show = () => {
    button.textContent = isDark() ? "☀ Light" : "☾ Dark";
    button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colors`);
    button.setAttribute("aria-pressed", String(isDark()));
  };
  const stored = remembered();
  if (stored) document.documentElement.dataset.theme = stored;
  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem("ut-tf-theme", theme);
    } catch {
      // The choice then holds for this visit.
    }
    show();
    changed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    show();
    changed();
  });
  show();
  return button;
}
