/// Light and dark, by the setting of the machine or the reader's choice.

export interface Palette {
  dark: boolean;
  surface: string;
  ink: string;
  faint: string;
  accent: string;
  bad: string;
  padding: string;
  unused: string;
  hatch: string;
  done: string;
}

/// The colours of the style sheet that a canvas needs.
export function palette(): Palette {
  const style = getComputedStyle(document.documentElement);
  const get = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return {
    dark: isDark(), surface: get("surface"), ink: get("ink"), faint: get("faint"), accent: get("accent"),
    bad: get("bad"), padding: get("padding"), unused: get("unused"), hatch: get("hatch"), done: get("done"),
  };
}

const DARK = "(prefers-color-scheme: dark)";
const PAPER = "print";
// Kept, so that a query lives as long as the page.
const listening = [matchMedia(DARK), matchMedia(PAPER)];
const KEY = "zellige-theme";

/// Whether drawings are dark; on paper they never are.
export function isDark(): boolean {
  if (matchMedia(PAPER).matches) return false;
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia(DARK).matches;
}

/// Calls back when the machine changes its mind, and around printing.
///
/// Nobody reads the queries that listen: where the answer of a query is read between the change and its
/// event, Chromium takes the new answer for the old one, and there is no event.
export function onTheme(changed: () => void): void {
  for (const query of listening) query.addEventListener("change", changed);
}

/// Applies what was chosen before.
export function startTheme(): void {
  try {
    const chosen = localStorage.getItem(KEY);
    if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
  } catch {
    // A page from a disk may have no storage; the machine's choice is used.
  }
}

export function toggleTheme(): void {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // As above.
  }
}
