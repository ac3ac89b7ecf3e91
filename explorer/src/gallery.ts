/// The presets, each with a small picture of itself.

import { ask, paint, tryAsk, PADDING, type Preset, type Sheets, type Subject } from "./engine";
import { h } from "./dom";
import { isDark, palette } from "./theme";

/// The group that a newcomer sees first.
const FIRST = "First steps";

export class Gallery {
  private readonly buttons: [HTMLButtonElement, Preset, HTMLCanvasElement][] = [];
  private readonly items: [HTMLElement, string][] = [];
  private readonly sections: HTMLDetailsElement[] = [];
  private readonly none = h("p", { class: "hint" }, "No preset has these words.");
  readonly presets: Preset[];

  constructor(target: HTMLElement, open: (preset: Preset) => void) {
    this.presets = ask<{ presets: Preset[] }>("presets", {}).presets;
    target.append(this.search());
    // The engine lists those of a group together.
    const groups = new Map<string, Preset[]>();
    for (const preset of this.presets) groups.set(preset.group, [...(groups.get(preset.group) ?? []), preset]);
    // A newcomer begins at the top; the others keep the engine's order.
    const ordered = [...groups].sort(([a], [b]) => Number(b === FIRST) - Number(a === FIRST));
    for (const [title, list] of ordered) {
      const items = list.map((preset) => {
        const canvas = h("canvas", { width: 88, height: 56, "aria-hidden": "true" });
        const button = h("button", {
          type: "button", class: "preset", title: `${preset.title}\n${preset.layout}`, "data-preset": preset.name,
          onclick: () => open(preset),
        }, canvas, h("span", { class: "preset-name" }, preset.name), h("span", { class: "preset-title" }, preset.title));
        const item = h("li", {}, button);
        this.buttons.push([button, preset, canvas]);
        this.items.push([item, `${title} ${preset.name} ${preset.title} ${preset.layout}`.toLowerCase()]);
        return item;
      });
      const section = h("details", { open: true, "data-group": title }, h("summary", {}, h("h2", {}, title)), h("ul", {}, ...items));
      this.sections.push(section);
      target.append(section);
    }
    target.append(this.none);
    // Pictures after the first paint: the page itself comes first.
    this.paintLater(0);
  }

  themed(): void {
    this.paintLater(0);
  }

  /// A box that leaves the presets whose name, title, group or text has every word.
  private search(): HTMLElement {
    this.none.hidden = true;
    const box = h("input", {
      type: "search", placeholder: "Find a preset", "aria-label": "Find a preset", spellcheck: "false", autocomplete: "off",
      oninput: () => {
        const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
        for (const [item, text] of this.items) item.hidden = !words.every((w) => text.includes(w));
        for (const section of this.sections) {
          section.hidden = section.querySelector("li:not([hidden])") === null;
          if (words.length) section.open = true;
        }
        this.none.hidden = this.sections.some((s) => !s.hidden);
      },
    });
    return h("div", { class: "gallery-search" }, box);
  }

  /// Shows which preset is open.
  current(open: Preset | undefined): void {
    for (const [button, preset] of this.buttons) {
      const is = preset === open;
      if (is !== (button.getAttribute("aria-current") === "true")) button.setAttribute("aria-current", String(is));
    }
  }

  private paintLater(from: number): void {
    setTimeout(() => {
      const until = performance.now() + 8;
      let i = from;
      for (; i < this.buttons.length && performance.now() < until; i++) {
        const [, preset, canvas] = this.buttons[i]!;
        thumbnail(canvas, { layout: preset.layout, shape: preset.shape, dtype: preset.dtype });
      }
      if (i < this.buttons.length) this.paintLater(i);
    }, 0);
  }
}

/// The corner of the tensor, coloured by owner.
export function thumbnail(canvas: HTMLCanvasElement, subject: Subject): void {
  const info = tryAsk<Sheets>("sheets", subject);
  const sheet = info?.sheets.find((s) => s.side === (info.sticks ? "physical" : "logical"));
  const context = canvas.getContext("2d")!;
  context.clearRect(0, 0, canvas.width, canvas.height);
  if (!info || !sheet || sheet.boxes === 0) return;
  // At most as many cells as can be told apart; of a tall tensor not only the first rows.
  const cols = Math.min(sheet.cols, 32);
  const rows = Math.min(sheet.rows, Math.ceil(1.25 * cols), 20);
  const bytes = paint(subject, sheet.side, 0, [0, rows], [0, cols]);
  const dark = isDark();
  const colors = palette();
  const size = Math.min(canvas.width / cols, canvas.height / rows);
  const [left, top] = [(canvas.width - size * cols) / 2, (canvas.height - size * rows) / 2];
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < cols; c++) {
      const byte = bytes[r * cols + c]!;
      const tone = info.tones[byte];
      if (!tone && byte !== PADDING) continue;
      context.fillStyle = tone ? (dark ? tone.dark_fill : tone.fill) : colors.padding;
      const gap = size >= 5 ? 0.6 : 0;
      context.fillRect(left + c * size, top + r * size, Math.max(size - gap, 0.5), Math.max(size - gap, 0.5));
    }
  }
}
