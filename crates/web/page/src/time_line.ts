// SPDX-License-Identifier: Apache-2.0 OR MIT
// The time line of a run: every TLP and DLLP of each direction of a link, to zoom into and to step
// through. What is drawn is one bar a pixel at most, however many events there are.

import type { Trace } from "./answers.ts";
import { make } from "./dom.ts";
import { time } from "./format.ts";

/** Height of a direction, of its bar, and of the axis, CSS pixels. */
const LANE = 24;
const BAR = 15;
const AXIS = 20;
/** Shortest time that is shown, picoseconds. */
const SHORTEST_PS = 2_000;
/** Share of the view that one step of the keyboard moves. */
const STEP = 0.2;

/** Colours of kinds, as variables of the style sheet. */
const COLOURS = { tlp: "--c0", replay: "--bad", dllp: "--c2", idle: "--rest", retrain: "--c4" };

/** The first index of a sorted list whose value is not below another. */
function firstFrom(values: Float64Array, value: number): number {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Events of one direction, by their begin: indices into the trace. */
interface Lane {
  name: string;
  events: number[];
  begins: Float64Array;
}

export class TimeLine {
  #canvas: HTMLCanvasElement;
  #names = make("ul", { class: "lanes" });
  #said = make("p", { class: "note", role: "status" });
  #trace: Trace;
  #lanes: Lane[];
  /** Indices of events that are sent, by time: what a user steps through. */
  #steps: number[];
  #chosen = -1;
  #from = 0;
  #to = 1;
  #end = 1;

  constructor(box: HTMLElement, trace: Trace) {
    this.#trace = trace;
    const all = trace.events.map((_, index) => index);
    const sent = all.filter((index) => trace.events[index]![3] !== "idle");
    const byTime = (a: number, b: number) => trace.events[a]![0] - trace.events[b]![0] || a - b;
    this.#steps = sent.sort(byTime);
    this.#lanes = trace.directions.map((name, direction) => {
      const events = this.#steps.filter((index) => trace.events[index]![1] === direction);
      const begins = Float64Array.from(events, (index) => trace.events[index]![0]);
      return { name, events, begins };
    });
    const ends = this.#steps.map((index) => trace.events[index]![0] + trace.events[index]![2]);
    const first = this.#steps[0];
    const begin = first === undefined ? 0 : trace.events[first]![0];
    this.#end = ends.reduce((most, end) => Math.max(most, end), begin + SHORTEST_PS);
    [this.#from, this.#to] = [begin, Math.min(this.#end, begin + 4_000_000)];
    this.#canvas = make("canvas", {
      tabindex: "0",
      role: "img",
      "aria-label": "Time line; arrow keys move, + and - zoom, n and p step",
    });
    const button = (text: string, label: string, onclick: () => void) =>
      make("button", { type: "button", class: "button", "aria-label": label, onclick }, text);
    box.replaceChildren(
      make(
        "div",
        { class: "buttons" },
        button("◀", "Event before", () => this.step(-1)),
        button("▶", "Next event", () => this.step(1)),
        button("+", "Zoom in", () => this.zoom(0.5)),
        button("−", "Zoom out", () => this.zoom(2)),
        button("all", "Show all", () => this.view(begin, this.#end)),
        make("span", { class: "note" }, this.#counts()),
      ),
      this.#said,
      make("div", { class: "time-line" }, this.#names, this.#canvas),
    );
    this.#names.append(...this.#lanes.map(({ name }) => make("li", { title: name }, name)));
    this.#listen();
    new ResizeObserver(() => this.draw()).observe(this.#canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  #counts(): string {
    const { count, events } = this.#trace;
    const shown = events.length < count ? `the first ${events.length} of ${count}` : `all ${count}`;
    return `${shown} events; blue: TLPs, green: DLLPs`;
  }

  #listen(): void {
    const keys: Record<string, () => void> = {
      ArrowLeft: () => this.move(-STEP),
      ArrowRight: () => this.move(STEP),
      "+": () => this.zoom(0.5),
      "-": () => this.zoom(2),
      n: () => this.step(1),
      p: () => this.step(-1),
    };
    this.#canvas.addEventListener("keydown", (event) => {
      const act = keys[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    });
    this.#canvas.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.shiftKey) return;
        event.preventDefault();
        if (event.shiftKey) this.move(Math.sign(event.deltaY || event.deltaX) * 0.1);
        else this.zoom(event.deltaY > 0 ? 1.25 : 0.8, event.offsetX / this.#canvas.clientWidth);
      },
      { passive: false },
    );
    let held: { x: number; from: number; to: number } | null = null;
    this.#canvas.addEventListener("pointerdown", (event) => {
      this.#canvas.setPointerCapture(event.pointerId);
      held = { x: event.offsetX, from: this.#from, to: this.#to };
    });
    this.#canvas.addEventListener("pointermove", (event) => {
      if (!held) return;
      const by = ((held.x - event.offsetX) / this.#canvas.clientWidth) * (held.to - held.from);
      this.view(held.from + by, held.to + by);
    });
    this.#canvas.addEventListener("pointerup", (event) => {
      if (held && Math.abs(held.x - event.offsetX) < 4) this.#pick(event.offsetX, event.offsetY);
      held = null;
    });
  }

  /** Shows a span of time, within the run. */
  view(from: number, to: number): void {
    const begin = this.#steps.length ? this.#trace.events[this.#steps[0]!]![0] : 0;
    const most = this.#end - begin;
    const length = Math.min(Math.max(to - from, SHORTEST_PS), most);
    this.#from = Math.min(Math.max(from, begin), this.#end - length);
    this.#to = this.#from + length;
    this.draw();
  }

  /** Shows more or less time around a place, from 0 to 1. */
  zoom(factor: number, place = 0.5): void {
    const at = this.#from + place * (this.#to - this.#from);
    this.view(at - (at - this.#from) * factor, at + (this.#to - at) * factor);
  }

  /** Moves the view by a share of itself. */
  move(share: number): void {
    const by = share * (this.#to - this.#from);
    this.view(this.#from + by, this.#to + by);
  }

  /** Chooses the next event, or the one before, of all directions. */
  step(by: 1 | -1): void {
    this.#choose(Math.min(Math.max(this.#chosen + by, 0), this.#steps.length - 1));
  }

  /** Chooses an event of the trace without a word. */
  show(event: number): void {
    this.#choose(this.#steps.indexOf(event), false);
  }

  #choose(step: number, isSaid = true): void {
    const event = this.#trace.events[this.#steps[step] ?? -1];
    if (!event) return;
    this.#chosen = step;
    const [at, direction, onWire, kind, words] = event;
    const kept = kind === "retrain" ? "retrains" : words;
    const where = this.#trace.directions[direction];
    this.#said.textContent = isSaid ? `${time(at)}, ${where}: ${kept}, ${time(onWire)}` : "";
    if (at < this.#from || at + onWire > this.#to) {
      const half = (this.#to - this.#from) / 2;
      this.view(at - half, at + half);
    } else {
      this.draw();
    }
  }

  #pick(x: number, y: number): void {
    const lane = this.#lanes[Math.floor((y - AXIS) / LANE)];
    if (!lane) return;
    const at = this.#from + (x / this.#canvas.clientWidth) * (this.#to - this.#from);
    const index = lane.events[Math.max(0, firstFrom(lane.begins, at) - 1)];
    if (index !== undefined) this.#choose(this.#steps.indexOf(index));
  }

  /** Draws what is in view. */
  draw(): void {
    const canvas = this.#canvas;
    const [width, height] = [canvas.clientWidth, AXIS + LANE * this.#lanes.length];
    if (!width) return;
    const scale = devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const context = canvas.getContext("2d")!;
    context.scale(scale, scale);
    const colours = new Map<string, string>();
    // A canvas knows no `light-dark()`: the colour of an element is asked for.
    const colour = (name: string) => {
      let found = colours.get(name);
      if (!found) {
        canvas.style.color = `var(${name})`;
        found = getComputedStyle(canvas).color;
        colours.set(name, found);
      }
      return found;
    };
    const perPixel = (this.#to - this.#from) / width;
    this.#axis(context, width, height, colour);
    const chosen = this.#steps[this.#chosen];
    this.#lanes.forEach((lane, row) => {
      const top = AXIS + row * LANE + (LANE - BAR) / 2;
      let at = Math.max(0, firstFrom(lane.begins, this.#from) - 1);
      while (at < lane.events.length && lane.begins[at]! < this.#to) {
        const [begin, , onWire, kind] = this.#trace.events[lane.events[at]!]!;
        const x = (begin - this.#from) / perPixel;
        const bar = Math.max(onWire / perPixel, 0.75);
        const small = kind === "dllp" ? BAR / 4 : 0;
        context.fillStyle = colour(COLOURS[kind]);
        context.fillRect(x, top + small, bar > 3 ? bar - 0.5 : bar, BAR - 2 * small);
        if (lane.events[at] === chosen) {
          context.strokeStyle = colour("--ring");
          context.lineWidth = 2;
          context.strokeRect(x - 1, top - 1, Math.max(bar, 2) + 2, BAR + 2);
        }
        // Bars narrower than a pixel: on to the next pixel.
        const next = this.#from + (Math.floor(x) + 1) * perPixel;
        at = bar < 1 ? Math.max(at + 1, firstFrom(lane.begins, next)) : at + 1;
      }
    });
  }

  #axis(
    context: CanvasRenderingContext2D,
    width: number,
    height: number,
    colour: (name: string) => string,
  ): void {
    const rough = ((this.#to - this.#from) / width) * 110;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * ([1, 2, 5, 10].find((it) => it * power >= rough) ?? 10);
    context.font = "11px system-ui, sans-serif";
    for (let at = Math.ceil(this.#from / step) * step; at < this.#to; at += step) {
      const x = ((at - this.#from) / (this.#to - this.#from)) * width;
      context.fillStyle = colour("--grid");
      context.fillRect(x, AXIS - 4, 1, height);
      context.fillStyle = colour("--quiet");
      context.fillText(time(at), x + 3, 12);
    }
  }
}
