"use strict";
(() => {
  const root = document.documentElement;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  // A box lights up with what it reads and what reads it.
  for (const flow of document.querySelectorAll("svg.flow")) {
    const edges = [...flow.querySelectorAll(".edge")];
    const boxes = new Map([...flow.querySelectorAll(".box")].map((b) => [b.dataset.box, b]));
    const pick = (box) => {
      flow.classList.toggle("picked", Boolean(box));
      for (const b of boxes.values()) b.classList.toggle("near", b === box);
      for (const e of edges) {
        const near = box && (e.dataset.from === box.dataset.box || e.dataset.to === box.dataset.box);
        e.classList.toggle("near", Boolean(near));
        if (near) for (const end of [e.dataset.from, e.dataset.to]) boxes.get(end)?.classList.add("near");
      }
    };
    for (const box of boxes.values()) {
      box.addEventListener("mouseenter", () => pick(box));
      box.addEventListener("mouseleave", () => pick(null));
    }
  }
  for (const table of document.querySelectorAll("table")) {
    table.querySelectorAll("th").forEach((th, column) => {
      let down = true;
      th.addEventListener("click", () => {
        const body = table.tBodies[0];
        const key = (row) => {
          const cell = row.cells[column];
          return cell.dataset.key === undefined ? cell.textContent : Number(cell.dataset.key);
        };
        const rows = [...body.rows].sort((a, b) => {
          const [x, y] = [key(a), key(b)];
          const order = typeof x === "number" ? x - y : x.localeCompare(y);
          return down ? -order : order;
        });
        down = !down;
        body.append(...rows);
      });
    });
  }
  for (const search of document.querySelectorAll(".search")) {
    search.addEventListener("input", () => {
      const word = search.value.toLowerCase();
      for (const row of search.closest("section").querySelectorAll("tbody tr")) {
        row.hidden = word !== "" && !row.textContent.toLowerCase().includes(word);
      }
    });
  }
})();
