/// Drawings of one tensor in several layouts: an element that is pointed at in one of them is outlined in all.

import { h, say } from "./dom";
import { tryAsk, type Inspected, type Sheets, type Side, type Spot, type Subject } from "./engine";
import { sentence } from "./formula";
import type { Hit } from "./grid/geometry";
import { Grid, type Mark } from "./grid/grid";
import { Links } from "./links";

/// Elements of one place that are followed. A broadcast place may hold all elements of the tensor.
const MOST_FOLLOWED = 16;

/// One of the drawings: a side of a layout.
interface Member {
  grid: Grid;
  side: Side;
  /// What it draws; none while there is nothing to draw.
  subject: Subject | null;
  marks: Mark[];
}

export class LinkedGrids {
  /// The drawings, side by side, with the curves over them.
  readonly element = h("div", { class: "pair" });
  /// What is pointed at or picked, in words.
  readonly caption = h("p", { class: "hint caption" });
  private readonly links = new Links();
  private readonly members: Member[] = [];
  private hovered: number[][] = [];
  private picked: number[][] = [];
  /// An element that the view itself shows; curves lead from it while nothing is pointed at.
  private followed: number[] | null = null;

  /// `pick` hears of the element that was clicked, `3,5`, or of an empty text when it is clicked again.
  constructor(private readonly pick: (coord: string) => void) {
    this.element.append(this.links.element);
    addEventListener("scroll", () => this.connect(), { passive: true });
    addEventListener("resize", () => this.connect());
  }

  /// Adds a drawing; its number names it from now on.
  add(name: string, side: Side, most: number, role = ""): number {
    const number = this.members.length;
    const grid = new Grid(name, {
      hover: (_, hit) => this.hover(number, hit),
      pick: (_, hit) => this.choose(number, hit),
      drawn: () => this.connect(),
    }, most, role);
    this.members.push({ grid, side, subject: null, marks: [] });
    this.element.insertBefore(grid.element, this.links.element);
    return number;
  }

  grid(number: number): Grid {
    return this.members[number]!.grid;
  }

  /// Draws a layout in one of the drawings, or hides it where there is nothing to draw.
  show(number: number, subject: Subject | null, info: Sheets | null, only: number | null = null): void {
    const member = this.members[number]!;
    const drawn = subject && info?.sheets.some((s) => s.side === member.side);
    member.subject = drawn ? subject : null;
    member.grid.element.hidden = !drawn;
    if (drawn) member.grid.show(subject, info!, member.side, only);
    this.hovered = [];
    this.mark();
  }

  /// Marks of a drawing beside those of the pointer.
  setMarks(number: number, marks: Mark[]): void {
    this.members[number]!.marks = marks;
    this.mark();
  }

  /// Keeps an element outlined, `3,5`; none for an empty list.
  setPicked(coord: number[] | null): void {
    const next = coord ? [coord] : [];
    if (JSON.stringify(next) === JSON.stringify(this.picked)) return;
    this.picked = next;
    this.mark();
  }

  /// Draws the curves of an element while nothing is pointed at.
  follow(coord: number[] | null): void {
    this.followed = coord;
    this.connect();
  }

  themed(): void {
    for (const { grid } of this.members) grid.themed();
  }

  pictures(): HTMLCanvasElement[] {
    return this.members.filter((m) => m.subject && m.grid.element.isConnected).map((m) => m.grid.picture);
  }

  /// Where an element is drawn in one of the drawings.
  spots(number: number, coord: number[]): Spot[] {
    const { subject, side } = this.members[number]!;
    const found = subject && tryAsk<Inspected>("inspect", { ...subject, coord });
    return found?.elements[0]?.spots[side] ?? [];
  }

  /// What is drawn at a cell.
  inspect(number: number, hit: Hit): Inspected | null {
    const { subject, side } = this.members[number]!;
    return subject && tryAsk<Inspected>("inspect", { ...subject, side, box: hit.box, row: hit.row, col: hit.col });
  }

  private hover(number: number, hit: Hit | null): void {
    const found = hit && this.inspect(number, hit);
    this.hovered = found?.elements.slice(0, MOST_FOLLOWED).map((e) => e.coord) ?? [];
    this.caption.textContent = found ? sentence(found) : "";
    this.mark();
    if (found && document.activeElement?.classList.contains("scroller")) say(sentence(found));
  }

  private choose(number: number, hit: Hit): void {
    const found = this.inspect(number, hit);
    const coord = found?.elements[0]?.coord;
    const again = coord !== undefined && this.picked[0]?.join() === coord.join();
    this.pick(coord && !again ? coord.join(",") : "");
    if (found) say(again ? "Nothing is picked." : sentence(found));
    if (!coord || again) return;
    // The element is brought into view in the other drawings.
    this.members.forEach((member, other) => {
      const spot = other === number ? undefined : this.spots(other, coord)[0];
      if (spot) member.grid.reveal(spot);
    });
  }

  private mark(): void {
    this.members.forEach((member, number) => {
      const marks = [...member.marks];
      for (const [list, style] of [[this.picked, "pick"], [this.hovered, "hover"]] as const) {
        for (const coord of list) for (const spot of this.spots(number, coord)) marks.push({ side: member.side, spot, style });
      }
      if (member.subject) member.grid.mark(marks);
    });
    this.connect();
  }

  /// Curves from the element in the first drawing to its places in the others.
  private connect(): void {
    const coord = this.hovered[0] ?? this.followed ?? this.picked[0];
    if (!coord || !this.element.isConnected) {
      this.links.clear();
      return;
    }
    const seen = this.members.map((member, number) => (member.subject ? this.spots(number, coord).map((s) => member.grid.onScreen(s)).filter((r) => r !== null) : []));
    const first = seen.findIndex((list) => list.length > 0);
    const start = seen[first]?.[0];
    this.links.draw(this.element, start ? seen.slice(first + 1).flatMap((list) => list.map((end) => [start, end] as [typeof start, typeof end])) : []);
  }
}
