/// The same layout in other notations, each with a button that copies it, and what the layout does in words.

import { fill, h, say } from "./dom";
import { named, tryAsk, type Subject } from "./engine";
import { plain } from "./offer";

interface Conversion { notation: string; title: string; relation: "equal" | "refined" | "not_expressible"; text?: string; shape?: number[]; reason?: string }
interface Conversions { notation: string; shape: number[]; conversions: Conversion[] }

/// Every notation, and its title.
let known: [name: string, title: string][] | null = null;
export function notationNames(): [name: string, title: string][] {
  known ??= (tryAsk<Conversions>("conversions", { layout: "S[1]" })?.conversions ?? []).map((c) => [c.notation, plain(c.title).split(":")[0]!]);
  return known;
}

/// The languages of the engine's index functions. PyTorch takes the Python one: its operators act on tensors too.
const LANGUAGES = [["cuda", "CUDA C++"], ["c", "C"], ["python", "Python"]] as const;

/// Milliseconds that the texts of one layout may take before the reader is asked.
const PATIENCE = 3000;

export class Notations {
  readonly element = h("section", { class: "card", "aria-label": "In other notations" });
  private readonly words = h("p", { class: "words" });
  private readonly rows = h("ul", { class: "notations" });
  private readonly refusals = h("ul", { class: "notations" });
  private readonly summary = h("summary");
  private readonly without = h("details", {}, this.summary, this.refusals);
  private readonly status = h("p", { class: "hint" });
  private readonly code = h("ul", { class: "notations" });
  private shown = "";
  private timer = 0;
  /// Milliseconds that the texts of the layout took, for tests; -1 until the answer arrives.
  took = -1;

  /// `open` shows a text in the layout view.
  constructor(private readonly open: (layout: string, shape: number[]) => void) {
    this.element.append(h("h3", {}, "In words"), this.words, h("h3", {}, "In other notations"), this.rows, this.status, this.without,
      h("h3", {}, "As code"), this.code);
  }

  /// Shows a layout soon: first the drawing, then this, and a letter that is typed meanwhile comes first too.
  show(subject: Subject, notation: string): void {
    const key = JSON.stringify([named(subject), subject.shape, subject.dtype]);
    if (key === this.shown) return;
    this.shown = key;
    this.took = -1;
    clearTimeout(this.timer);
    this.element.classList.add("waiting");
    requestAnimationFrame(() => {
      if (key !== this.shown) return;
      clearTimeout(this.timer);
      this.timer = window.setTimeout(() => this.begin(subject, notation), 80);
    });
  }

  /// Forgets what was shown.
  clear(): void {
    this.shown = "";
    clearTimeout(this.timer);
  }

  private begin(subject: Subject, own: string): void {
    const fields = { ...named(subject), ...(subject.shape ? { shape: subject.shape } : {}), ...(subject.dtype ? { dtype: subject.dtype } : {}) };
    const words = tryAsk<{ words: string[] }>("explain", fields)?.words;
    fill(this.words, words?.length ? words.join(" ") : "It has too many places to say it in words.");
    this.status.hidden = false;
    this.drawCode(fields);
    this.next(fields, notationNames().filter(([n]) => n !== own), [], 0, PATIENCE);
  }

  /// One notation at a time: a text that takes long to find keeps nothing else waiting.
  private next(fields: object, left: [string, string][], found: Conversion[], spent: number, patience: number): void {
    const before = performance.now();
    const until = before + 8;
    while (left.length && performance.now() < until) {
      const [notation, title] = left[0]!;
      left = left.slice(1);
      const one = tryAsk<Conversions>("conversions", { ...fields, to: notation })?.conversions[0];
      found = [...found, one ?? { notation, title, relation: "not_expressible", reason: "to decide it exactly would take too long" }];
    }
    spent += performance.now() - before;
    this.element.classList.remove("waiting");
    this.draw(found);
    if (left.length === 0) {
      this.status.hidden = true;
      this.took = spent;
    } else if (spent > patience) {
      fill(this.status, `${left.length} more take long. `, h("button", { type: "button", class: "quiet", onclick: () => this.next(fields, left, found, spent, Infinity) }, "Find them"));
    } else {
      this.status.textContent = "Looking for more…";
      this.timer = window.setTimeout(() => this.next(fields, left, found, spent, patience), 0);
    }
  }

  private draw(found: Conversion[]): void {
    const good = found.filter((c) => c.text !== undefined);
    // What is the same shape comes first.
    fill(this.rows, ...good.filter((c) => c.relation === "equal").map((c) => this.row(c)), ...good.filter((c) => c.relation !== "equal").map((c) => this.row(c)));
    const reasons = new Map<string, string[]>();
    for (const c of found) {
      if (c.text !== undefined) continue;
      const reason = c.reason ?? "";
      reasons.set(reason, [...(reasons.get(reason) ?? []), name(c.notation)]);
    }
    const count = found.length - good.length;
    this.without.hidden = count === 0;
    this.summary.textContent = `No text in ${count} other ${count === 1 ? "notation" : "notations"}, and why`;
    fill(this.refusals, ...[...reasons].map(([reason, names]) => h("li", {}, h("b", {}, names.join(", ")), h("span", { class: "dim" }, reason))));
  }

  /// The place of an element as functions to paste into a program.
  private drawCode(fields: Subject | object): void {
    const { dtype: _, ...own } = fields as Subject;
    const rows = LANGUAGES.map(([language, label]) => {
      const code = tryAsk<{ code: string }>("index_code", { ...own, language })?.code;
      return code === undefined ? null : h("li", { "data-code": language }, h("b", {}, label), h("pre", { class: "text code" }, code),
        h("button", { type: "button", class: "quiet", "aria-label": `Copy the code in ${label}`, onclick: (e: MouseEvent) => void copy(code, e.currentTarget as HTMLElement) }, "Copy"));
    });
    fill(this.code, ...rows);
  }

  private row(c: Conversion): HTMLElement {
    const text = c.text!;
    const split = c.relation === "refined" ? h("span", { class: "dim split", title: `For the shape as it is there is no text: ${c.reason ?? ""}` }, `over ${c.shape!.join(" × ")}: the same elements in the same order, with dimensions split`) : null;
    const label = name(c.notation);
    return h("li", { "data-notation": c.notation },
      h("b", { title: plain(c.title) }, label),
      h("div", { class: "text" }, h("code", {}, text), split),
      h("button", { type: "button", class: "quiet", title: `Copy the text for ${label}`, "aria-label": `Copy the text for ${label}`, onclick: (e: MouseEvent) => void copy(text, e.currentTarget as HTMLElement) }, "Copy"),
      h("button", { type: "button", class: "quiet", title: `Show the text for ${label}`, "aria-label": `Show the text for ${label}`, onclick: () => this.open(text, c.shape ?? []) }, "Open"));
  }
}

/// A notation for people.
function name(notation: string): string {
  return notationNames().find(([n]) => n === notation)?.[1] ?? notation;
}

/// Copies a text; the button confirms it for a moment.
export async function copy(text: string, button: HTMLElement): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    say("The text is copied.");
  } catch {
    button.textContent = "Select it";
    say("The browser does not let this page copy; select the text instead.");
  }
  setTimeout(() => {
    button.textContent = "Copy";
  }, 1600);
}
