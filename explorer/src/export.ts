/// Drawings to keep: as SVG, and what is on the screen as PNG.

import { h } from "./dom";
import { tryAsk, type Subject } from "./engine";

/// What a view has to keep: canvases as they are seen, or an SVG.
export interface Drawn { pictures(): HTMLCanvasElement[]; svg(): string | null }

const GAP = 16;

/// Hands a file to the reader.
export function save(name: string, blob: Blob): void {
  const url = URL.createObjectURL(blob);
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/// The scenes of layouts, as `zellige show --svg` writes them, one above the other.
export function scenes(subjects: Subject[]): string | null {
  // A scene has the colours of its own layout.
  const found = subjects.map(({ color_layout: _, ...s }) => tryAsk<{ svg: string }>("draw", { ...s, max_cells: 4096 })?.svg).filter((s) => s !== undefined);
  if (found.length < 2) return found[0] ?? null;
  const parser = new DOMParser();
  const parts = found.map((s) => parser.parseFromString(s, "image/svg+xml").documentElement);
  const size = (e: Element, name: string) => parseFloat(e.getAttribute(name) ?? "0");
  const width = Math.max(...parts.map((p) => size(p, "width")));
  let y = 0;
  const placed = parts.map((p) => {
    p.setAttribute("y", String(y));
    y += size(p, "height") + GAP;
    return new XMLSerializer().serializeToString(p);
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${y - GAP}" viewBox="0 0 ${width} ${y - GAP}">${placed.join("")}</svg>`;
}

const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font", "paint-order", "text-anchor"];

/// An SVG of the page, with the style that the page gives it.
export function styled(picture: SVGElement): string {
  const copy = picture.cloneNode(true) as SVGElement;
  const copies = [copy, ...copy.querySelectorAll<SVGElement>("*")];
  [picture, ...picture.querySelectorAll("*")].forEach((original, i) => {
    const style = getComputedStyle(original);
    for (const name of STYLES) copies[i]!.style.setProperty(name, style.getPropertyValue(name));
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.style.background = getComputedStyle(document.documentElement).getPropertyValue("--surface");
  return new XMLSerializer().serializeToString(copy);
}

/// Saves the drawing as SVG; false where there is none.
export function exportSvg(name: string, drawn: Drawn): boolean {
  const svg = drawn.svg();
  if (svg) save(`${name}.svg`, new Blob([svg], { type: "image/svg+xml" }));
  return svg !== null;
}

/// Saves the drawings as they are seen, one above the other; false where there is none.
export async function exportPng(name: string, drawn: Drawn): Promise<boolean> {
  const seen = drawn.pictures();
  const svg = seen.length ? null : drawn.svg();
  const pictures: (HTMLCanvasElement | HTMLImageElement)[] = svg ? [await image(svg)] : seen;
  if (pictures.length === 0) return false;
  const canvas = h("canvas", {
    width: Math.max(...pictures.map((p) => p.width)) + 2 * GAP,
    height: pictures.reduce((sum, p) => sum + p.height + GAP, GAP),
  });
  const context = canvas.getContext("2d")!;
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--surface");
  context.fillRect(0, 0, canvas.width, canvas.height);
  let y = GAP;
  for (const picture of pictures) {
    context.drawImage(picture, GAP, y, picture.width, picture.height);
    y += picture.height + GAP;
  }
  const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
  if (blob) save(`${name}.png`, blob);
  return blob !== null;
}

/// An SVG as a picture, twice as fine as the screen.
async function image(svg: string): Promise<HTMLImageElement> {
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await picture.decode();
  [picture.width, picture.height] = [2 * picture.naturalWidth, 2 * picture.naturalHeight];
  return picture;
}
