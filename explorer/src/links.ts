/// Curves from an element to its places, over both drawings.

import { s } from "./dom";
import type { Rect } from "./grid/geometry";

export class Links {
  readonly element: SVGElement;

  constructor() {
    this.element = s("svg", { class: "links", "aria-hidden": "true" });
  }

  /// Curves between rectangles of the window, drawn inside `host`.
  draw(host: HTMLElement, pairs: [from: Rect, to: Rect][]): void {
    const base = host.getBoundingClientRect();
    this.element.replaceChildren(...pairs.slice(0, 16).map(([a, b]) => {
      const stacked = Math.abs(b.y - a.y) > Math.abs(b.x - a.x) && (b.y > a.y + a.height || a.y > b.y + b.height);
      const from = stacked
        ? [a.x + a.width / 2 - base.x, (b.y > a.y ? a.y + a.height : a.y) - base.y]
        : [(b.x > a.x ? a.x + a.width : a.x) - base.x, a.y + a.height / 2 - base.y];
      const to = stacked
        ? [b.x + b.width / 2 - base.x, (b.y > a.y ? b.y : b.y + b.height) - base.y]
        : [(b.x > a.x ? b.x : b.x + b.width) - base.x, b.y + b.height / 2 - base.y];
      const [x1, y1, x2, y2] = [from[0]!, from[1]!, to[0]!, to[1]!];
      const [cx, cy] = stacked ? [0, (y2 - y1) / 2] : [(x2 - x1) / 2, 0];
      return s("path", { d: `M${x1} ${y1}C${x1 + cx} ${y1 + cy} ${x2 - cx} ${y2 - cy} ${x2} ${y2}` });
    }));
  }

  clear(): void {
    this.element.replaceChildren();
  }
}
