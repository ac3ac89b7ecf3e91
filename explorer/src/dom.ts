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
  if (live && live.textContent !== text) live.textContent = text;
}

/// A select box of texts.
export function select(
  label: string,
  options: readonly (readonly [value: string, text: string])[],
  value: string,
  change: (value: string) => void,
): HTMLLabelElement {
  const box = h("select", { onchange: () => change(box.value) });
  for (const [option, text] of options) {
    box.append(h("option", { value: option, selected: option === value }, text));
  }
  return h("label", { class: "field" }, h("span", {}, label), box);
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
