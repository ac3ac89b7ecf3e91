/// Small helpers around the document.

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((e: never) => void)>;

/// An element with attributes, listeners (`onclick` and so on) and children.
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      // Behind `on`, as attributes of HTML are named.
      element.addEventListener(name.slice(2), value as EventListener);
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, String(value));
    }
  }
  add(element, ...children);
  return element;
}

/// Appends what is not empty.
export function add(parent: Node, ...children: Child[]): void {
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) parent.appendChild(
      typeof child === "string" ? document.createTextNode(child) : child);
  }
}

/// Replaces everything inside an element.
export function fill(parent: Element, ...children: Child[]): void {
  parent.replaceChildren();
  add(parent, ...children);
}

/// Replaces everything inside an element by its next version: what had the keyboard or was
/// scrolled still is, where there is something like it.
export function refill(parent: Element, ...children: Child[]): void {
  // Replacing elements would move the keyboard to the page and scroll boxes to their top, so both are noted by
  // their path and restored.
  const focused = document.activeElement;
  const focus = focused && focused !== parent && parent.contains(focused) ? { path: pathTo(parent, focused), tag: focused.tagName } : null;
  const scrolled = [...parent.querySelectorAll(".program-scroll, .scroll-x, .dci")]
    .filter((e) => e.scrollTop || e.scrollLeft).map((e) => ({ path: pathTo(parent, e), top: e.scrollTop, left: e.scrollLeft }));
  fill(parent, ...children);
  for (const { path, top, left } of scrolled) at(parent, path)?.scrollTo(left, top);
  const next = focus && at(parent, focus.path);
  if (next && next.tagName === focus.tag) (next as HTMLElement).focus({ preventScroll: true });
}

function pathTo(parent: Element, element: Element): number[] {
  const path: number[] = [];
  for (let e = element; e !== parent; e = e.parentElement!) path.unshift([...e.parentElement!.children].indexOf(e));
  return path;
}

function at(parent: Element, path: number[]): Element | undefined {
  return path.reduce<Element | undefined>((e, i) => e?.children[i], parent);
}

/// An SVG element.
export function s(tag: string, attributes: Record<string, string | number>, ...children: Node[]): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/// Tells a screen reader.
export function say(text: string): void {
  const live = document.getElementById("live");
  // The same text again would be read aloud again.
  if (live && live.textContent !== text) live.textContent = text;
}

export type Option = readonly [value: string, text: string];

/// A select box of texts. It stays while its options change, and shows a value that is none of them.
export class Choice {
  readonly element: HTMLLabelElement;
  private readonly box: HTMLSelectElement;
  private options = "";

  constructor(label: string, change: (value: string) => void) {
    this.box = h("select", { onchange: () => change(this.box.value) });
    this.element = h("label", { class: "field" }, h("span", {}, label), this.box);
  }

  set(options: readonly Option[], value: string): this {
    const all = options.some(([o]) => o === value) ? options : [...options, [value, value] as const];
    const key = JSON.stringify(all);
    // Options are replaced only when they change: an open select box would close.
    if (key !== this.options) fill(this.box, ...all.map(([o, text]) => h("option", { value: o }, text)));
    this.options = key;
    this.box.value = value;
    return this;
  }
}

/// A select box whose options do not change.
export function select(label: string, options: readonly Option[], value: string, change: (value: string) => void): HTMLLabelElement {
  return new Choice(label, change).set(options, value).element;
}

/// A box of text that reports its value when the edit is complete, not at every letter; see [`show`].
export function entry(attributes: Attributes, change: (value: string) => void): HTMLInputElement {
  const box = h("input", { ...attributes, onchange: () => {
    box.dataset.shown = box.value;
    change(box.value);
  } });
  return box;
}

/// Shows a value in a box, unless something else is being typed there.
export function show(box: HTMLInputElement, value: string): void {
  // A text that the reader is typing wins over a state that arrives meanwhile.
  if (document.activeElement === box && box.value !== box.dataset.shown) return;
  box.value = box.dataset.shown = value;
}

export const plural = (n: number, word: string): string =>
  `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

/// Bytes for people.
export function bytes(n: number): string {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) {
    n /= 1024;
    unit++;
  }
  return `${unit === 0 ? n : n.toFixed(n < 10 ? 2 : 1).replace(/\.?0+$/, "")} ${units[unit]}`;
}

/// Microseconds for people.
export function time(us: number): string {
  const [value, unit] = us >= 1e6 ? [us / 1e6, "s"] : us >= 1000 ? [us / 1000, "ms"] : [us, "µs"];
  return `${value >= 100 ? value.toFixed(0) : value.toFixed(2).replace(/\.?0+$/, "")} ${unit}`;
}
