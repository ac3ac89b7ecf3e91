/// The light and the dark theme. The reader's choice decides, and without one the setting of the system.

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

/// The colours of the style sheet that drawings on a canvas need.
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
// Kept in a variable, so that the browser does not collect the queries while the page is open.
const listening = [matchMedia(DARK), matchMedia(PAPER)];
const KEY = "zellige-theme";

/// Whether drawings are dark. Printed ones never are.
export function isDark(): boolean {
  if (matchMedia(PAPER).matches) return false;
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia(DARK).matches;
}

/// Calls `changed` when the system switches between light and dark, and before and after printing.
///
/// No code may read `matches` of the queries in `listening`. If it is read after a change and before the event of
/// that change, Chromium sends no event. Therefore `isDark` makes queries of its own.
export function onTheme(changed: () => void): void {
  for (const query of listening) query.addEventListener("change", changed);
}

/// Applies the theme that the reader chose on an earlier visit.
export function startTheme(): void {
  try {
    const chosen = localStorage.getItem(KEY);
    if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
  } catch {
    // A page that was opened from a file may have no storage. The setting of the system decides then.
  }
}

export function toggleTheme(): void {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // Without storage, the choice lasts until the page is closed.
  }
}
