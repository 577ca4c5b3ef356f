// Draws the graph on a canvas. The server says where the nodes are; this moves the eye.
"use strict";

const COLOURS = {
  light: ["#2f7d6f", "#c07f2c", "#5b76b8", "#b0567b", "#7c8f3c", "#8462ad", "#3f94ac", "#a9653f", "#58896a", "#9c5b5b", "#6d7f93"],
  dark: ["#6dbfab", "#dba24d", "#8ea8e6", "#dd8aad", "#aec067", "#b497dc", "#72c0d6", "#d39672", "#8cc09f", "#cf8f8f", "#a3b4c7"],
};
const REST = { light: "#a9a79f", dark: "#75797a" };
const EDGES_IN_MOTION = 6000;
const dark = matchMedia("(prefers-color-scheme: dark)");

function start(canvas) {
  const small = "small" in canvas.dataset;
  const pen = canvas.getContext("2d");
  const stage = canvas.parentElement;
  const tip = stage.querySelector(".tip");
  const said = stage.querySelector(".said");
  const key = stage.querySelector(".key");
  const colourBy = document.querySelector("#graph-colour");
  const box = document.querySelector("#graph-find");
  let graph = null, degree = null, near = null;
  let width = 0, height = 0, scale = 1, left = 0, top = 0;
  let over = -1, picked = -1, found = null, group = -1;
  let frame = 0, settle = 0, isMoving = false, hasMoved = false;

  const count = (number, what) => `${number} ${what}${number === 1 ? "" : "s"}`;
  const say = (text) => { if (said) said.textContent = text; };
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const palette = () => (dark.matches ? COLOURS.dark : COLOURS.light);
  const groups = () => (colourBy?.value === "tag" ? [graph.tag, graph.tags] : [graph.folder, graph.folders]);
  const isMissing = (node) => node >= graph.pages;
  const x = (node) => graph.places[2 * node] / 10 * scale + left;
  const y = (node) => graph.places[2 * node + 1] / 10 * scale + top;
  const radius = (node) => Math.max(1.1, (isMissing(node) ? 2.2 : 2.6 + Math.sqrt(degree[node]) * 0.9) * Math.min(2.2, Math.max(0.32, Math.sqrt(scale))));

  function colour(node) {
    if (isMissing(node)) return null;
    const at = groups()[0][node];
    return palette()[at] ?? (dark.matches ? REST.dark : REST.light);
  }

  // Shows all; of a large graph all but the few nodes that drifted far away.
  function fit() {
    const [across, down] = [0, 1].map((axis) => {
      const sorted = Float64Array.from({ length: graph.ids.length }, (_, node) => graph.places[2 * node + axis]).sort();
      const cut = sorted.length > 1000 ? Math.floor(sorted.length / 500) : 0;
      return [sorted[cut], sorted[sorted.length - 1 - cut]];
    });
    const [x0, x1] = across, [y0, y1] = down;
    if (x0 === undefined) return;
    const room = small ? 18 : 36;
    scale = Math.min((width - 2 * room) / Math.max(1, (x1 - x0) / 10), (height - 2 * room) / Math.max(1, (y1 - y0) / 10), small ? 1.4 : 2.2);
    left = width / 2 - (x0 + x1) / 20 * scale;
    top = height / 2 - (y0 + y1) / 20 * scale;
  }

  function size() {
    const ratio = devicePixelRatio || 1;
    ({ clientWidth: width, clientHeight: height } = canvas);
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (graph && !hasMoved) fit();
    redraw();
  }

  function redraw() {
    if (!frame) frame = requestAnimationFrame(() => { frame = 0; draw(); });
  }

  // While the eye moves fewer edges are drawn; once it rests, all.
  function moved() {
    isMoving = true;
    clearTimeout(settle);
    settle = setTimeout(() => { isMoving = false; redraw(); }, 160);
    redraw();
  }

  function isLit(node) {
    if (found) return found.has(node);
    if (group >= 0) return !isMissing(node) && groups()[0][node] === group;
    const middle = over >= 0 ? over : picked;
    return middle < 0 || node === middle || near[middle].has(node);
  }

  function draw() {
    if (!graph) return;
    pen.clearRect(0, 0, width, height);
    const { links } = graph;
    const middle = over >= 0 ? over : picked;
    const isDim = found !== null || group >= 0 || middle >= 0;
    const count = links.length / 2;
    const step = isMoving ? Math.max(1, Math.ceil(count / EDGES_IN_MOTION)) : 1;
    const off = (a, b, limit) => (a < 0 && b < 0) || (a > limit && b > limit);
    const lines = (wanted, style, alpha, thick) => {
      pen.beginPath();
      for (let at = 0; at < count; at += step) {
        const from = links[2 * at], to = links[2 * at + 1];
        if (!wanted(from, to)) continue;
        const x0 = x(from), x1 = x(to), y0 = y(from), y1 = y(to);
        if (off(x0, x1, width) || off(y0, y1, height)) continue;
        pen.moveTo(x0, y0);
        pen.lineTo(x1, y1);
      }
      pen.strokeStyle = style; pen.globalAlpha = alpha; pen.lineWidth = thick;
      pen.stroke();
    };
    const ink = css("--ink"), bad = css("--bad");
    const faint = Math.max(0.015, Math.min(0.3, 4 / Math.sqrt(count + 1) + Math.min(1, scale) * 0.05));
    lines((from, to) => !isMissing(to), ink, isDim ? faint / 2.5 : faint, 0.7);
    lines((from, to) => isMissing(to), bad, isDim ? faint / 2 : faint * 1.6, 0.7);
    if (middle >= 0 && !found) lines((from, to) => from === middle || to === middle, css("--accent"), 0.75, 1.2);

    // Of one colour at a time: a change of colour is what costs.
    const byColour = new Map();
    for (let node = 0; node < graph.ids.length; node++) {
      const px = x(node), py = y(node);
      if (px < -20 || py < -20 || px > width + 20 || py > height + 20) continue;
      const kind = `${colour(node) ?? "missing"} ${isDim && !isLit(node) ? 0 : 1}`;
      if (!byColour.has(kind)) byColour.set(kind, []);
      byColour.get(kind).push(node);
    }
    const kinds = [...byColour].sort(([one], [other]) => one.slice(-1) - other.slice(-1));
    for (const [kind, nodes] of kinds) {
      const [style, lit] = kind.split(" ");
      pen.globalAlpha = lit === "1" ? 1 : 0.16;
      pen.beginPath();
      for (const node of nodes) {
        const r = radius(node), px = x(node), py = y(node);
        if (r < 1.6 && style !== "missing") pen.rect(px - r, py - r, 2 * r, 2 * r);
        else { pen.moveTo(px + r, py); pen.arc(px, py, r, 0, 2 * Math.PI); }
      }
      if (style === "missing") { pen.strokeStyle = bad; pen.lineWidth = 1.3; pen.stroke(); }
      else { pen.fillStyle = style; pen.fill(); }
    }
    pen.globalAlpha = 1;
    names(isDim);
  }

  // A title as far as it has room; cut between characters as people count them.
  function shortened(title, room) {
    if (pen.measureText(title).width <= room) return title;
    const parts = [...new Intl.Segmenter().segment(title.slice(0, 80))].map((part) => part.segment);
    while (parts.length > 1 && pen.measureText(`${parts.join("")}…`).width > room) parts.pop();
    return `${parts.join("")}…`;
  }

  // The names of the most linked nodes, as long as none covers another.
  function names(isDim) {
    if (isMoving && graph.ids.length > 3000) return;
    const most = small ? 8 : Math.round(width * height / 22000);
    const taken = [];
    pen.font = `${small ? 11 : 12}px ${getComputedStyle(document.body).fontFamily}`;
    pen.textBaseline = "middle";
    const back = css("--card"), ink = css("--ink");
    const middle = over >= 0 ? over : picked;
    let order = graph.byDegree;
    if (isDim) order = [...(middle >= 0 ? [middle] : []), ...order.filter((node) => node !== middle && isLit(node))];
    let written = 0;
    for (const node of order) {
      if (written >= most) break;
      const py = y(node);
      let px = x(node) + radius(node) + 4;
      if (px < 0 || py < 8 || px > width || py > height - 8) continue;
      const title = graph.titles[node];
      const text = shortened(title, Math.min(240, width * 0.7));
      const long = pen.measureText(text).width;
      if (px + long > width - 4) px = x(node) - radius(node) - 4 - long;
      // A name that has room on neither side stays within the picture.
      px = Math.max(4, Math.min(px, width - 4 - long));
      if (taken.some(([a, b, c]) => px < b + 6 && px + long > a - 6 && Math.abs(py - c) < 17)) continue;
      taken.push([px, px + long, py]);
      pen.lineWidth = 3.5; pen.strokeStyle = back; pen.lineJoin = "round";
      pen.strokeText(text, px, py);
      pen.fillStyle = ink;
      pen.fillText(text, px, py);
      written++;
    }
  }

  function tellKey() {
    if (!key) return;
    const [of, labels] = groups();
    const sizes = new Map();
    for (const at of of) sizes.set(at, (sizes.get(at) ?? 0) + 1);
    key.replaceChildren();
    const add = (style, text, at) => {
      const line = document.createElement("li");
      const dot = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      dot.setAttribute("viewBox", "0 0 10 10");
      const circle = document.createElementNS("http://www.w3.org/2000/svg", "circle");
      for (const [name, value] of Object.entries({ cx: 5, cy: 5, r: 4, ...style })) circle.setAttribute(name, value);
      dot.append(circle);
      line.append(dot, document.createTextNode(text));
      if (at >= 0) {
        line.addEventListener("pointerenter", () => { group = at; redraw(); });
        line.addEventListener("pointerleave", () => { group = -1; redraw(); });
      }
      key.append(line);
    };
    labels.slice(0, palette().length).forEach((label, at) => {
      if (sizes.get(at)) add({ fill: palette()[at] }, `${label || (colourBy?.value === "tag" ? "no tag" : "top")} · ${sizes.get(at)}`, at);
    });
    if (of.some((at) => at >= palette().length)) add({ fill: dark.matches ? REST.dark : REST.light }, "others", -1);
    const missing = graph.ids.length - graph.pages;
    if (missing) add({ fill: "none", stroke: css("--bad"), "stroke-width": 1.5 }, `no page yet · ${missing}`, -1);
  }

  function nodeAt(px, py) {
    let best = -1, least = 14 * 14;
    for (let node = 0; node < graph.ids.length; node++) {
      const dx = x(node) - px, dy = y(node) - py, far = dx * dx + dy * dy;
      if (far < least) { least = far; best = node; }
    }
    return best;
  }

  function hover(node, px, py) {
    if (node !== over) { over = node; redraw(); }
    canvas.classList.toggle("over", node >= 0);
    if (!tip) { canvas.title = node >= 0 ? graph.titles[node] : ""; return; }
    tip.hidden = node < 0;
    if (node < 0) return;
    const title = document.createElement("b"), more = document.createElement("span");
    title.textContent = graph.titles[node];
    const links = count(degree[node], "link");
    more.textContent = isMissing(node) ? `no page yet · ${links}` : `${graph.ids[node]} · ${links}`;
    tip.replaceChildren(title, more);
    tip.style.left = `${Math.min(px + 14, Math.max(0, width - tip.offsetWidth - 8))}px`;
    tip.style.top = `${Math.min(py + 14, Math.max(0, height - tip.offsetHeight - 8))}px`;
  }

  function go(node) {
    if (node >= 0 && !isMissing(node)) location.assign(`/page?path=${encodeURIComponent(graph.ids[node])}`);
  }

  function zoom(by, px = width / 2, py = height / 2) {
    const next = Math.max(0.01, Math.min(12, scale * by));
    left = px - (px - left) * next / scale;
    top = py - (py - top) * next / scale;
    scale = next;
    hasMoved = true;
    moved();
  }

  // Pointers: one moves, two zoom, a click goes.
  const held = new Map();
  let travelled = 0, wasTouch = false;
  const place = (event) => {
    const rect = canvas.getBoundingClientRect();
    return [event.clientX - rect.left, event.clientY - rect.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (!graph || event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    held.set(event.pointerId, place(event));
    travelled = 0;
    wasTouch = event.pointerType === "touch";
    canvas.classList.add("held");
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!graph) return;
    const [px, py] = place(event);
    const before = held.get(event.pointerId);
    if (!before) { hover(nodeAt(px, py), px, py); return; }
    held.set(event.pointerId, [px, py]);
    travelled += Math.hypot(px - before[0], py - before[1]);
    if (travelled < 4) return;
    hover(-1);
    if (held.size === 2) {
      const [other] = [...held].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
      const was = Math.hypot(before[0] - other[0], before[1] - other[1]);
      const is = Math.hypot(px - other[0], py - other[1]);
      if (was > 0) zoom(is / was, (px + other[0]) / 2, (py + other[1]) / 2);
    } else {
      left += px - before[0];
      top += py - before[1];
      hasMoved = true;
      moved();
    }
  });
  const release = (event) => {
    const at = held.get(event.pointerId);
    held.delete(event.pointerId);
    canvas.classList.remove("held");
    if (!at || travelled >= 4 || event.type === "pointercancel") return;
    const node = nodeAt(...at);
    // A finger sees first and goes with the second touch.
    if (wasTouch && node !== picked) { picked = node; hover(node, ...at); } else go(node);
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => { if (!held.size) hover(-1); });
  if (!small) {
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), ...place(event));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const ways = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
      if (ways[event.key]) { left += ways[event.key][0]; top += ways[event.key][1]; hasMoved = true; moved(); }
      else if (event.key === "+" || event.key === "=") zoom(1.3);
      else if (event.key === "-") zoom(1 / 1.3);
      else if (event.key === "0") { hasMoved = false; fit(); redraw(); }
      else return;
      event.preventDefault();
    });
    for (const button of document.querySelectorAll("[data-zoom]")) {
      button.addEventListener("click", () => {
        if (!graph) return;
        if (button.dataset.zoom === "all") { hasMoved = false; fit(); redraw(); }
        else zoom(button.dataset.zoom === "in" ? 1.4 : 1 / 1.4);
      });
    }
    colourBy.addEventListener("change", () => { if (graph) { tellKey(); redraw(); } });
    const seek = (event) => {
      if (!graph || event.isComposing) return;
      const words = box.value.trim().toLowerCase();
      found = null;
      if (words) {
        found = new Set();
        graph.titles.forEach((title, node) => {
          if (title.toLowerCase().includes(words) || graph.ids[node].toLowerCase().includes(words)) found.add(node);
        });
        say(`${found.size} found${found.size ? " · Enter goes to the first" : ""}`);
      } else tell();
      redraw();
    };
    box.addEventListener("input", seek);
    box.addEventListener("compositionend", seek);
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.isComposing || !found?.size) return;
      const [first] = [...found].sort((one, other) => degree[other] - degree[one]);
      if (picked === first) { go(first); return; }
      picked = first;
      scale = Math.max(scale, 1.2);
      left = width / 2 - graph.places[2 * first] / 10 * scale;
      top = height / 2 - graph.places[2 * first + 1] / 10 * scale;
      hasMoved = true;
      say(`${graph.titles[first]} · Enter again opens it`);
      redraw();
    });
  }

  function tell() {
    const left = graph.left_out ? `, the other ${count(graph.left_out, "node")} left out` : "";
    say(`${count(graph.pages, "page")}, ${count(graph.links.length / 2, "link")}${left}${graph.done ? "" : " · finding its shape …"}`);
  }

  // The server refines a large layout while it is looked at; the nodes glide to where they belong.
  async function follow() {
    while (!graph.done) {
      await new Promise((done) => setTimeout(done, 700));
      if (document.hidden) continue;
      const answer = await fetch(`/graph/positions?key=${graph.key}`);
      // Its links have changed: the new one goes on from where this one was.
      if (answer.status === 410) { await load(); return; }
      if (!answer.ok) return;
      const { done, places } = await answer.json();
      graph.done = done;
      await glide(places);
      tell();
    }
    if (graph.done) canvas.dataset.done = "";
  }

  function glide(to) {
    const from = graph.places, began = performance.now(), takes = graph.ids.length > 5000 ? 0 : 350;
    return new Promise((done) => {
      const step = (now) => {
        const part = takes ? Math.min(1, (now - began) / takes) : 1;
        graph.places = part === 1 ? to : from.map((at, n) => at + (to[n] - at) * part);
        if (!hasMoved) fit();
        draw();
        if (part === 1) done(); else requestAnimationFrame(step);
      };
      requestAnimationFrame(step);
    });
  }

  async function load() {
    const answer = await fetch(canvas.dataset.graph);
    if (!answer.ok) { say(await answer.text()); if (small) canvas.closest("figure").hidden = true; return; }
    const kept = picked < 0 ? null : graph.ids[picked];
    graph = await answer.json();
    // Of another graph the nodes have other numbers.
    over = -1; group = -1; found = null;
    picked = kept === null ? -1 : graph.ids.indexOf(kept);
    degree = new Uint32Array(graph.ids.length);
    near = graph.ids.map(() => new Set());
    for (let at = 0; at < graph.links.length; at += 2) {
      const from = graph.links[at], to = graph.links[at + 1];
      degree[from]++; degree[to]++;
      near[from].add(to); near[to].add(from);
    }
    graph.byDegree = [...graph.ids.keys()].sort((one, other) => degree[other] - degree[one] || one - other);
    if (graph.focus !== null && !small && picked < 0) picked = graph.focus;
    if (small && graph.ids.length < 2) { canvas.closest("figure").hidden = true; return; }
    size();
    tellKey();
    tell();
    if (box?.value) box.dispatchEvent(new Event("input"));
    canvas.dataset.drawn = Math.round(performance.now());
    follow();
  }

  // For tests and the curious: where a node is drawn.
  canvas.nodeAt = (id) => {
    const node = graph?.ids.indexOf(id) ?? -1;
    return node < 0 ? null : [x(node), y(node)];
  };

  new ResizeObserver(size).observe(canvas);
  dark.addEventListener("change", () => { if (graph) { tellKey(); redraw(); } });
  load().catch(() => say("wiki-sync does not answer: it may have been ended."));
}

for (const canvas of document.querySelectorAll("canvas[data-graph]")) start(canvas);
