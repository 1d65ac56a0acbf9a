// SPDX-License-Identifier: Apache-2.0 OR MIT
// The drawing of the lab. Rust draws it; this makes its cards choosable, and shows flows and what
// limits them.

import type { DirectionLoad, Drawn, Function_, Limit, Topology } from "./answers.ts";
import { make } from "./dom.ts";
import { percent, rate } from "./format.ts";
import type { Flow } from "./state.ts";

/** Shares of time from which on a direction has the next colour, as `crates/report` draws them. */
const LEAST_BUSY = [0.005, 0.5, 0.75, 0.9];
/** Width of an idle direction, and what a busy one has more. */
const THIN = 1.5;
const THICKER = 5.5;
/** Smallest scale of the drawing; in a narrower box it scrolls. */
const LEAST_SCALE = 0.74;
/** Cards that a drawing gets at once where it is built up behind another: no frame is late for them. */
const PIECE_CARDS = 24;

/** Children of the tree that keep its hosts, endpoints and the way between them. */
interface Nodes {
  /** The node above each node. */
  above: Map<string, string>;
  /** The node below each link, by the link's name. */
  belowLink: Map<string, string>;
  /** The directions of links, by their ports: the node below, and whether it is the way down. */
  ways: Map<string, { below: string; isDown: boolean }>;
  hosts: string[];
}

function nothing(): Nodes {
  return { above: new Map(), belowLink: new Map(), ways: new Map(), hosts: [] };
}

function nodesOf(topology: Topology): Nodes {
  const nodes = nothing();
  const walk = (functions: Function_[], node: string) => {
    for (const port of functions) {
      if (port.node !== node && !nodes.above.has(port.node)) nodes.above.set(port.node, node);
      if (port.link) {
        const { name, upper, lower } = port.link;
        nodes.belowLink.set(name, port.node);
        nodes.ways.set(`${upper} -> ${lower}`, { below: port.node, isDown: true });
        nodes.ways.set(`${lower} -> ${upper}`, { below: port.node, isDown: false });
      }
      walk(port.children ?? [], port.node);
    }
  };
  for (const host of topology.hosts) {
    nodes.hosts.push(host.name);
    walk(host.functions, host.name);
  }
  return nodes;
}

/** Writes a word into the upper right corner of a card; an empty one is taken away. */
function label(card: SVGElement, word: string): void {
  card.querySelector(".end-word")?.remove();
  const rect = card.querySelector("rect");
  if (!word || !rect) return;
  const text = document.createElementNS("http://www.w3.org/2000/svg", "text");
  const at = (name: string) => Number(rect.getAttribute(name));
  text.setAttribute("class", "end-word");
  text.setAttribute("x", String(at("x") + at("width") - 8));
  text.setAttribute("y", String(at("y") + 14));
  text.textContent = word;
  card.append(text);
}

/** The elements of a drawing. */
function elementsOf(svg: string): SVGSVGElement {
  const parsed = new DOMParser().parseFromString(svg, "text/html");
  return document.adoptNode(parsed.querySelector("svg")!);
}

