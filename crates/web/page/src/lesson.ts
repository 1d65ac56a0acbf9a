// SPDX-License-Identifier: Apache-2.0 OR MIT
// Step mode: one TLP on its link, its Acks and its credits, a step at a time, with the credits of
// both sides at each step.

import type { Trace } from "./answers.ts";
import { choices, make } from "./dom.ts";
import { time } from "./format.ts";
import { arrivalOf, CLASSES, stepsOf, tlpsOf, waysOf } from "./steps.ts";
import type { Count, Step, Way } from "./steps.ts";

/** Size of the drawing, and the places of the two sides in it. */
const WIDTH = 640;
const SIDES = { from: 150, to: 490 };
const TOP = 34;
/** Least distance of two steps, and pixels for the time of all. */
const LEAST_GAP = 24;
const SPREAD = 150;
/** Most other packets that are drawn. */
const MOST_OTHERS = 80;

const NAMESPACE = "http://www.w3.org/2000/svg";

function shape(
  tag: string,
  attributes: Record<string, string | number>,
  text = "",
): SVGElement {
  const element = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  if (text) element.textContent = text;
  return element;
}

export class Lesson {
  #box: HTMLElement;
  #trace: Trace;
  #ways: Way[];
  #way: Way;
  #tlps: number[] = [];
  #tlp = 0;
  #steps: Step[] = [];
  #step = 0;
  #seen = make("div", {});

  #shown: (event: number) => void = () => {};

