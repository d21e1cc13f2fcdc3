"use strict";
const { report, drawing, sentences } = JSON.parse(document.getElementById("data").textContent);
// A reshape that needs no kernel is no block here; `drawing` counts without them, too.
const blocks = report.blocks.filter((block) => !block.is_reshape_only);
const byName = new Map(blocks.map((block, index) => [block.name, index]));
// Dark enough for white words.
const COLOURS = { "One-to-One": "#2563eb", "One-to-Many": "#b45309", "Many-to-Many": "#be185d",
  "Reorganize": "#0f766e", "Shuffle": "#7c3aed" };
const OTHER_COLOUR = "#5b6570";
const ROW = 46, BOX_W = 190, BOX_H = 36, STEP_X = 214, STEP_Y = 74;

const byId = (id) => document.getElementById(id);
const colour = (block) => COLOURS[block.mapping_type] || OTHER_COLOUR;
const number = (value) => value.toLocaleString("en-US");
function bytes(value) {
  for (const unit of ["B", "KiB", "MiB"]) {
    if (value < 1024) return (unit === "B" ? value : value.toFixed(1)) + " " + unit;
    value /= 1024;
  }
  return value.toFixed(1) + " GiB";
}
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}
function time(seconds) {
  for (const [unit, scale] of [["s", 1], ["ms", 1e3]]) {
    if (seconds * scale >= 1) return (seconds * scale).toPrecision(3) + " " + unit;
  }
  return (seconds * 1e6).toPrecision(3) + " µs";
}
const percent = (share) => (100 * share).toFixed(1) + " %";
const count = (length, word) => `${number(length)} ${word}${length === 1 ? "" : "s"}`;
// A long name without its middle: the end tells it from the others.
function shortened(name, most = 36) {
  if (name.length <= most) return name;
  const parts = name.split("_"), tail = parts.slice(-3).join("_");
  let head = parts[0];
  for (const part of parts.slice(1, -3)) {
    if (head.length + part.length + tail.length + 2 > most) break;
    head += "_" + part;
  }
  return head + "…" + tail;
}
// Lines may end inside of a long name where a part of it ends.
function breakable(text) {
  const parts = text.split(/(?<=[/_.#:])(?=[^/_.#:\s])/);
  return parts.flatMap((part, index) => (index ? [document.createElement("wbr"), part] : [part]));
}
document.querySelectorAll("td.bytes").forEach((cell) => { cell.textContent = bytes(Number(cell.dataset.bytes)); });
document.querySelectorAll("[data-type]").forEach((swatch) => {
  swatch.style.background = COLOURS[swatch.dataset.type] || OTHER_COLOUR;
});

// ---- the numbers
const s = report.summary;
const saved = s.intermediate_bytes_unfused - s.intermediate_bytes;
for (const [label, value, note] of [
  ["operators", number(s.operators), "after rewriting"],
  ["kernels", number(s.kernels), "unfused " + number(s.kernels_unfused)],
  ["intermediate results", bytes(s.intermediate_bytes), "unfused " + bytes(s.intermediate_bytes_unfused)],
  ["never written", bytes(saved), s.intermediate_bytes_unfused
    ? Math.round((100 * saved) / s.intermediate_bytes_unfused) + " % of intermediate results" : ""],
  ["arithmetic", (s.flops / 1e9).toFixed(2), "GFLOP"],
  ...(typeof report.run_seconds === "number" ? [["one run", time(report.run_seconds),
    "kernels alone " + time(blocks.reduce((sum, block) => sum + block.seconds, 0))]] : []),
]) byId("tiles").append(make("div", { class: "tile" }, label, make("b", {}, value), make("span", { class: "quiet" }, note)));

// ---- edges at the border of each block, and the text that search looks through
const border = blocks.map(() => []);
for (const edge of drawing.border || []) {
  for (const name of [edge.from, edge.to]) {
    if (byName.has(name)) border[byName.get(name)].push(edge);
  }
}
const haystack = blocks.map((block, index) => [block.name, ...block.operators, ...block.nodes, ...(block.labels || []), block.mapping_type,
  block.template || "", ...border[index].map((edge) => edge.reason)].join("\n").toLowerCase());

// ---- equal blocks are one row; where times are known, the slowest come first
const isMeasured = blocks.length > 0 && blocks.every((block) => typeof block.seconds === "number");
const groups = (drawing.groups || blocks.map((_, index) => [index])).map((members) => ({
  members, first: members[0], seconds: members.reduce((sum, index) => sum + (blocks[index].seconds || 0), 0),
  share: members.reduce((sum, index) => sum + (blocks[index].share || 0), 0) }));
groups.sort((a, b) => b.seconds - a.seconds || a.first - b.first);
const groupOf = new Array(blocks.length);
for (const group of groups) for (const index of group.members) groupOf[index] = group;

// ---- which blocks are shown
const types = [...new Set(blocks.map((block) => block.mapping_type))];
const hidden = new Set();
let shown = groups;
let isShown = new Uint8Array(blocks.length).fill(1);
let selected = -1;
function filter() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (index) => !hidden.has(blocks[index].mapping_type) && words.every((word) => haystack[index].includes(word));
  isShown = Uint8Array.from(blocks, (_, index) => matches(index));
  shown = groups.filter((group) => group.members.some((index) => isShown[index]));
  const found = isShown.reduce((sum, each) => sum + each, 0);
  byId("count").textContent = `${number(found)} of ${count(blocks.length, "block")}, ${number(shown.length)} different`;
  byId("spacer").style.height = shown.length * ROW + "px";
  drawList(true);
  drawSoon();
}
byId("search").addEventListener("input", filter);
for (const type of types) {
  const swatch = make("i", { class: "swatch", style: "background:" + (COLOURS[type] || OTHER_COLOUR) });
  byId("chips").append(make("button", { class: "chip", "aria-pressed": "true", title: sentences.types[type] || type, onclick: (event) => {
    if (!hidden.delete(type)) hidden.add(type);
    event.currentTarget.setAttribute("aria-pressed", String(!hidden.has(type)));
    filter();
  } }, swatch, type));
}

// ---- the list: only the rows on screen exist
const list = byId("list");
const rows = new Map();
function drawList(anew) {
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
  const last = Math.min(shown.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 4);
  for (const [place, row] of rows) {
    if (anew || place < first || place >= last) { row.remove(); rows.delete(place); }
  }
  for (let place = first; place < last; place++) {
    if (rows.has(place)) continue;
    const group = shown[place], index = group.first, block = blocks[index];
    const many = group.members.length > 1;
    const facts = [count(block.operators.length, "operator"), isMeasured ? `${percent(group.share)} of time`
      : `saves ${bytes(block.bytes_saved)}${many ? " each" : ""}`];
    const row = make("div", { class: "row", role: "option", title: block.name, "aria-selected": String(groupOf[selected] === group),
      style: `top:${place * ROW}px;border-left-color:${colour(block)}`, onclick: () => select(index, true) },
      make("div", {}, shortened(block.name)), make("div", { class: "quiet" },
        ...(many ? [make("b", {}, "×" + group.members.length), " · "] : []), facts.join(" · ")),
      ...(group.share ? [make("i", { class: "time", style: `width:${100 * group.share}%` })] : []));
    rows.set(place, row);
    list.append(row);
  }
}
list.addEventListener("scroll", () => drawList(false));
list.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || !shown.length) return;
  event.preventDefault();
  const place = Math.min(shown.length - 1, Math.max(0, shown.indexOf(groupOf[selected]) + step));
  list.scrollTop = Math.min(Math.max(list.scrollTop, (place + 1) * ROW - list.clientHeight), place * ROW);
  select(shown[place].first, true);
});

