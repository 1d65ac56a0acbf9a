// SPDX-License-Identifier: Apache-2.0 OR MIT
// Building: what a user does to the tree becomes edits of the lab file's text, which stays the one
// source. A node that is chosen shows its keys in the panel.

import type { AnswerTo, Edit, Failure, Labs, Outline, Question } from "./answers.ts";
import { byId } from "./dom.ts";
import { draggable } from "./drag.ts";
import { Palette } from "./palette.ts";
import { PartPanel } from "./part_panel.ts";
import { type Flow, labOf, type State, type Store } from "./state.ts";
import type { Tree } from "./tree.ts";

/** A lab without nodes. */
export const EMPTY = `[lab]
format = 1
name = "mine"
summary = "Built by hand."
`;

/** The parts of the page that building needs. */
export interface Page {
  client: { ask<Q extends Question>(question: Q): Promise<AnswerTo<Q>> };
  store: Store;
  tree: Tree;
  status(text: string): void;
}

/** Flows whose ends are nodes; at least one, from the first card to the first host. */
export function flowsIn(outline: Outline, flows: Flow[]): Flow[] {
  const names = new Set(outline.nodes.map(({ name }) => name));
  const kept = flows.filter(({ from, to }) => names.has(from) && names.has(to));
  if (kept.length) return kept;
  const first = (kind: string) => outline.nodes.find((node) => node.kind === kind)?.name ?? "";
  return [{ from: first("endpoint"), to: first("host"), kind: "write", size: "4K" }];
}

export class Build {
  #page: Page;
  #palette: Palette;
  #panel: PartPanel;
  #labs: Labs | null = null;
  #outline: Outline | null = null;
  #failure: Failure | null = null;
  #chosen: string | null = null;
  /** Edits wait for those before them: each begins with the text that they leave. */
  #queue: Promise<void> = Promise.resolve();

