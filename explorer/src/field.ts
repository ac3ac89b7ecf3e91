/// A box for a layout text, with the engine's errors under the place they are about, and what may be
/// meant where that is not clear.

import { fill, h } from "./dom";
import type { Fault, Subject } from "./engine";
import { offer, type Chosen, type Offer } from "./offer";

export class LayoutField {
  readonly element: HTMLElement;
  readonly input: HTMLTextAreaElement;
  private readonly back: HTMLElement;
  private readonly layers: HTMLElement;
  private readonly error: HTMLElement;
  private readonly noted = h("p", { class: "hint reading-note" });
  private readonly choices = h("div", { class: "offer", role: "group" });
  /// What was offered; it stays while one of it is shown.
  private offered: Offer | null = null;

  /// `choose` receives what was chosen of an offer; without it there are none.
  constructor(label: string, value: string, change: (text: string) => void, private readonly choose?: (chosen: Chosen) => void) {
    const id = `field-${label.replace(/\W+/g, "-").toLowerCase()}`;
    this.back = h("div", { class: "backdrop", "aria-hidden": "true" });
    this.error = h("p", { class: "error", id: `${id}-error`, role: "alert" });
    this.error.hidden = this.noted.hidden = this.choices.hidden = true;
    this.input = h("textarea", {
      id, rows: 1, spellcheck: "false", autocomplete: "off", autocapitalize: "off",
      "aria-describedby": `${id}-error`,
      oninput: () => {
        this.grow();
        change(this.input.value);
      },
      onkeydown: (e: KeyboardEvent) => {
        // A layout is one line; Enter means done. Modules are pasted, and have lines.
        if (e.key === "Enter" && !e.shiftKey) {
          e.preventDefault();
          this.input.blur();
        }
      },
      onscroll: () => {
        this.back.scrollTop = this.input.scrollTop;
      },
    });
    this.input.value = value;
    this.layers = h("div", { class: "layers" }, this.back, this.input);
    this.element = h("div", { class: "layout-field" },
      h("label", { for: id }, label), this.layers, this.error, this.noted, this.choices);
    new ResizeObserver(() => requestAnimationFrame(() => this.grow())).observe(this.element);
  }

  set(value: string): void {
    if (this.input.value !== value) this.input.value = value;
    this.grow();
  }

  /// Says which reading was taken.
  note(text: string | null): void {
    this.noted.hidden = text === null;
    this.noted.textContent = text ?? "";
  }

  /// Underlines what a fault is about; nothing is wrong without one. Answers what the reader is asked
  /// instead, where that is so.
  fault(fault: Fault | null, subject?: Subject): string | null {
    const text = this.input.value;
    const found = fault && this.choose && subject ? offer(text, fault, subject) : null;
    if (found || fault || !this.offered?.has(text)) this.offered = found;
    const asked = found?.question ? found.heading : null;
    // An offer that is a question has no error beside it; one that helps with an error does.
    const shown = asked ? null : (found?.fault ?? fault);
    this.showOffer(text);
    this.error.hidden = shown === null;
    this.input.setAttribute("aria-invalid", String(shown !== null));
    if (shown) this.note(null);
    if (!shown) {
      fill(this.back);
      return asked;
    }
    // The engine gives the part to underline; the field is known from its place on the page.
    this.error.textContent = shown.message.replace(/^`\w+`: /, "").replace(/ \(at byte \d+: (.*?)\)(;|$)/s, ": $1$2");
    const span = shown.witness?.span;
    if (!span) {
      fill(this.back, h("span", { class: "wrong whole" }, text));
      return asked;
    }
    const [start, end] = [unit(text, span[0]), unit(text, span[1])];
    const marked = text.slice(start, end);
    fill(this.back, text.slice(0, start),
      h("span", { class: "wrong", "data-span": `${start}-${end}` }, marked === "" ? "\u00a0" : marked), text.slice(end));
    this.back.scrollTop = this.input.scrollTop;
    return asked;
  }

  private showOffer(text: string): void {
    this.choices.hidden = !this.offered?.choices.length;
    if (!this.offered?.choices.length) {
      fill(this.choices);
      return;
    }
    const { title, choices, remarks } = this.offered;
    this.choices.setAttribute("aria-label", title);
    fill(this.choices, h("p", { class: "offer-title" }, title),
      h("ul", {}, ...choices.map((c) => h("li", { class: "choice", "data-choice": c.name },
        h("span", { class: "choice-name" }, c.name),
        c.text ? h("code", {}, c.text) : null,
        h("span", { class: "choice-ways" }, ...c.ways.map((way) => h("button", {
          type: "button", class: "mode", "data-way": way.label,
          "aria-pressed": String(way.chosen.layout === text), "aria-label": `${c.name}: ${way.label}`,
          onclick: () => this.choose?.(way.chosen),
        }, way.label)))))),
      ...remarks.map((r) => h("p", { class: "hint" }, r)));
  }

  private grow(): void {
    this.input.style.height = "auto";
    const tall = this.input.scrollHeight;
    this.layers.classList.toggle("long", tall > TALLEST);
    this.input.style.height = `${Math.min(tall, TALLEST)}px`;
  }
}

/// Pixels; a longer text scrolls.
const TALLEST = 280;

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
