/// The presets, each with a small picture of itself.

import { ask, paint, tryAsk, PADDING, type Preset, type Sheets, type Subject } from "./engine";
import { h } from "./dom";
import { isDark, palette } from "./theme";

const GROUPS: [title: string, test: RegExp][] = [
  ["Shared memory", /^smem/],
  ["Tensor cores", /^(mma|wgmma|two-warps)/],
  ["Tensor memory", /^(tcgen05|tmem|sf-)/],
  ["Spyre sticks", /^spyre/],
  ["Device meshes", /^mesh/],
  ["Trainium", /^trainium/],
  ["First steps", /^demo/],
];

export class Gallery {
  private readonly buttons: [HTMLButtonElement, Preset, HTMLCanvasElement][] = [];
  readonly presets: Preset[];

  constructor(target: HTMLElement, open: (preset: Preset) => void) {
    this.presets = ask<{ presets: Preset[] }>("presets", {}).presets;
    const rest = new Set(this.presets);
    const groups: [string, Preset[]][] = GROUPS.map(([title, test]) =>
      [title, this.presets.filter((p) => test.test(p.name) && rest.delete(p))]);
    groups.push(["Others", [...rest]]);
    for (const [title, list] of groups) {
      if (list.length === 0) continue;
      const items = list.map((preset) => {
        const canvas = h("canvas", { width: 88, height: 56, "aria-hidden": "true" });
        const button = h("button", {
          type: "button", class: "preset", title: `${preset.title}\n${preset.layout}`, "data-preset": preset.name,
          onclick: () => open(preset),
        }, canvas, h("span", { class: "preset-name" }, preset.name), h("span", { class: "preset-title" }, preset.title));
        this.buttons.push([button, preset, canvas]);
        return h("li", {}, button);
      });
      target.append(h("section", {}, h("h2", {}, title), h("ul", {}, ...items)));
    }
    // Pictures after the first paint: the page itself comes first.
    this.paintLater(0);
  }

  themed(): void {
    this.paintLater(0);
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
  // At most as many cells as can be told apart, of the aspect of the picture.
  const cols = Math.min(sheet.cols, 32);
  const rows = Math.min(sheet.rows, Math.max(1, Math.round((cols * canvas.height) / canvas.width)), 20);
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