  constructor(page: Page) {
    this.#page = page;
    const cardAt = (x: number, y: number) => page.tree.cardAt(x, y);
    this.#palette = new Palette({
      add: (part, below) => this.edit({ edit: "add", part, below }, `${part} is added.`),
      dropping: { can: (node) => this.#takes(node), drop: () => {}, cardAt },
    });
    this.#panel = new PartPanel({
      edit: (edit, said) => this.edit(edit, said),
      close: () => this.#close(),
    });
    byId("part").addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.#close();
    });
    this.#panel.onAsked(() => void this.#showPanel());
    byId("tree").addEventListener("keydown", (event) => {
      const node = (event.target as SVGElement).dataset["node"];
      if (!this.isOn || !node) return;
      if (event.key === "Escape") this.#close();
      if (event.key !== "Delete") return;
      event.preventDefault();
      this.edit({ edit: "remove", node }, `${node} is removed.`);
    });
  }

  /** Whether the page builds now; otherwise cards are the ends of flows. */
  get isOn(): boolean {
    return byId("page").dataset["mode"] === "build";
  }

  /** Begins or ends building. */
  turn(isOn: boolean): void {
    byId("page").dataset["mode"] = isOn ? "build" : "flows";
    byId<HTMLInputElement>(isOn ? "mode-build" : "mode-flows").checked = true;
    this.#page.tree.hasSwitches = isOn;
    this.#page.tree.again();
    this.drawn();
    if (!isOn) this.choose(null);
    byId("hint").textContent = isOn
      ? "Choose a part for its keys; drag parts onto a host or switch, or use the buttons."
      : "Choose two cards, one after the other, for a flow between them.";
  }

  /** Takes the tree of the lab file, and what is wrong in it. */
  show(labs: Labs, outline: Outline | null, failure: Failure | null): void {
    this.#labs = labs;
    this.#failure = failure;
    if (outline) this.#outline = outline;
    this.#palette.show(labs, this.#outline);
    const isThere = this.#outline?.nodes.some(({ name }) => name === this.#chosen);
    if (this.#chosen && !isThere) this.#chosen = null;
    this.#page.tree.fault(this.#nodesOf(failure), failure?.message ?? "");
    void this.#showPanel();
  }

  /** Lets the cards of a new drawing be dragged. */
  drawn(): void {
    if (!this.isOn) return;
    for (const card of byId("tree").querySelectorAll<SVGElement>("[data-node]")) {
      if (card.dataset["draggable"]) continue;
      card.dataset["draggable"] = "true";
      const node = card.dataset["node"]!;
      draggable(card, node, {
        can: (below) => this.#takes(below) && !this.#isBelow(below, node),
        drop: (below) => this.edit({ edit: "move", node, below }, `${node} is below ${below}.`),
        cardAt: (x, y) => this.#page.tree.cardAt(x, y),
      });
    }
    this.#page.tree.choose(this.#chosen);
    this.#page.tree.fault(this.#nodesOf(this.#failure), this.#failure?.message ?? "");
  }

  /** Takes a card that a user has chosen. */
  look(node: string): void {
    this.choose(node);
    this.#page.status(`${node}: its keys are in the panel behind the drawing.`);
  }

  /** Chooses a node for the panel. */
  choose(node: string | null): void {
    this.#chosen = node;
    this.#page.tree.choose(node);
    const found = this.#outline?.nodes.find(({ name }) => name === node);
    if (found) this.#palette.place(found.kind === "endpoint" ? (found.above ?? "") : found.name);
    void this.#showPanel();
  }

  /** Makes an edit. */
  edit(edit: Edit, said: string): void {
    this.#queue = this.#queue.then(async () => {
      const { client, store, status } = this.#page;
      const { state } = store;
      try {
        const { text, added } = await client.ask({ ask: "edit", lab: labOf(state), edit });
        const outline = await client.ask({ ask: "outline", lab: { name: state.name, text } });
        const flows = flowsIn(outline, this.#renamed(state, edit));
        this.#outline = outline;
        if (added) this.#chosen = added;
        if (edit.edit === "rename" && this.#chosen === edit.node) this.#chosen = edit.name;
        store.change({ text, flows, what_if: {} });
        status(added ? `${added}: ${said}` : said);
        if (added) this.choose(added);
      } catch (error) {
        status(error instanceof Error ? error.message : String(error));
        void this.#showPanel();
      }
    });
  }

  /** Closes the panel and goes back to its card. */
  #close(): void {
    const node = this.#chosen;
    this.choose(null);
    byId("tree").querySelector<SVGElement>(`[data-node="${CSS.escape(node ?? "")}"]`)?.focus();
  }

  #renamed({ flows }: State, edit: Edit): Flow[] {
    if (edit.edit !== "rename") return flows;
    const named = (name: string) => (name === edit.node ? edit.name : name);
    return flows.map((flow) => ({ ...flow, from: named(flow.from), to: named(flow.to) }));
  }

  /** Whether other nodes can be below a node. */
  #takes(node: string): boolean {
    const found = this.#outline?.nodes.find(({ name }) => name === node);
    return !!found && found.kind !== "endpoint";
  }

  #isBelow(node: string, upper: string): boolean {
    const uppersOf = new Map(this.#outline?.nodes.map(({ name, above }) => [name, above]));
    let at: string | null | undefined = node;
    // A file with errors may have nodes in a ring.
    for (let steps = 0; at && steps < uppersOf.size; steps += 1) {
      if (at === upper) return true;
      at = uppersOf.get(at);
    }
    return false;
  }

  /** The nodes that an error is about: those of the table that it names. */
  #nodesOf(failure: Failure | null): string[] {
    const key = failure?.place?.key.replace(/^variant\.[^.]+\./, "");
    if (!key) return [];
    const names = ({ paths }: Outline["nodes"][number]) =>
      paths.some((path) => key === path || key.startsWith(`${path}.`));
    return (this.#outline?.nodes ?? []).filter(names).map(({ name }) => name);
  }

  async #showPanel(): Promise<void> {
    const { client, store, tree } = this.#page;
    const [node, outline] = [this.#chosen, this.#outline];
    if (!this.isOn || !node || !outline || !this.#labs) {
      this.#panel.hide();
      return;
    }
    try {
      const view = await client.ask({ ask: "node", lab: labOf(store.state), node });
      if (node !== this.#chosen) return;
      const isFirst = byId("part").hidden;
      this.#panel.show(view, outline);
      // The drawing is narrower beside the panel.
      if (isFirst) tree.reveal(node);
      const paths = outline.nodes.find(({ name }) => name === node)?.paths ?? [];
      this.#panel.fault(this.#failure, paths);
      tree.choose(node);
    } catch {
      // The text is no TOML at this moment: the editor says so.
      this.#panel.hide();
    }
  }
}
