// SPDX-License-Identifier: Apache-2.0 OR MIT
// Interaction beyond reading: theme, legends, read-outs, sorting, search.
"use strict";
(() => {
  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const make = (name, attributes = {}, text = "") => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    return element;
  };

  // Theme: the system's, until a reader chooses. Some browsers keep nothing for pages from disk.
  const KEY = "crosslane-theme";
  const kept = () => { try { return localStorage.getItem(KEY); } catch { return null; } };
  const keep = (theme) => { try { localStorage.setItem(KEY, theme); } catch { /* not kept */ } };
  const system = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const theme = () => root.dataset.theme ?? (system.matches ? "dark" : "light");
  const showTheme = () => {
    const other = theme() === "dark" ? "light" : "dark";
    button.textContent = other === "dark" ? "Dark" : "Light";
    button.setAttribute("aria-label", `Use ${other} colours`);
  };
  if (["light", "dark"].includes(kept())) root.dataset.theme = kept();
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = theme() === "dark" ? "light" : "dark";
    keep(root.dataset.theme);
    showTheme();
  });
  system.addEventListener("change", showTheme);
  showTheme();

  // Read-outs: the titles of drawings, shown at once and where they are.
  const tip = make("div", { class: "tip", role: "status", hidden: "" });
  document.body.append(tip);
  const words = new WeakMap();
  for (const title of all("svg :not(svg) > title")) {
    words.set(title.parentNode, title.textContent);
    title.remove();
  }
  // The title of a whole drawing would cover it while a pointer rests: it becomes its label.
  for (const title of all("svg > title")) {
    const svg = title.parentNode;
    svg.setAttribute("aria-label", title.textContent);
    const description = svg.querySelector(":scope > desc");
    svg.removeAttribute("aria-labelledby");
    if (description) svg.setAttribute("aria-describedby", description.id);
    title.remove();
  }
  const showTip = (texts, x, y) => {
    const lines = (text) => {
      const [first, ...rest] = text.split("\n");
      return rest.length ? [make("strong", {}, first), rest.join("\n")] : [first];
    };
    tip.replaceChildren(...texts.flatMap(lines));
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const room = root.clientWidth - width - 8;
    const above = y - height - 14;
    tip.style.left = `${Math.max(8, Math.min(x + 14, room))}px`;
    tip.style.top = `${above > 8 ? above : y + 18}px`;
  };
  const hideTip = () => {
    tip.hidden = true;
    for (const ring of all(".ring")) ring.remove();
  };
  for (const drawing of all(".bar, .tree-box svg")) {
    drawing.addEventListener("pointermove", (event) => {
      let element = event.target;
      while (element !== drawing && !words.has(element)) element = element.parentNode;
      if (words.has(element)) showTip([words.get(element)], event.clientX, event.clientY);
      else hideTip();
    });
    drawing.addEventListener("pointerleave", hideTip);
  }
  addEventListener("scroll", hideTip, { passive: true });
  addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });

  // Plots: the nearest value to a pointer; the arrow keys go from value to value.
  const NEAR = 70;
  // Marks of several series so close to each other are one place.
  const TOGETHER = 2;
  const MOST_TOGETHER = 6;
  const place = (mark) => {
    const [, x, y] = /^M(\S+) ([^a-z]+)/.exec(mark.getAttribute("d"));
    return { mark, x: Number(x), y: Number(y) };
  };
  const readOut = (svg, { x, y }, marks) => {
    hideTip();
    const ring = document.createElementNS("http://www.w3.org/2000/svg", "circle");
    for (const [key, value] of Object.entries({ class: "ring", cx: x, cy: y, r: 8 })) {
      ring.setAttribute(key, value);
    }
    svg.append(ring);
    const at = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
    showTip(marks.map(({ mark }) => words.get(mark)), at.x, at.y);
  };
  for (const stage of all(".stage")) {
    const drawn = () => all("svg", stage).find((svg) => svg.getClientRects().length > 0);
    const places = new Map(all("svg", stage).map((svg) => [
      svg,
      all(".series", svg).map((series) => ({ series, marks: all(".mark", series).map(place) })),
    ]));
    const shown = () => (places.get(drawn()) ?? [])
      .filter(({ series, marks }) => !series.classList.contains("is-off") && marks.length > 0);
    stage.addEventListener("pointermove", (event) => {
      const svg = drawn();
      if (!svg) return;
      const at = new DOMPoint(event.clientX, event.clientY)
        .matrixTransform(svg.getScreenCTM().inverse());
      let nearest = null;
      let least = NEAR;
      const marks = shown().flatMap(({ marks }) => marks);
      for (const mark of marks) {
        const distance = Math.hypot(mark.x - at.x, mark.y - at.y);
        if (distance < least) [nearest, least] = [mark, distance];
      }
      const isThere = ({ x, y }) => Math.hypot(x - nearest.x, y - nearest.y) <= TOGETHER;
      if (nearest) readOut(svg, nearest, marks.filter(isThere).slice(0, MOST_TOGETHER));
      else hideTip();
    });
    stage.addEventListener("pointerleave", hideTip);
    stage.addEventListener("blur", hideTip);
    stage.tabIndex = 0;
    stage.setAttribute("role", "group");
    stage.setAttribute("aria-label", "Plot: left and right go from value to value, up and down "
      + "from series to series");
    const order = all(".legend li", stage.closest("figure")).map((item) => item.dataset.series);
    const rank = ({ series }) => order.indexOf(series.dataset.series);
    let [row, column] = [0, -1];
    stage.addEventListener("keydown", (event) => {
      const series = shown().sort((a, b) => rank(a) - rank(b));
      const [down, right] = {
        ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
      }[event.key] ?? [0, 0];
      if (series.length === 0 || (down === 0 && right === 0)) return;
      event.preventDefault();
      row = (Math.min(row, series.length - 1) + down + series.length) % series.length;
      const { marks } = series[row];
      column = Math.max(0, Math.min(column + right, marks.length - 1));
      readOut(drawn(), marks[column], [marks[column]]);
    });
  }

  // Legends: a click hides a series or shows it again.
  for (const item of all(".plot .legend li")) {
    const toggle = make("button", { type: "button", "aria-pressed": "true" });
    toggle.append(...item.childNodes);
    item.append(toggle);
    const { series } = item.dataset;
    toggle.addEventListener("click", () => {
      const isShown = toggle.getAttribute("aria-pressed") === "false";
      toggle.setAttribute("aria-pressed", String(isShown));
      for (const layer of all(`.stage [data-series="${series}"]`, item.closest("figure"))) {
        layer.classList.toggle("is-off", !isShown);
      }
      hideTip();
    });
  }

  // Tables: a click on a heading sorts by it: up, down, as it was.
  const UNITS = {
    B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40,
    ps: 1e-12, ns: 1e-9, "µs": 1e-6, us: 1e-6, ms: 1e-3, s: 1,
  };
  const number = (text) => {
    const found = /^[^\d+\-−.]*([+\-−]?[\d.][\d.,\u00a0\u202f]*(?:e[+-]?\d+)?)\s*([a-zµ]*)/i.exec(text);
    if (!found) return NaN;
    const value = Number(found[1].replace("−", "-").replace(/[,\u00a0\u202f]/g, ""));
    return value * (UNITS[found[2]] ?? 1);
  };
  const collator = new Intl.Collator("en", { numeric: true });
  for (const table of all("table")) {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const headings = all("thead th", table);
    if (rows.length < 2) continue;
    const text = (row, column) => {
      const cell = row.cells[column];
      return (cell.querySelector(".value") ?? cell).textContent.trim();
    };
    headings.forEach((heading, column) => {
      if (heading.textContent.trim() === "") return;
      const toggle = make("button", { type: "button" }, heading.textContent);
      heading.replaceChildren(toggle);
      const values = rows.map((row) => number(text(row, column)));
      const isSize = rows.every((row) => /^[\d.]+ (B|[KMGT]iB|[pnµum]?s)$/.test(text(row, column)));
      const isNumber = isSize
        || (heading.classList.contains("number") && values.some((value) => !Number.isNaN(value)));
      toggle.addEventListener("click", () => {
        const next = { ascending: "descending", descending: null }[heading.ariaSort];
        const order = next === undefined ? "ascending" : next;
        for (const other of headings) other.removeAttribute("aria-sort");
        const sign = order === "descending" ? -1 : 1;
        const compare = (a, b) => {
          if (!isNumber) return sign * collator.compare(text(rows[a], column), text(rows[b], column));
          // Values that are not numbers stay below.
          const [isA, isB] = [Number.isNaN(values[a]), Number.isNaN(values[b])];
          return isA || isB ? isA - isB : sign * (values[a] - values[b]);
        };
        const indices = rows.map((_, index) => index);
        if (order) {
          heading.setAttribute("aria-sort", order);
          indices.sort(compare);
        }
        body.append(...indices.map((index) => rows[index]));
      });
    });
    if (!("searchable" in table.dataset)) continue;
    const field = make("input", { type: "search", autocomplete: "off", spellcheck: "false" });
    const label = make("label", { class: "search" }, "");
    const count = make("output");
    label.append(make("span", {}, "Search"), field, count);
    table.closest(".scroll").before(label);
    field.addEventListener("input", () => {
      const wanted = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let found = 0;
      for (const row of rows) {
        const content = row.textContent.toLowerCase();
        const isFound = wanted.every((word) => content.includes(word));
        row.hidden = !isFound;
        found += isFound;
      }
      count.textContent = wanted.length > 0 ? `${found} of ${rows.length} rows` : "";
    });
  }

  // Contents: where the reader is.
  const links = new Map(all(".contents a").map((link) => [link.hash.slice(1), link]));
  const visible = new Set();
  const watch = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) visible.add(target.id);
      else visible.delete(target.id);
    }
    const [current] = [...links.keys()].filter((id) => visible.has(id));
    for (const [id, link] of links) {
      if (id === current) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }, { rootMargin: "-10% 0px -60% 0px" });
  for (const section of all("main > section")) watch.observe(section);

  // On paper the values of bars are open.
  let opened = [];
  addEventListener("beforeprint", () => {
    hideTip();
    opened = all(".bars details:not([open])");
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => { for (const details of opened) details.open = false; });
})();
