/// Drawings to keep: the engine's SVG, and what is on the screen as PNG.

import { h } from "./dom";
import { tryAsk } from "./engine";
import type { LayoutView } from "./layout-view";

function save(name: string, blob: Blob): void {
  const url = URL.createObjectURL(blob);
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/// The scene of the layout, as `zellige show --svg` writes it.
export function exportSvg(view: LayoutView): void {
  const found = tryAsk<{ svg: string }>("draw", { ...view.current, max_cells: 4096 });
  if (found) save("layout.svg", new Blob([found.svg], { type: "image/svg+xml" }));
}

/// The drawings as they are seen, one above the other.
export async function exportPng(view: LayoutView): Promise<void> {
  const pictures = view.pictures().map(([, canvas]) => canvas);
  const gap = 16;
  const canvas = h("canvas", {
    width: Math.max(...pictures.map((p) => p.width)) + 2 * gap,
    height: pictures.reduce((sum, p) => sum + p.height + gap, gap),
  });
  const context = canvas.getContext("2d")!;
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--surface");
  context.fillRect(0, 0, canvas.width, canvas.height);
  let y = gap;
  for (const picture of pictures) {
    context.drawImage(picture, gap, y);
    y += picture.height + gap;
  }
  const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
  if (blob) save("layout.png", blob);
}