// ---- one block in detail
function codes(title, names) {
  return names.length ? [make("h4", {}, `${title} (${names.length})`),
    make("div", {}, ...names.map((name) => make("code", {}, ...breakable(name))))] : [];
}
// The other blocks that become the same kernel.
function equals(index) {
  const others = groupOf[index].members;
  if (others.length === 1) return [];
  return [make("h4", {}, `Equal blocks (${others.length})`), make("div", {}, ...others.map((other) => other === index
    ? make("code", {}, ...breakable(blocks[other].name))
    : make("button", { class: "link", "data-block": blocks[other].name }, ...breakable(blocks[other].name))))];
}
// Shown only when asked for: one kernel may have thousands of lines.
function generated(block) {
  if (block.tir === null || block.tir === undefined) return [];
  const text = make("pre", { hidden: "" });
  return [make("h4", {}, make("button", { class: "link", onclick: () => {
    text.textContent ||= report.tir[block.tir];
    text.hidden = !text.hidden;
  } }, "Generated TIR")), text];
}
function select(index, centre) {
  selected = index;
  const block = blocks[index];
  const type = [make("div", {}, block.mapping_type), make("div", { class: "quiet" }, sentences.types[block.mapping_type] || "")];
  const facts = [["mapping type", type],
    ...(isMeasured ? [["time", [`${time(block.seconds)}, ${percent(block.share)} of all kernels`]]] : []),
    ["schedule", [block.template || "not known before building"]],
    ...((block.refusals || []).length ? [["passed over", block.refusals.map((each) => make("div", {},
      make("code", {}, each.template), " ", make("span", { class: "quiet" }, each.reason)))]] : []),
    ...(block.fallback_reason ? [["why not a special one", [block.fallback_reason]]] : []),
    ["read", [bytes(block.bytes_in)]], ["written", [bytes(block.bytes_out)]], ["never written", [bytes(block.bytes_saved)]],
    ["arithmetic", [(block.flops / 1e6).toFixed(2) + " MFLOP"]]];
  const edges = border[index].map((edge) => {
    const outgoing = edge.from === block.name;
    const other = outgoing ? edge.to : edge.from;
    return make("tr", {}, make("td", {}, outgoing ? "to " : "from ",
      make("button", { class: "link", "data-block": other }, ...breakable(other))),
      make("td", { title: sentences.reasons[edge.reason] || "" }, make("b", {}, edge.reason), " ", ...breakable(edge.detail)),
      make("td", { class: "number" }, bytes(edge.bytes)));
  });
  byId("detail").replaceChildren(make("h3", {}, ...breakable(block.name)),
    make("table", {}, ...facts.map(([key, value]) => make("tr", {}, make("td", { class: "quiet" }, key), make("td", {}, ...value)))),
    ...generated(block), ...equals(index),
    ...codes("Operators", block.operators), ...codes("Nodes of the model", block.nodes),
    ...(edges.length ? [make("h4", {}, `Edges not fused (${edges.length})`), make("table", { class: "edges" }, ...edges)] : []));
  drawList(true);
  if (centre) centreOn(index);
  drawSoon();
}
document.addEventListener("click", (event) => {
  const { block, search } = event.target.dataset || {};
  if (block !== undefined && byName.has(block)) {
    select(byName.get(block), true);
    byId("graph").scrollIntoView({ block: "nearest" });
  }
  if (search !== undefined) { byId("search").value = search; filter(); byId("search").scrollIntoView({ block: "center" }); }
});

