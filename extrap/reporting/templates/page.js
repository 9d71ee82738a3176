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
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0], original = [...body.rows];
  if (original.length < 2) continue;
  const heads = [...table.tHead.rows[0].cells];
  const key = (row, column) => {
    const cell = row.cells[column];
    const text = cell?.textContent.trim() ?? "";
    return [cell?.dataset.value ?? (/^-?\d+(\.\d+)?$/.test(text) ? text : ""), text];
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
const save = (name, parts, type) => {
  const link = document.createElement("a");
  link.download = name;
  link.href = URL.createObjectURL(new Blob(parts, { type }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};
const buttons = (after, entries) => {
  const line = document.createElement("p");
  line.className = "save";
  for (const [label, name, run] of entries) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.setAttribute("aria-label", `${label}: ${name}`);
    button.addEventListener("click", run);
    line.append(button);
  }
  after.after(line);
};
// the drawing as a document of its own, in the colours of a light page
const standalone = (svg) => {
  const copy = svg.cloneNode(true);
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const style = "background:#fff;font-family:system-ui,sans-serif";
  for (const [key, value] of Object.entries({ width, height, style })) copy.setAttribute(key, value);
  const text = new XMLSerializer().serializeToString(copy);
  return { text: text.replaceAll(/var\([^,]+,(#\w+)\)/g, "$1"), width, height };
};
const png = async (svg, name) => {
  const { text, width, height } = standalone(svg), image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = 2 * width;
  canvas.height = 2 * height;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((blob) => save(name, [blob], "image/png"));
};
for (const figure of document.querySelectorAll("figure")) {
  const svg = figure.querySelector("svg"), name = figure.dataset.name;
  const other = name.replace(/svg$/, "png");
  buttons(figure.querySelector(".behind > summary"), [
    ["Save as SVG", name, () => save(name, [standalone(svg).text], "image/svg+xml")],
    ["Save as PNG", other, () => png(svg, other)],
  ]);
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
