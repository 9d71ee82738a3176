"use strict";
const powers = { M: 1e6, B: 1e9, T: 1e12 };
// words and numbers in turn: lr = 0.00144 → ["lr = ", 0.00144]
const pieces = (text) => {
  const found = text.match(/(?<![\w.])[−-]?\d+(?:\.\d+)?(?:e[−+-]?\d+)?[MBT]?(?![\w.]\w)|\d+|[^\d−-]+|[−-]/gu);
  return (found ?? []).map((piece) => {
    const plain = piece.replaceAll("−", "-").replace(/[MBT]$/, "");
    return /^-?\d/.test(plain) ? Number(plain) * (powers[piece.at(-1)] ?? 1) : piece;
  });
};
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], original = [...body.rows];
  if (original.length < 2) continue;
  const heads = [...table.tHead.rows[0].cells];
  const key = (row, column) => {
    const cell = row.cells[column];
    return cell === undefined ? ["", ""] : [cell.dataset.value ?? "", cell.textContent.trim()];
  };
  const mixed = (s, t) => {
    const [a, b] = [pieces(s), pieces(t)];
    for (let i = 0; i < Math.min(a.length, b.length); i++) {
      const [x, y] = [a[i], b[i]];
      const both = typeof x === "number" && typeof y === "number";
      const order = both ? x - y : String(x).localeCompare(String(y), "en");
      if (order) return order;
    }
    return a.length - b.length;
  };
  const compare = (column, sign) => (a, b) => {
    const [x, s] = key(a, column), [y, t] = key(b, column);
    if (x !== "" && y !== "") return sign * (Number(x) - Number(y));
    if (x !== y && (x === "" || y === "")) return x === "" ? 1 : -1;
    return sign * mixed(s, t);
  };
  const sort = (column) => {
    const was = heads[column].getAttribute("aria-sort");
    const now = was === "ascending" ? "descending" : was === "descending" ? null : "ascending";
    for (const head of heads) head.removeAttribute("aria-sort");
    let rows = original;
    if (now) {
      heads[column].setAttribute("aria-sort", now);
      rows = [...original].sort(compare(column, now === "ascending" ? 1 : -1));
    }
    body.append(...rows);
  };
  heads.forEach((head, column) => {
    if (head.textContent.trim() === "") return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(column));
    head.append(button);
  });
}
const measure = () => {
  for (const box of document.querySelectorAll(".scroll")) {
    if (box.scrollWidth > box.clientWidth || box.clientWidth === 0) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
};
measure();
addEventListener("resize", measure);
document.addEventListener("toggle", measure, true);
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details:not([open])")) {
    details.open = true;
    details.dataset.printed = "";
  }
});
addEventListener("afterprint", () => {
  for (const details of document.querySelectorAll("details[data-printed]")) {
    details.open = false;
    delete details.dataset.printed;
  }
});