// ---- the graph: a canvas that draws what is on screen
const canvas = byId("canvas"), pen = canvas.getContext("2d");
const place = (positions) => positions.map(([column, layer]) => [column * STEP_X, layer * STEP_Y]);
const operators = drawing.operators;
const operatorNames = blocks.flatMap((block) => block.operators.map((op, index) => [op, (block.labels || [])[index] || ""]));
// After and before fusion: one box a block, or one an operator in the colour of its block.
const VIEWS = {
  blocks: { at: place(drawing.positions), links: drawing.links, owner: (index) => index,
    text: (index) => blocks[index].name },
  operators: operators && { at: place(operators.positions), links: operators.links,
    owner: (index) => operators.owners[index], text: (index) => operatorNames[index].join(" ") },
};
let view = VIEWS.blocks, at = view.at;
const firstBox = (block) => { for (let i = 0; i < at.length; i++) if (view.owner(i) === block) return i; return -1; };
let scale = 1, offsetX = 0, offsetY = 0, waiting = false;
function centreOn(block) {
  const index = firstBox(block);
  if (index < 0) return;
  scale = Math.max(scale, 0.6);
  offsetX = canvas.clientWidth / 2 - at[index][0] * scale;
  offsetY = canvas.clientHeight / 2 - at[index][1] * scale;
}
function fit() {
  if (!at.length) return;
  let [left, right, bottom] = [Infinity, -Infinity, 0];
  for (const [x, y] of at) { left = Math.min(left, x); right = Math.max(right, x); bottom = Math.max(bottom, y); }
  const width = right - left + STEP_X, height = bottom + STEP_Y;
  scale = Math.min(1, canvas.clientWidth / width, canvas.clientHeight / height);
  offsetX = canvas.clientWidth / 2 - ((left + right) / 2) * scale;
  offsetY = STEP_Y / 2 * scale + Math.max(0, (canvas.clientHeight - height * scale) / 2);
  drawSoon();
}
function drawSoon() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; draw(); });
}
function draw() {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
  }
  const style = getComputedStyle(document.body);
  const ink = style.getPropertyValue("--quiet").trim(), mark = style.getPropertyValue("--mark").trim();
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.setTransform(ratio * scale, 0, 0, ratio * scale, ratio * offsetX, ratio * offsetY);
  const left = -offsetX / scale - BOX_W, right = (width - offsetX) / scale + BOX_W;
  const top = -offsetY / scale - BOX_H, bottom = (height - offsetY) / scale + BOX_H;
  for (const [isSelected, tint] of [[false, ink], [true, mark]]) {
    pen.beginPath();
    for (const [from, to] of view.links) {
      if ((view.owner(from) === selected || view.owner(to) === selected) !== isSelected) continue;
      const [x0, y0] = at[from], [x1, y1] = at[to];
      if (Math.max(y0, y1) < top || Math.min(y0, y1) > bottom || Math.max(x0, x1) < left || Math.min(x0, x1) > right) continue;
      const start = y0 + BOX_H / 2, end = y1 - BOX_H / 2, bend = Math.min(40, Math.abs(end - start) / 2);
      pen.moveTo(x0, start);
      pen.bezierCurveTo(x0, start + bend, x1, end - bend, x1, end);
    }
    pen.globalAlpha = isSelected ? 1 : 0.5;
    pen.lineWidth = Math.max(isSelected ? 2 : 1, 0.7 / scale);
    pen.strokeStyle = tint;
    pen.stroke();
  }
  const withText = scale > 0.4;
  pen.font = "12px system-ui, sans-serif";
  pen.textBaseline = "middle";
  for (let index = 0; index < at.length; index++) {
    const [x, y] = at[index];
    if (x < left || x > right || y < top || y > bottom) continue;
    const owner = view.owner(index);
    pen.globalAlpha = isShown[owner] ? 1 : 0.15;
    pen.fillStyle = colour(blocks[owner]);
    pen.fillRect(x - BOX_W / 2, y - BOX_H / 2, BOX_W, BOX_H);
    if (owner === selected) {
      pen.strokeStyle = mark; pen.lineWidth = Math.max(3, 2 / scale);
      pen.strokeRect(x - BOX_W / 2 - 2, y - BOX_H / 2 - 2, BOX_W + 4, BOX_H + 4);
    }
    if (!withText) continue;
    const name = view.text(index), head = 16, tail = 10;
    pen.fillStyle = "#ffffff";
    pen.fillText(name.length > head + tail ? name.slice(0, head) + "…" + name.slice(-tail) : name, x - BOX_W / 2 + 8, y, BOX_W - 16);
  }
  pen.globalAlpha = 1;
}
function hit(event) {
  const area = canvas.getBoundingClientRect();
  const x = (event.clientX - area.left - offsetX) / scale, y = (event.clientY - area.top - offsetY) / scale;
  return at.findIndex(([cx, cy]) => Math.abs(x - cx) <= BOX_W / 2 && Math.abs(y - cy) <= BOX_H / 2);
}
let grip = null;
canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  grip = { x: event.clientX, y: event.clientY, moved: false };
});
canvas.addEventListener("pointermove", (event) => {
  if (!grip) return;
  const dx = event.clientX - grip.x, dy = event.clientY - grip.y;
  if (!grip.moved && Math.hypot(dx, dy) < 4) return;
  offsetX += dx; offsetY += dy;
  grip = { x: event.clientX, y: event.clientY, moved: true };
  drawSoon();
});
canvas.addEventListener("pointerup", (event) => {
  if (grip && !grip.moved) {
    const box = hit(event);
    if (box >= 0) {
      const index = view.owner(box);
      select(index, false);
      const row = shown.indexOf(groupOf[index]);
      if (row >= 0) list.scrollTop = Math.max(0, row * ROW - list.clientHeight / 2);
    }
  }
  grip = null;
});
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const area = canvas.getBoundingClientRect(), x = event.clientX - area.left, y = event.clientY - area.top;
  const next = Math.min(3, Math.max(0.01, scale * Math.exp(-event.deltaY * 0.0015)));
  offsetX = x - ((x - offsetX) * next) / scale;
  offsetY = y - ((y - offsetY) * next) / scale;
  scale = next;
  drawSoon();
}, { passive: false });
function firstView() {
  fit();
  if (scale < 0.4 && selected >= 0) { scale = 0.7; centreOn(selected); drawSoon(); }
}
byId("fit").addEventListener("click", fit);
byId("view").hidden = !VIEWS.operators;
byId("view").addEventListener("click", (event) => {
  view = view === VIEWS.blocks ? VIEWS.operators : VIEWS.blocks;
  at = view.at;
  event.currentTarget.setAttribute("aria-pressed", String(view === VIEWS.operators));
  if (selected >= 0) centreOn(selected); else fit();
  drawSoon();
});
new ResizeObserver(() => { drawList(false); drawSoon(); }).observe(byId("graph"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawSoon);

filter();
if (blocks.length) {
  const largest = blocks.reduce((best, block, index) => (block.operators.length > blocks[best].operators.length ? index : best), 0);
  select(isMeasured ? groups[0].first : largest, false);
}
firstView();
document.documentElement.dataset.ready = "true";
