// SPDX-License-Identifier: Apache-2.0 OR MIT
// The palette: parts of the lab's file and of the library, to add below a host or a switch. A list
// that arrow keys go through; Enter adds what is chosen, and so does a drag onto the drawing.

import type { Labs, Outline } from "./answers.ts";
import { byId, choices, make } from "./dom.ts";
import { draggable, type Dropping } from "./drag.ts";

/** A part that can be added. */
interface Part {
  name: string;
  kind: string;
  summary: string;
}

const KINDS = [
  { kind: "root-complex", title: "Root complexes" },
  { kind: "switch", title: "Switches" },
  { kind: "endpoint", title: "Cards and drives" },
];

/** Takes a part: onto a host or switch, or by itself if it is a root complex. */
export interface PaletteHears {
  /** Adds a part below a node; `null` for a root complex. */
  add(part: string, below: string | null): void;
  /** The end of a drag. */
  dropping: Dropping;
}

export class Palette {
  #list = byId("palette");
  #add = byId<HTMLButtonElement>("palette-add");
  #below = byId<HTMLSelectElement>("palette-below");
  #filter = byId<HTMLInputElement>("palette-filter");
  #hears: PaletteHears;
  #library: Part[] = [];
  #own: Part[] = [];
  #chosen: string | null = null;

  constructor(hears: PaletteHears) {
    this.#hears = hears;
    this.#add.addEventListener("click", () => this.#addChosen());
    this.#below.addEventListener("change", () => this.#name());
    this.#filter.addEventListener("input", () => this.#show());
    this.#filter.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowDown" && event.key !== "Enter") return;
      event.preventDefault();
      this.#list.focus();
    });
    this.#list.addEventListener("keydown", (event) => this.#key(event));
    this.#list.addEventListener("dblclick", () => this.#addChosen());
  }

  /** Takes the parts that there are. */
  show(labs: Labs, outline: Outline | null): void {
    this.#library = labs.parts;
    const kinds = KINDS.map(({ kind }) => kind);
    this.#own = (outline?.parts ?? []).filter(({ kind }) => kinds.includes(kind));
    const uppers = (outline?.nodes ?? []).filter(({ kind }) => kind !== "endpoint");
    choices(
      this.#below,
      uppers.map(({ name }) => name),
      this.#below.value,
    );
    this.#show();
  }

  /** Chooses the place that parts are added below. */
  place(node: string): void {
    const isThere = [...this.#below.options].some(({ value }) => value === node);
    if (isThere) this.#below.value = node;
    this.#name();
  }

  #parts(): { title: string; parts: Part[] }[] {
    const word = this.#filter.value.trim().toLowerCase();
    const fits = ({ name, summary }: Part) =>
      !word || `${name} ${summary}`.toLowerCase().includes(word);
    const own = new Set(this.#own.map(({ name }) => name));
    const groups = KINDS.map(({ kind, title }) => {
      const all = this.#library.filter((part) => part.kind === kind && !own.has(part.name));
      return { title, parts: all };
    });
    return [{ title: "In this lab", parts: this.#own }, ...groups]
      .map(({ title, parts }) => ({ title, parts: parts.filter(fits) }))
      .filter(({ parts }) => parts.length > 0);
  }

  #show(): void {
    const groups = this.#parts();
    const all = groups.flatMap(({ parts }) => parts);
    if (!all.some(({ name }) => name === this.#chosen)) this.#chosen = all[0]?.name ?? null;
    const option = (part: Part) => {
      const item = make(
        "li",
        {
          role: "option",
          id: `palette-part-${part.name}`,
          "data-part": part.name,
          title: part.summary,
          onclick: () => this.#choose(part.name),
        },
        make("span", { class: "part-name" }, part.name),
        make("span", { class: "part-summary" }, part.summary),
      );
      draggable(item, part.name, {
        can: (node) => part.kind !== "root-complex" && this.#hears.dropping.can(node),
        drop: (node) => this.#hears.add(part.name, node),
        cardAt: this.#hears.dropping.cardAt,
        ...(part.kind === "root-complex"
          ? { elsewhere: () => this.#hears.add(part.name, null) }
          : {}),
      });
      return item;
    };
    const made = groups.map(({ title, parts }, index) => {
      const id = `parts-${index}`;
      return make(
        "li",
        { role: "presentation" },
        make("span", { class: "group-title", id }, title),
        make("ul", { role: "group", "aria-labelledby": id }, ...parts.map(option)),
      );
    });
    const none = make("li", { class: "note", role: "presentation" }, "No part has these words.");
    this.#list.replaceChildren(...(made.length ? made : [none]));
    this.#mark();
  }

  #kind(): string | undefined {
    return [...this.#own, ...this.#library].find(({ name }) => name === this.#chosen)?.kind;
  }

  #name(): void {
    const isHost = this.#kind() === "root-complex";
    const below = this.#below.value;
    this.#below.disabled = isHost;
    this.#add.disabled = !this.#chosen || (!isHost && !below);
    const place = isHost ? "as a host" : below ? `below ${below}` : "(first add a root complex)";
    this.#add.textContent = `Add ${this.#chosen ?? ""} ${place}`;
  }

  #mark(): void {
    for (const item of this.#list.querySelectorAll<HTMLElement>("[data-part]")) {
      item.setAttribute("aria-selected", String(item.dataset["part"] === this.#chosen));
    }
    const id = `palette-part-${this.#chosen ?? ""}`;
    this.#list.setAttribute("aria-activedescendant", id);
    this.#name();
  }

  #choose(name: string): void {
    this.#chosen = name;
    this.#mark();
  }

  #key(event: KeyboardEvent): void {
    const names = this.#parts().flatMap(({ parts }) => parts.map(({ name }) => name));
    const at = names.indexOf(this.#chosen ?? "");
    const steps: Record<string, number> = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      PageDown: at + 10,
      PageUp: at - 10,
      Home: 0,
      End: names.length - 1,
    };
    const to = steps[event.key];
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.#addChosen();
    } else if (to !== undefined) {
      event.preventDefault();
      const name = names[Math.min(Math.max(to, 0), names.length - 1)];
      if (!name) return;
      this.#choose(name);
      const chosen = byId(`palette-part-${name}`);
      // Only the list scrolls, not the page.
      const [top, bottom] = [chosen.offsetTop, chosen.offsetTop + chosen.offsetHeight];
      const list = this.#list;
      if (top < list.scrollTop) list.scrollTop = top;
      else if (bottom > list.scrollTop + list.clientHeight) {
        list.scrollTop = bottom - list.clientHeight;
      }
    }
  }

  #addChosen(): void {
    if (!this.#chosen || this.#add.disabled) return;
    const isHost = this.#kind() === "root-complex";
    this.#hears.add(this.#chosen, isHost ? null : this.#below.value);
  }
}
