"use strict";
(() => {
  const here = document.getElementById("here");
  let marked = [];

  const label = (cell) => {
    const part = document.createElement("bdi");
    part.textContent = cell.textContent;
    return part;
  };

  const show = (cell) => {
    const table = cell.closest("table");
    const row = cell.parentNode.cells[0];
    const column = table.tHead.rows[0].cells[cell.cellIndex];
    marked.forEach((head) => head.classList.remove("here"));
    marked = [row, column];
    marked.forEach((head) => head.classList.add("here"));
    const value = document.createElement("b");
    value.textContent = cell.textContent;
    here.replaceChildren(table.dataset.row + " ", label(row), " · " + table.dataset.column + " ", label(column), " · ", value);
  };

  const cellOf = (event) => event.target.closest("tbody td");

  document.addEventListener("pointerover", (event) => {
    const cell = cellOf(event);
    if (cell) show(cell);
  });

  const enter = (cell) => {
    const table = cell.closest("table");
    table.querySelectorAll("td[tabindex]").forEach((other) => other.removeAttribute("tabindex"));
    cell.tabIndex = 0;
    cell.focus();
  };

  document.addEventListener("focusin", (event) => {
    const cell = cellOf(event);
    if (cell) show(cell);
  });

  document.addEventListener("click", (event) => {
    const cell = cellOf(event);
    if (cell) enter(cell);
  });

  document.addEventListener("keydown", (event) => {
    const cell = cellOf(event);
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!cell || !step) return;
    const rows = cell.closest("tbody").rows;
    const row = rows[cell.parentNode.rowIndex - 1 + step[0]];
    const next = row && row.cells[cell.cellIndex + step[1]];
    if (next && next.cellIndex > 0) enter(next);
    event.preventDefault();
  });

  // Each table is entered by Tab at its first cell; the arrow keys lead on from there.
  document.querySelectorAll("tbody tr:first-child td:nth-child(2)").forEach((cell) => { cell.tabIndex = 0; });
})();