/** A drawing without its cards, and pieces of these. */
function piecesOf(drawing: string): [SVGSVGElement, string[]] {
  // Each card follows the link to it; nothing is nested.
  const cards = drawing.slice(0, -"</svg>".length).split(/(?=<g class="card )/);
  const head = cards.shift() ?? "";
  const pieces: string[] = [];
  while (cards.length) pieces.push(cards.splice(0, PIECE_CARDS).join(""));
  return [elementsOf(`${head}</svg>`), pieces];
}

function nextFrame(): Promise<unknown> {
  return new Promise(requestAnimationFrame);
}

/** The drawing in its box. */
export class Tree {
  #box: HTMLElement;
  /** The drawing that is seen. */
  #svg: SVGSVGElement | null = null;
  /** Number of the drawing that was asked for last. */
  #number = 0;
  #nodes = nothing();
  #choose: (node: string) => void;
  /** Whether switches can be chosen as well, which have no memory but can be built upon. */
  hasSwitches = false;
  #drawn: Drawn | null = null;

  /** `choose` is called with the card that a user has chosen. */
  constructor(box: HTMLElement, choose: (node: string) => void) {
    this.#box = box;
    this.#choose = choose;
    const chosen = (event: Event): string | undefined =>
      (event.target as Element).closest<SVGElement>('[role="button"]')?.dataset["node"];
    box.addEventListener("click", (event) => {
      const node = chosen(event);
      if (node) this.#choose(node);
    });
    box.addEventListener("keydown", (event) => {
      const node = chosen(event);
      if (!node || (event.key !== "Enter" && event.key !== " ")) return;
      event.preventDefault();
      this.#choose(node);
    });
  }

  get hosts(): string[] {
    return this.#nodes.hosts;
  }

  /** Shows the drawing once more, after a change of what can be chosen. */
  again(): void {
    if (this.#drawn) this.show(this.#drawn);
  }

  /** Shows an element in place of a drawing. */
  blank(said: HTMLElement): void {
    this.#number += 1;
    this.#drawn = null;
    this.#svg = null;
    this.#nodes = nothing();
    this.#box.replaceChildren(said);
  }

  /** Shows a drawing. */
  show(drawn: Drawn): void {
    this.#number += 1;
    this.#turn(drawn, elementsOf(drawn.svg));
  }

  /**
   * Shows a drawing once it is laid out, which takes as many frames as it has pieces; until then
   * the one before is seen. False if another one was asked for meanwhile.
   */
  async showBehind(drawn: Drawn): Promise<boolean> {
    this.#number += 1;
    const number = this.#number;
    const [svg, pieces] = piecesOf(drawn.svg);
    svg.classList.add("is-coming");
    svg.setAttribute("aria-hidden", "true");
    this.#box.append(svg);
    // The last frame, without a piece, lays out the one before.
    for (const piece of [...pieces, ""]) {
      await nextFrame();
      if (number !== this.#number) {
        svg.remove();
        return false;
      }
      if (piece) svg.append(...elementsOf(`<svg>${piece}</svg>`).childNodes);
    }
    svg.classList.remove("is-coming");
    svg.removeAttribute("aria-hidden");
    this.#turn(drawn, svg);
    return true;
  }

  /** Makes a drawing the one that is seen. */
  #turn(drawn: Drawn, svg: SVGSVGElement): void {
    this.#drawn = drawn;
    this.#nodes = nodesOf(drawn.topology);
    const focused = (document.activeElement as SVGElement | null)?.dataset?.["node"];
    svg.setAttribute("role", "group");
    const width = Number(svg.getAttribute("width"));
    svg.style.minWidth = `${Math.round(width * LEAST_SCALE)}px`;
    this.#svg = svg;
    for (const other of [...this.#box.childNodes]) if (other !== svg) other.remove();
    if (!svg.isConnected) this.#box.append(svg);
    for (const card of this.#cards()) {
      // Hosts and endpoints have memory; switches only pass on.
      if (card.classList.contains("switch") && !this.hasSwitches) continue;
      card.setAttribute("role", "button");
      card.setAttribute("tabindex", "0");
      card.setAttribute("aria-label", card.dataset["node"] ?? "");
      if (card.dataset["node"] === focused) card.focus();
    }
  }

  #all<E extends Element>(selector: string): E[] {
    return [...(this.#svg?.querySelectorAll<E>(selector) ?? [])];
  }

  #cards(): SVGElement[] {
    return this.#all("[data-node]");
  }

  /** A node and all above it. */
  #up(node: string): string[] {
    const way = [node];
    for (let at = this.#nodes.above.get(node); at; at = this.#nodes.above.get(at)) way.push(at);
    return way;
  }

  /** The nodes below the links between two nodes: each names one link. */
  #way(from: string, to: string): string[] {
    const [first, second] = [this.#up(from), this.#up(to)];
    const common = first.find((node) => second.includes(node));
    const before = (way: string[]) => way.slice(0, common ? way.indexOf(common) : way.length);
    return [...before(first), ...before(second)];
  }

  /** Marks the ends, links and directions of flows, and the card that is chosen so far. */
  mark(flows: Flow[], armed: string | null): void {
    const used = new Set(flows.flatMap(({ from, to }) => this.#way(from, to)));
    this.#arrows(flows);
    for (const link of this.#all<SVGElement>("[data-below]")) {
      link.classList.toggle("is-used", used.has(link.dataset["below"]!));
    }
    for (const card of this.#cards()) {
      const node = card.dataset["node"]!;
      const isFrom = flows.some((flow) => flow.from === node);
      const isTo = flows.some((flow) => flow.to === node);
      card.classList.toggle("is-from", isFrom);
      card.classList.toggle("is-to", isTo);
      card.classList.toggle("is-armed", node === armed);
      const moves = ({ kind, size }: Flow) => `${kind}s ${size}`;
      const words = new Set(flows.filter((flow) => flow.from === node).map(moves));
      label(card, [...words, isTo && "to"].filter((word) => word !== false).join(", "));
      if (!card.hasAttribute("role")) continue;
      if (!this.hasSwitches) card.setAttribute("aria-pressed", String(node === armed));
      const ends = [isFrom && "a flow begins here", isTo && "a flow ends here"].filter(Boolean);
      const above = this.hasSwitches && this.#nodes.above.get(node);
      const said = [node, above && `below ${above}`, ...ends];
      card.setAttribute("aria-label", said.filter(Boolean).join(", "));
    }
  }

  /** Draws an arrow onto each link that data cross, in their direction. */
  #arrows(flows: Flow[]): void {
    for (const arrow of this.#all(".flow-arrow")) arrow.remove();
    const paths = new Map<string, SVGPathElement[]>();
    for (const path of this.#all<SVGPathElement>("path[data-below]")) {
      const below = path.dataset["below"]!;
      paths.set(below, [...(paths.get(below) ?? []), path]);
    }
    const drawn = new Set<string>();
    for (const { from, to, kind } of flows) {
      const [first, second] = kind === "write" ? [from, to] : [to, from];
      const way = this.#way(first, second);
      const up = new Set(this.#up(first));
      for (const below of way) {
        const isDown = !up.has(below);
        const key = `${below} ${isDown}`;
        // One path for both directions, or first that down and then that up.
        const of = paths.get(below) ?? [];
        const path = of[isDown ? 0 : of.length - 1];
        if (!path || drawn.has(key)) continue;
        drawn.add(key);
        // On the straight part, before its lower end.
        const middle = Math.max(path.getTotalLength() / 2, path.getTotalLength() - 40);
        const [at, next] = [path.getPointAtLength(middle), path.getPointAtLength(middle + 1)];
        const angle = (Math.atan2(next.y - at.y, next.x - at.x) * 180) / Math.PI;
        const arrow = document.createElementNS("http://www.w3.org/2000/svg", "path");
        arrow.setAttribute("class", "flow-arrow");
        arrow.setAttribute("d", "M-6 -6L7 0L-6 6Z");
        const turn = isDown ? angle : angle + 180;
        arrow.setAttribute("transform", `translate(${at.x} ${at.y}) rotate(${turn})`);
        this.#svg?.append(arrow);
      }
    }
  }

  /** Marks the card that is shown in the panel, and those that others may be moved to. */
  choose(node: string | null): void {
    for (const card of this.#cards()) {
      const isChosen = card.dataset["node"] === node;
      card.classList.toggle("is-chosen", isChosen);
      if (this.hasSwitches) card.setAttribute("aria-pressed", String(isChosen));
    }
  }

  /** The card at a place of the window. */
  cardAt(x: number, y: number): SVGElement | null {
    const found = document.elementFromPoint(x, y)?.closest<SVGElement>("[data-node]");
    return found && this.#box.contains(found) ? found : null;
  }

  /** Outlines cards in which something is wrong, with the sentence beside the first of them. */
  fault(nodes: string[], sentence: string): void {
    this.#box.querySelector(".part-note")?.remove();
    const cards = this.#cards().filter((card) => nodes.includes(card.dataset["node"]!));
    for (const card of this.#cards()) card.classList.toggle("is-fault", cards.includes(card));
    const [first] = cards;
    if (!first || !sentence) return;
    const box = this.#box.getBoundingClientRect();
    const seen = first.getBoundingClientRect();
    const note = make("p", { class: "part-note" }, sentence);
    this.#box.append(note);
    this.reveal(first.dataset["node"]);
    // Below the card, within what is seen of the drawing.
    const most = this.#box.scrollLeft + this.#box.clientWidth - note.offsetWidth - 8;
    const left = Math.min(seen.left - box.left + this.#box.scrollLeft, most);
    note.style.left = `${Math.max(8, left)}px`;
    note.style.top = `${seen.bottom - box.top + this.#box.scrollTop + 4}px`;
  }

  /** Scrolls the drawing, if it has to, until a card is seen. */
  reveal(node: string | undefined): void {
    const card = this.#cards().find((it) => it.dataset["node"] === node);
    const box = this.#box.getBoundingClientRect();
    const seen = card?.getBoundingClientRect();
    if (!seen) return;
    if (seen.right > box.right) this.#box.scrollLeft += seen.right - box.right + 16;
    if (seen.bottom > box.bottom) this.#box.scrollTop += seen.bottom - box.bottom + 16;
  }

  /** Whether the drawing has loads, which can be updated. */
  get hasLoads(): boolean {
    return this.#all(".way").length > 0;
  }

  /** Updates the loads of a drawing that has some, in place: colours, widths and words. */
  update(loads: DirectionLoad[]): void {
    const ways = new Map<string, SVGElement[]>();
    for (const way of this.#all<SVGElement>(".way[data-below]")) {
      const below = way.dataset["below"]!;
      ways.set(below, [...(ways.get(below) ?? []), way]);
    }
    for (const { direction, busy_share, payload_bytes_per_second } of loads) {
      const found = this.#nodes.ways.get(direction);
      const [down, up] = (found && ways.get(found.below)) ?? [];
      const way = found?.isDown ? down : up;
      if (!way || !up) continue;
      const busy = Math.min(Math.max(busy_share, 0), 1);
      const step = LEAST_BUSY.filter((least) => busy >= least).length;
      const isUsed = way.classList.contains("is-used");
      way.setAttribute("class", `way load${step}${isUsed ? " is-used" : ""}`);
      way.setAttribute("stroke-width", (THIN + THICKER * busy).toFixed(1));
      way.querySelector("title")?.remove();
      // Behind the way up stand the link's rate and the words of both directions.
      const words: Element[] = [];
      for (let at = up.nextElementSibling; at?.tagName === "text"; at = at.nextElementSibling) {
        if (at.classList.contains("load-words")) words.push(at);
      }
      const text = words[found!.isDown ? 0 : 1];
      const arrow = found!.isDown ? "→" : "←";
      if (!text) continue;
      text.textContent = `${arrow} ${percent(busy_share)} · ${rate(payload_bytes_per_second)}`;
      text.setAttribute("class", `load-words is-step${step}`);
    }
  }

  /** Outlines what limits a run. */
  outline(limits: Limit[]): void {
    const places = new Set(limits.map((limit) => this.nodeOf(limit.place)));
    const links = new Set(limits.map((limit) => this.#linkOf(limit.place)));
    for (const card of this.#cards()) {
      card.classList.toggle("is-limit", places.has(card.dataset["node"]!));
    }
    for (const link of this.#all<SVGElement>("[data-below]")) {
      link.classList.toggle("is-limit", links.has(link.dataset["below"]!));
    }
  }

  /** The node below a link, which is named or given as `PORT -> PORT`. */
  #linkOf(place: string): string | undefined {
    const named = this.#nodes.belowLink.get(place);
    const [first, second] = place.split(" -> ").map((end) => this.nodeOf(end));
    if (named || !first || !second) return named;
    return this.#nodes.above.get(first) === second ? first : second;
  }

  /** The node that a place is, or is part of; `null` if it is a link or a flow. */
  nodeOf(place: string): string | null {
    const known = (name: string) =>
      this.#nodes.hosts.includes(name) || this.#nodes.above.has(name) ? name : null;
    return known(place) ?? known(place.slice(0, Math.max(0, place.lastIndexOf("."))));
  }
}

/** The words of a legend of loads: the steps of the drawing's colours. */
export const STEPS = ["idle", "below 50 %", "50 to 75 %", "75 to 90 %", "90 % or more"];

/** The busiest direction of a run. */
export function busiest(loads: DirectionLoad[]): DirectionLoad | undefined {
  return loads.reduce<DirectionLoad | undefined>(
    (most, load) => (most && most.busy_share >= load.busy_share ? most : load),
    undefined,
  );
}
