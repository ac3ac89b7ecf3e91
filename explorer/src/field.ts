/// A box for a layout text, with the engine's errors under the place they are about.

import { h, fill } from "./dom";
import type { Fault } from "./engine";

export class LayoutField {
  readonly element: HTMLElement;
  readonly input: HTMLTextAreaElement;
  private readonly back: HTMLElement;
  private readonly error: HTMLElement;

  constructor(label: string, value: string, change: (text: string) => void) {
    const id = `field-${label.replace(/\W+/g, "-").toLowerCase()}`;
    this.back = h("div", { class: "backdrop", "aria-hidden": "true" });
    this.error = h("p", { class: "error", id: `${id}-error`, role: "alert" });
    this.error.hidden = true;
    this.input = h("textarea", {
      id, rows: 1, spellcheck: "false", autocomplete: "off", autocapitalize: "off",
      "aria-describedby": `${id}-error`,
      oninput: () => {
        this.grow();
        change(this.input.value);
      },
      onkeydown: (e: KeyboardEvent) => {
        // A layout is one line; Enter means done.
        if (e.key === "Enter") {
          e.preventDefault();
          this.input.blur();
        }
      },
    });
    this.input.value = value;
    this.element = h("div", { class: "layout-field" },
      h("label", { for: id }, label),
      h("div", { class: "layers" }, this.back, this.input),
      this.error);
    new ResizeObserver(() => requestAnimationFrame(() => this.grow())).observe(this.element);
  }

  set(value: string): void {
    if (this.input.value !== value) this.input.value = value;
    this.grow();
  }

  /// Underlines what a fault is about; nothing is wrong without one.
  fault(fault: Fault | null): void {
    const text = this.input.value;
    this.error.hidden = fault === null;
    this.input.setAttribute("aria-invalid", String(fault !== null));
    if (!fault) {
      fill(this.back);
      return;
    }
    // What is underlined is what the engine says; the field is known from where it stands.
    this.error.textContent = fault.message.replace(/^`\w+`: /, "").replace(/ \(at byte \d+: (.*)\)$/, ": $1");
    const span = fault.witness?.span;
    if (!span) {
      fill(this.back, h("span", { class: "wrong whole" }, text));
      return;
    }
    const [start, end] = [unit(text, span[0]), unit(text, span[1])];
    const marked = text.slice(start, end);
    fill(this.back, text.slice(0, start),
      h("span", { class: "wrong", "data-span": `${start}-${end}` }, marked === "" ? "\u00a0" : marked), text.slice(end));
  }

  private grow(): void {
    this.input.style.height = "auto";
    this.input.style.height = `${this.input.scrollHeight}px`;
  }
}

/// The position in the text of a byte of its UTF-8.
function unit(text: string, byte: number): number {
  const encoder = new TextEncoder();
  let at = 0;
  let units = 0;
  for (const character of text) {
    if (at >= byte) break;
    at += encoder.encode(character).length;
    units += character.length;
  }
  return units;
}
