"use strict";
// Sorting and filtering of tables that are whole without it.
(() => {
  const value = (row, column) => {
    const cell = row.cells[column];
    const kept = cell.dataset.v;
    if (kept === undefined) return cell.textContent.trim().toLowerCase();
    return kept === "" ? null : Number(kept);
  };
  function sort(table, column, descending) {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row, place) => ({ row, place, key: value(row, column) }));
    rows.sort((a, b) => {
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null) || a.place - b.place; // unknown last
      const order = typeof a.key === "number" && typeof b.key === "number" ? a.key - b.key : String(a.key).localeCompare(String(b.key));
      return (descending ? -order : order) || a.place - b.place;
    });
    body.append(...rows.map((one) => one.row));
  }
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const now = head.getAttribute("aria-sort");
      const moreFirst = head.classList.contains("number") && !head.dataset.less && column > 0;
      const descending = now ? now === "ascending" : moreFirst;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      sort(table, column, descending);
    }));
  }
  const table = document.querySelector("table.filtered");
  if (!table) return;
  const [find, kind, fresh, count] = ["find", "kind", "fresh", "count"].map((id) => document.getElementById(id));
  function filter() {
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      const name = row.querySelector("th").textContent.toLowerCase();
      const ok = name.includes(find.value.toLowerCase()) && (!kind.value || row.dataset.kind === kind.value) && !(fresh.checked && row.dataset.stale);
      row.hidden = !ok;
      shown += ok;
    }
    count.textContent = `${shown} of ${table.tBodies[0].rows.length} entries`;
  }
  for (const control of [find, kind, fresh]) control.addEventListener("input", filter);
  filter();
})();