  /** `shown` is told the event of each step that a user goes to. */
  constructor(box: HTMLElement, trace: Trace, shown: (event: number) => void) {
    this.#box = box;
    this.#trace = trace;
    this.#ways = waysOf(trace);
    this.#way = this.#ways[0]!;
    box.replaceChildren();
    if (!this.#ways.length) return;
    const link: HTMLSelectElement = make("select", {
      id: "lesson-link",
      onchange: () => this.#choose(link.value),
    });
    choices(
      link,
      this.#ways.map(({ name }) => name),
      this.#way.name,
    );
    const button = (id: string, text: string, onclick: () => void) =>
      make("button", { type: "button", class: "button", id, onclick }, text);
    box.append(
      make("h3", {}, "One TLP, step by step"),
      make("div", { class: "line" }, make("label", { for: "lesson-link" }, "Link"), link),
      make(
        "div",
        { class: "buttons" },
        button("lesson-back", "◀ Step", () => this.#go(this.#step - 1)),
        button("lesson-next", "Step ▶", () => this.#go(this.#step + 1)),
        button("lesson-before", "TLP before", () => this.#take(this.#tlp - 1)),
        button("lesson-after", "Next TLP", () => this.#take(this.#tlp + 1)),
      ),
      this.#seen,
    );
    this.#choose(this.#way.name);
    // The first step is not a user's.
    this.#shown = shown;
  }

  #choose(name: string): void {
    this.#way = this.#ways.find((way) => way.name === name) ?? this.#way;
    this.#tlps = tlpsOf(this.#trace, this.#way);
    this.#take(0);
  }

  #take(tlp: number): void {
    this.#tlp = Math.min(Math.max(tlp, 0), this.#tlps.length - 1);
    this.#steps = stepsOf(this.#trace, this.#way, this.#tlps[this.#tlp]!);
    this.#go(0);
  }

  #go(step: number): void {
    this.#step = Math.min(Math.max(step, 0), this.#steps.length - 1);
    const { words, at, event, ledger } = this.#steps[this.#step]!;
    const set = (id: string, isOff: boolean) => {
      const button = this.#box.querySelector<HTMLButtonElement>(`#${id}`);
      // A button that is focused stays so: it says that it does nothing.
      button?.setAttribute("aria-disabled", String(isOff));
    };
    set("lesson-back", this.#step === 0);
    set("lesson-next", this.#step === this.#steps.length - 1);
    set("lesson-before", this.#tlp === 0);
    set("lesson-after", this.#tlp === this.#tlps.length - 1);
    const of = (index: number, all: unknown[]) => `${index + 1} of ${all.length}`;
    const place = `TLP ${of(this.#tlp, this.#tlps)}, step ${of(this.#step, this.#steps)}`;
    this.#shown(event);
    this.#seen.replaceChildren(
      make("p", { class: "note" }, place),
      make("p", { id: "lesson-said", role: "status" }, `${time(at)}: ${words}`),
      make("div", { class: "lesson" }, this.#ladder(), this.#table(ledger)),
    );
  }

  #table(ledger: Step["ledger"]): HTMLElement {
    const words = ({ header, data }: Count) =>
      header === null && data === null ? "infinite" : `${header ?? "∞"} + ${data ?? "∞"}`;
    const row = (index: number) =>
      make(
        "tr",
        {},
        make("th", { scope: "row" }, CLASSES[index]!),
        make("td", { class: "number" }, words(ledger.available[index]!)),
        make("td", { class: "number" }, words(ledger.free[index]!)),
      );
    return make(
      "div",
      {},
      make(
        "table",
        { id: "ledger" },
        make("caption", {}, "Credits now: headers + data of 16 B"),
        make(
          "thead",
          {},
          make(
            "tr",
            {},
            make("th", { scope: "col" }, "class"),
            make("th", { scope: "col", class: "number" }, `${this.#way.from} may send`),
            make("th", { scope: "col", class: "number" }, `${this.#way.to} has free`),
          ),
        ),
        make("tbody", {}, row(0), row(1), row(2)),
      ),
      make(
        "p",
        { class: "note" },
        `TLPs of ${this.#way.from} that wait for their Ack: ${ledger.unacknowledged}. `,
        "The two columns differ by what is on its way.",
      ),
    );
  }

  /** The place of a time: steps keep a least distance, between them time is even. */
  #scale(): (at: number) => number {
    const times = this.#steps.map(({ at }) => at);
    const span = Math.max(times.at(-1)! - times[0]!, 1);
    const places: number[] = [];
    times.forEach((at, index) => {
      const even = TOP + 16 + (SPREAD * (at - times[0]!)) / span;
      const before = places[index - 1];
      places.push(before === undefined ? even : Math.max(even, before + LEAST_GAP));
    });
    return (at) => {
      const next = times.findIndex((it) => it >= at);
      if (next === 0) return places[0]!;
      if (next < 0) return places.at(-1)! + 12;
      const [low, high] = [times[next - 1]!, times[next]!];
      const share = high > low ? (at - low) / (high - low) : 1;
      return places[next - 1]! + share * (places[next]! - places[next - 1]!);
    };
  }

  #ladder(): SVGElement {
    const place = this.#scale();
    const [first, last] = [this.#steps[0]!.at, this.#steps.at(-1)!.at];
    const height = place(last) + 26;
    const svg = shape("svg", {
      class: "ladder",
      viewBox: `0 0 ${WIDTH} ${Math.round(height)}`,
      role: "img",
      "aria-label": `Packets between ${this.#way.from} and ${this.#way.to}`,
    });
    for (const [x, name, anchor] of [
      [SIDES.from, this.#way.from, "middle"],
      [SIDES.to, this.#way.to, "middle"],
    ] as const) {
      svg.append(
        shape("text", { class: "side", x, y: 16, "text-anchor": anchor }, name),
        shape("line", { class: "life", x1: x, x2: x, y1: TOP - 10, y2: height - 6 }),
      );
    }
    const own = new Set(this.#steps.map(({ event }) => event));
    const arrow = (event: number, kind: string) => {
      const [at, direction] = this.#trace.events[event]!;
      const isThere = direction === this.#way.there;
      const [x1, x2] = isThere ? [SIDES.from, SIDES.to] : [SIDES.to, SIDES.from];
      const [y1, y2] = [place(at), place(arrivalOf(this.#trace, event))];
      svg.append(shape("line", { class: `packet ${kind}`, x1, x2, y1, y2 }));
      const by = Math.sign(x2 - x1);
      const head = `M${x2} ${y2}l${-9 * by} -4.5v9z`;
      svg.append(shape("path", { class: `head ${kind}`, d: head }));
    };
    let others = 0;
    this.#trace.events.forEach(([at, direction, , kind], event) => {
      const isHere = direction === this.#way.there || direction === this.#way.back;
      const isSeen = at >= first && arrivalOf(this.#trace, event) <= last;
      if (!isHere || !isSeen || kind === "idle" || kind === "retrain" || own.has(event)) return;
      if (others < MOST_OTHERS) arrow(event, "other");
      others += 1;
    });
    const done = this.#steps.slice(0, this.#step + 1);
    for (const event of own) {
      const isDone = done.some((step) => step.event === event);
      const isTlp = this.#trace.events[event]![3] !== "dllp";
      arrow(event, `${isTlp ? "tlp" : "dllp"} ${isDone ? "is-done" : "is-coming"}`);
    }
    this.#steps.forEach((step, index) => {
      const isThere = this.#trace.events[step.event]![1] === this.#way.there;
      const isAtFrom = isThere === (step.end === "leaves");
      const x = isAtFrom ? SIDES.from : SIDES.to;
      const y = place(step.at);
      const kind = index === this.#step ? "is-now" : index < this.#step ? "is-done" : "is-coming";
      svg.append(
        shape("circle", { class: `dot ${kind}`, cx: x, cy: y, r: index === this.#step ? 6 : 4 }),
        shape(
          "text",
          {
            class: `moment ${kind}`,
            x: isAtFrom ? x - 12 : x + 12,
            y: y + 4,
            "text-anchor": isAtFrom ? "end" : "start",
          },
          time(step.at),
        ),
      );
    });
    return svg;
  }
}
