"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const redraws = [];
  const make = (tag, text, more) => Object.assign(document.createElement(tag), text === null ? {} : { textContent: text }, more);

  const size = (n) => {
    for (const unit of ["B", "kB", "MB"]) {
      if (n < 1000) return (unit === "B" || n >= 100 ? n.toFixed(0) : n.toFixed(1)) + " " + unit;
      n /= 1000;
    }
    return n.toFixed(1) + " GB";
  };
  const time = (ns) => (ns < 1e6 ? (ns / 1e3).toFixed(0) + " µs" : ns < 1e9 ? (ns / 1e6).toFixed(1) + " ms" : (ns / 1e9).toFixed(1) + " s");

  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    redraws.forEach((draw) => draw());
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraws.forEach((draw) => draw()));

  // -- tables ---------------------------------------------------------------------------------
  for (const table of document.querySelectorAll("table.sortable")) {
    table.querySelectorAll("th button").forEach((button) => {
      button.addEventListener("click", () => {
        const head = button.parentElement;
        const column = [...head.parentElement.children].indexOf(head);
        const numeric = head.classList.contains("n");
        const down = head.getAttribute("aria-sort") !== "descending" && (numeric || head.getAttribute("aria-sort") === "ascending");
        for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows];
        const key = (row) => (numeric ? Number(row.cells[column].dataset.value) : row.cells[column].textContent);
        const compare = numeric ? (a, b) => key(a) - key(b) : (a, b) => key(a).localeCompare(key(b), undefined, { numeric: true });
        rows.sort((a, b) => (down ? -compare(a, b) : compare(a, b)));
        table.tBodies[0].append(...rows);
      });
    });
  }

  // -- timeline -------------------------------------------------------------------------------
  const line = data.timeline;
  const canvas = document.getElementById("timeline-canvas");
  if (line && canvas) {
    const count = line.kind.length;
    // Events of a step share its width evenly: on virtual GPUs only their order is known.
    const at = new Float64Array(count);
    const first = line.step[0], last = line.step[count - 1];
    for (let i = 0; i < count; ) {
      let j = i;
      while (j < count && line.step[j] === line.step[i]) j++;
      for (let k = i; k < j; k++) at[k] = line.step[i] + (k - i + 0.5) / (j - i);
      i = j;
    }
    const names = ["CPU → GPU", "GPU → CPU", "GPU → GPU", "waits"];
    const used = [0, 1, 2, 3].filter((kind) => line.kind.includes(kind));
    const detail = document.getElementById("timeline-detail");
    const legend = document.getElementById("timeline-legend");
    let from = first, to = last + 1, chosen = -1;

    const colours = () => ["--h2d", "--d2h", "--d2d", "--sync"].map(css);
    const lower = (value) => {
      let low = 0, high = count;
      while (low < high) { const mid = (low + high) >> 1; if (at[mid] < value) low = mid + 1; else high = mid; }
      return low;
    };
    const draw = () => {
      const ratio = window.devicePixelRatio || 1;
      const width = canvas.clientWidth, height = canvas.clientHeight;
      canvas.width = width * ratio; canvas.height = height * ratio;
      const g = canvas.getContext("2d");
      g.scale(ratio, ratio);
      g.clearRect(0, 0, width, height);
      const palette = colours();
      const lane = (height - 22) / used.length;
      g.font = "12px system-ui, sans-serif";
      const columns = used.map(() => new Float64Array(width + 1));
      const begin = lower(from), end = lower(to);
      const scale = width / (to - from);
      let most = used.map(() => 0);
      for (let i = begin; i < end; i++) {
        const row = used.indexOf(line.kind[i]);
        const x = Math.min(width, Math.max(0, Math.floor((at[i] - from) * scale)));
        columns[row][x] += line.ns[i];
      }
      columns.forEach((column, row) => { for (const value of column) if (value > most[row]) most[row] = value; });
      const bar = Math.max(1, Math.min(12, scale / Math.max(1, (end - begin) / Math.max(1, to - from)) - 1));
      used.forEach((kind, row) => {
        const base = (row + 1) * lane;
        g.fillStyle = css("--line"); g.fillRect(0, base - 0.5, width, 1);
        g.fillStyle = palette[kind];
        for (let x = 0; x <= width; x++) {
          const value = columns[row][x];
          if (value) { const tall = Math.max(2, (lane - 18) * Math.sqrt(value / most[row])); g.fillRect(x, base - tall, bar, tall); }
        }
        g.fillStyle = css("--dim");
        g.fillText(names[kind] + (most[row] ? ", at most " + time(most[row]) : ""), 6, base - lane + 13);
      });
      g.fillStyle = css("--dim");
      // A label takes about 70 pixels; gaps are 1, 2 or 5 times a power of ten.
      const least = Math.max(1, ((to - from) * 70) / width);
      const power = Math.pow(10, Math.floor(Math.log10(least)));
      const gap = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= least);
      for (let s = Math.ceil(from / gap) * gap; s < to; s += gap) {
        const x = (s - from) * scale;
        g.fillRect(x, height - 22, 1, 5);
        if (x < width - 50) g.fillText(s === 0 && !line.step[0] ? "before" : "step " + Math.round(s), x + 3, height - 7);
      }
      if (chosen >= 0 && at[chosen] >= from && at[chosen] <= to) {
        g.strokeStyle = css("--fg"); g.lineWidth = 1.5;
        g.strokeRect((at[chosen] - from) * scale - 2, 2, Math.max(bar, 3) + 3, height - 24);
      }
    };
    const clamp = () => {
      const span = Math.min(Math.max(to - from, 0.02), last + 1 - first);
      from = Math.min(Math.max(from, first), last + 1 - span); to = from + span;
    };
    const zoom = (factor, centre) => {
      const middle = from + (to - from) * centre;
      from = middle - (middle - from) * factor; to = middle + (to - middle) * factor;
      clamp(); draw();
    };
    const pan = (share) => { const by = (to - from) * share; from += by; to += by; clamp(); draw(); };
    const choose = (i) => {
      chosen = i;
      if (i < 0) { detail.textContent = ""; draw(); return; }
      const [place, code, what] = line.places[line.place[i]];
      detail.replaceChildren(
        make("strong", what), " · step " + line.step[i] + " · " + time(line.ns[i]) + (line.bytes[i] ? " · " + size(line.bytes[i]) : "") + " · ",
        make("span", place, { className: "place" }), " ", make("code", code));
      document.querySelectorAll("tr.chosen").forEach((row) => row.classList.remove("chosen"));
      const row = document.getElementById("place-" + line.place[i]);
      if (row) row.classList.add("chosen");
      if (at[i] < from || at[i] > to) { const span = to - from; from = at[i] - span / 2; to = from + span; clamp(); }
      draw();
    };
    const nearest = (event) => {
      const box = canvas.getBoundingClientRect();
      const value = from + ((event.clientX - box.left) / box.width) * (to - from);
      const lane = used[Math.min(used.length - 1, Math.max(0, Math.floor((event.clientY - box.top) / ((box.height - 22) / used.length))))];
      let best = -1;
      for (let i = Math.max(0, lower(value) - 4000); i < Math.min(count, lower(value) + 4000); i++) {
        if (line.kind[i] === lane && (best < 0 || Math.abs(at[i] - value) < Math.abs(at[best] - value))) best = i;
      }
      return best;
    };
    let dragging = null;
    canvas.addEventListener("pointerdown", (e) => { dragging = { x: e.clientX, from, to, moved: false }; canvas.setPointerCapture(e.pointerId); });
    canvas.addEventListener("pointermove", (e) => {
      if (!dragging) return;
      const by = ((dragging.x - e.clientX) / canvas.clientWidth) * (dragging.to - dragging.from);
      if (Math.abs(dragging.x - e.clientX) > 3) dragging.moved = true;
      if (dragging.moved) { from = dragging.from + by; to = dragging.to + by; clamp(); draw(); }
    });
    canvas.addEventListener("pointerup", (e) => { if (dragging && !dragging.moved) choose(nearest(e)); dragging = null; });
    canvas.addEventListener("pointercancel", () => { dragging = null; });
    canvas.addEventListener("wheel", (e) => {
      // A plain wheel scrolls the page until the timeline has been chosen.
      if (document.activeElement !== canvas && !e.ctrlKey) return;
      e.preventDefault();
      const box = canvas.getBoundingClientRect();
      zoom(e.deltaY > 0 ? 1.25 : 0.8, (e.clientX - box.left) / box.width);
    }, { passive: false });
    canvas.addEventListener("keydown", (e) => {
      const keys = {
        ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoom(0.5, 0.5), "=": () => zoom(0.5, 0.5), "-": () => zoom(2, 0.5),
        "0": () => { from = first; to = last + 1; draw(); }, Home: () => { const s = to - from; from = first; to = from + s; clamp(); draw(); },
        End: () => { const s = to - from; to = last + 1; from = to - s; clamp(); draw(); },
        Enter: () => choose(e.shiftKey ? Math.max(0, chosen - 1) : chosen < 0 ? Math.min(lower(from), count - 1) : Math.min(count - 1, chosen + 1)),
        Escape: () => choose(-1),
      };
      if (keys[e.key]) { e.preventDefault(); keys[e.key](); }
    });
    const tell = () => {
      legend.replaceChildren(...used.map((kind) => {
        let n = 0, total = 0;
        for (let i = 0; i < count; i++) if (line.kind[i] === kind) { n++; total += line.bytes[i]; }
        const item = make("span", null);
        const mark = make("i", ""); mark.style.background = colours()[kind];
        item.append(mark, names[kind] + ": " + n.toLocaleString("en") + (total ? ", " + size(total) : ""));
        return item;
      }));
      if (line.dropped) legend.append(make("span", line.dropped.toLocaleString("en") + " later events are counted but not drawn"));
    };
    tell(); draw();
    redraws.push(tell, draw);
    new ResizeObserver(draw).observe(canvas);
  }

  // -- device map -----------------------------------------------------------------------------
  const area = document.getElementById("map-area");
  if (data.map && area) {
    const GREYS = ["#6b7280"], GPUS = ["#2563c9", "#b45309", "#15803d", "#9333ea", "#be123c", "#0e7490", "#4d7c0f", "#a21caf"];
    const colour = (device) => {
      if (device === "cpu") return GREYS[0];
      if (device === "meta") return "#9a3412";
      if (device === null) return "#374151";
      const index = Number((device.split(":")[1] || "0"));
      return GPUS[index % GPUS.length];
    };
    const weigh = (node) => {
      if (node.c) {
        node.b = 0;
        const devices = new Map();
        for (const child of node.c) {
          weigh(child); node.b += child.b;
          for (const [device, bytes] of child.on) devices.set(device, (devices.get(device) || 0) + bytes);
        }
        node.on = devices;
      } else node.on = new Map([[node.d, node.b]]);
    };
    const top = { n: "all", c: data.map };
    weigh(top);
    let trail = [top];
    const where = document.getElementById("map-path");
    const legend = document.getElementById("map-legend");

    // Squarified treemap: rows whose blocks are as square as they can be.
    const layout = (nodes, x, y, w, h, place) => {
      let rest = nodes.filter((n) => n.b > 0).sort((a, b) => b.b - a.b);
      let total = rest.reduce((sum, n) => sum + n.b, 0);
      while (rest.length && w > 0.5 && h > 0.5) {
        const short = Math.min(w, h), share = (w * h) / total;
        let row = [], sum = 0, worst = Infinity;
        for (const n of rest) {
          const s = sum + n.b, side = (s * share) / short;
          const ratio = Math.max(...[row[0] || n, n].map((m) => { const other = (m.b * share) / side; return Math.max(side / other, other / side); }));
          if (ratio > worst) break;
          row.push(n); sum = s; worst = ratio;
        }
        const side = (sum * share) / short;
        let offset = 0;
        for (const n of row) {
          const length = (n.b / sum) * short;
          if (w >= h) place(n, x, y + offset, side, length); else place(n, x + offset, y, length, side);
          offset += length;
        }
        if (w >= h) { x += side; w -= side; } else { y += side; h -= side; }
        rest = rest.slice(row.length); total -= sum;
      }
    };
    const background = (node) => {
      const parts = [...node.on].sort((a, b) => b[1] - a[1]);
      if (parts.length === 1) return colour(parts[0][0]);
      let sum = 0;
      const stops = parts.map(([device, bytes]) => { const start = (100 * sum) / node.b; sum += bytes; return colour(device) + " " + start + "% " + (100 * sum) / node.b + "%"; });
      return "linear-gradient(90deg," + stops.join(",") + ")";
    };
    const told = (node) => [...node.on].sort((a, b) => b[1] - a[1]).map(([device, bytes]) => size(bytes) + " on " + device).join(", ");
    const draw = (focus) => {
      const node = trail[trail.length - 1];
      where.replaceChildren(...trail.map((step, i) => make("button", step.n, { type: "button", onclick: () => { trail = trail.slice(0, i + 1); draw(true); } })), " " + told(node));
      area.replaceChildren();
      layout(node.c || [node], 0, 0, area.clientWidth, area.clientHeight, (child, x, y, w, h) => {
        const text = child.n + " · " + (child.w ? child.w + " · " : "") + told(child);
        const block = make("button", w > 34 && h > 16 ? child.n + (h > 32 && w > 60 ? "\n" + size(child.b) : "") : "", { type: "button", title: text });
        block.setAttribute("aria-label", text);
        Object.assign(block.style, { left: x + "px", top: y + "px", width: w + "px", height: h + "px", background: background(child), whiteSpace: "pre" });
        if (w < 2 || h < 2) { block.tabIndex = -1; }
        block.addEventListener("click", () => { if (child.c) { trail.push(child); while (trail.at(-1).c.length === 1 && trail.at(-1).c[0].c) trail.push(trail.at(-1).c[0]); draw(true); } });
        block.addEventListener("keydown", (e) => { if ((e.key === "Escape" || e.key === "Backspace") && trail.length > 1) { e.preventDefault(); trail.pop(); draw(true); } });
        area.append(block);
        let inside = child;
        while (inside.c && inside.c.length === 1) inside = inside.c[0];
        if (inside.c && w > 90 && h > 60) {
          layout(inside.c, x + 3, y + 34, w - 6, h - 37, (inner, ix, iy, iw, ih) => {
            const part = make("div", iw > 60 && ih > 16 ? inner.n : "");
            Object.assign(part.style, { left: ix + "px", top: iy + "px", width: iw + "px", height: ih + "px", background: background(inner) });
            area.append(part);
          });
        }
      });
      if (focus && area.firstChild) area.firstChild.focus();
    };
    legend.replaceChildren(...[...top.on].sort((a, b) => (a[0] < b[0] ? -1 : 1)).map(([device, bytes]) => {
      const item = make("span", null), mark = make("i", "");
      mark.style.background = colour(device);
      item.append(mark, device + ": " + size(bytes));
      return item;
    }));
    while (trail[trail.length - 1].c && trail[trail.length - 1].c.length === 1) trail.push(trail[trail.length - 1].c[0]);
    if (!trail[trail.length - 1].c) trail.pop();
    draw(false);
    let width = area.clientWidth;
    new ResizeObserver(() => { if (area.clientWidth !== width) { width = area.clientWidth; draw(false); } }).observe(area);
  }
})();
