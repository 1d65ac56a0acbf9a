// SPDX-License-Identifier: Apache-2.0 OR MIT
// The panel of one node: every key that it can have, as the lab's reader declares it, with value,
// unit, allowed values and source. A change is an edit of the lab file.

import type { Edit, Failure, KeyView, NodeView, Outline, Scalar, TableView } from "./answers.ts";
import { byId, choices, make } from "./dom.ts";
import { size } from "./format.ts";

/** Source of a value that is set here, until another is written. */
const SOURCE = "assumption: set by hand";
/** Bytes from which they are also shown in KiB. */
const LARGE_BYTES = 1024;

/** Takes the wishes of the panel. */
export interface PanelHears {
  /** Makes an edit; `said` is shown when it is done. */
  edit(edit: Edit, said: string): void;
  /** Closes the panel. */
  close(): void;
}

/** A value that is typed; `null` for none. */
function typed(text: string, key: KeyView): Scalar | null {
  const word = text.trim();
  if (word === "") return null;
  const { schema } = key;
  if (schema.type === "boolean") return word === "true";
  const isWord =
    schema.type === "string" || schema.pattern || schema.enum?.some((it) => typeof it === "string");
  const number = Number(word.replaceAll("_", ""));
  return isWord || Number.isNaN(number) ? word : number;
}

function words(value: Scalar | null): string {
  return value === null ? "" : String(value);
}

/** The place of a key among those of its table. */
function rank({ value, is_constant }: KeyView): number {
  return value === null ? 2 : is_constant ? 0 : 1;
}

/** A text whose words in backquotes are code. */
function marked(text: string): (HTMLElement | string)[] {
  return text.split("`").map((piece, index) => (index % 2 ? make("code", {}, piece) : piece));
}

/** The choices of a key that has a list of them. */
function listOf({ schema }: KeyView): string[] | null {
  if (schema.type === "boolean") return ["true", "false"];
  return schema.enum?.map(String) ?? null;
}

export class PartPanel {
  #box = byId("part");
  #hears: PanelHears;
  #view: NodeView | null = null;
  /** Whether changes are those of the part, which other nodes may share. */
  #isShared = false;
  /** Tables that a user has opened or asked for. */
  #open = new Set(["host", "switch", "link", "requester"]);
  #asked = new Set<string>();

  constructor(hears: PanelHears) {
    this.#hears = hears;
  }

  /** Hides the panel. */
  hide(): void {
    this.#view = null;
    this.#box.hidden = true;
  }

  /** Shows a node. */
  show(view: NodeView, outline: Outline): void {
    const isOther = this.#view?.name !== view.name;
    if (isOther) {
      this.#isShared = false;
      this.#asked.clear();
    }
    const focused = (document.activeElement as HTMLElement | null)?.id;
    const scrolled = isOther ? 0 : this.#box.scrollTop;
    this.#view = view;
    // The tables that are changed most come first.
    const first = ["requester", "link"];
    const order = ({ name }: TableView) => -first.indexOf(name);
    const shown = view.tables.filter((table) => this.#isShown(table));
    const tables = shown.sort((a, b) => order(a) - order(b));
    this.#box.replaceChildren(
      this.#head(view),
      this.#tree(view, outline),
      this.#scope(view) || "",
      make("p", { id: "part-fault", class: "fault", role: "alert", hidden: true }),
      ...tables.map((table) => this.#table(view, table)),
      this.#more(view),
    );
    this.#box.hidden = false;
    this.#box.scrollTop = scrolled;
    if (focused && this.#box.contains(document.getElementById(focused))) {
      document.getElementById(focused)?.focus({ preventScroll: true });
    }
  }

  /** Shows what is wrong beside the key that it names; `paths` are those of the node's tables. */
  fault(failure: Failure | null, paths: string[]): void {
    const said = document.getElementById("part-fault");
    if (!said || !this.#view) return;
    const key = failure?.place?.key.replace(/^variant\.[^.]+\./, "") ?? "";
    const path = paths.find((it) => key === it || key.startsWith(`${it}.`));
    said.hidden = !failure || path === undefined;
    said.textContent = said.hidden ? "" : failure!.message;
    if (path === undefined) return;
    const isLink = path.startsWith("link[") || this.#isOfLink(path);
    const rest = key.slice(path.length + 1);
    const name = isLink ? `link.${rest}` : rest;
    const field = document.getElementById(`key-${name}`);
    if (!field) return;
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("aria-describedby", "part-fault");
    for (let at = field.closest("details"); at; at = at.parentElement?.closest("details") ?? null) {
      at.open = true;
    }
    field.closest(".key-row")?.append(said);
    said.scrollIntoView({ block: "nearest" });
  }

  #isOfLink(path: string): boolean {
    const link = this.#view?.tables.find(({ name }) => name === "link");
    return link?.shared === path && path !== `part.${this.#view?.part}`;
  }

  #isShown({ name, is_absent, keys }: TableView): boolean {
    return keys.length > 0 && (!is_absent || this.#asked.has(name));
  }

  #head(view: NodeView): HTMLElement {
    const close = make(
      "button",
      { type: "button", class: "plain", "aria-label": "Close", onclick: () => this.#hears.close() },
      "×",
    );
    const what = view.kind === "host" ? "host" : view.kind;
    return make(
      "header",
      { class: "part-head" },
      make("h2", { id: "part-title", tabindex: -1 }, view.name),
      make("span", { class: "note" }, `${what} of part ${view.part}`),
      close,
    );
  }

  /** Its place in the tree and its name. */
  #tree(view: NodeView, outline: Outline): HTMLElement {
    const { name } = view;
    const uppersOf = new Map(outline.nodes.map((node) => [node.name, node.above]));
    const above = uppersOf.get(name) ?? null;
    // A file with errors may have nodes in a ring.
    const isBelow = (node: string): boolean => {
      let at: string | null | undefined = node;
      for (let steps = 0; at && steps < uppersOf.size; steps += 1) {
        if (at === name) return true;
        at = uppersOf.get(at);
      }
      return false;
    };
    const count = outline.nodes.filter((node) => isBelow(node.name)).length;
    const uppers = outline.nodes
      .filter((node) => node.kind !== "endpoint" && !isBelow(node.name))
      .map((node) => node.name);
    const below: HTMLSelectElement = make("select", {
      id: "part-below",
      onchange: () =>
        this.#hears.edit(
          { edit: "move", node: name, below: below.value },
          `${name} is below ${below.value}.`,
        ),
    });
    choices(below, uppers, above ?? "");
    const renamed: HTMLInputElement = make("input", {
      id: "part-name",
      value: name,
      onchange: () => {
        const to = renamed.value.trim();
        this.#hears.edit({ edit: "rename", node: name, name: to }, `${name} is ${to}.`);
      },
    });
    const remove = make(
      "button",
      {
        type: "button",
        class: "button",
        id: "part-remove",
        onclick: () => this.#hears.edit({ edit: "remove", node: name }, `${name} is removed.`),
      },
      count > 1 ? `Remove ${name} and ${count - 1} below` : `Remove ${name}`,
    );
    const line = (id: string, text: string, field: HTMLElement) =>
      make("div", { class: "line" }, make("label", { for: id }, text), field);
    return make(
      "div",
      {},
      line("part-name", "Name", renamed),
      view.kind !== "host" && line("part-below", "Below", below),
      make("div", { class: "buttons" }, remove),
    );
  }

  #scope({ name, part, alike, tables }: NodeView): HTMLElement | false {
    if (alike < 2) return false;
    const choice = (isShared: boolean, text: string) =>
      make(
        "label",
        {},
        make("input", {
          type: "radio",
          name: "scope",
          id: isShared ? "scope-part" : "scope-node",
          checked: this.#isShared === isShared,
          onchange: () => {
            this.#isShared = isShared;
          },
        }),
        ` ${text}`,
      );
    const cable = tables.find((table) => table.name === "link")?.shared.split(".").at(-1);
    const ofLinks = cable ? `, of a link for all of part ${cable}` : "";
    return make(
      "fieldset",
      {},
      make("legend", {}, "A change holds for"),
      choice(false, `${name} alone`),
      choice(true, `all ${alike} nodes of part ${part}${ofLinks}`),
    );
  }

  /** The table that a change is written into. */
  #place({ own, shared }: TableView): string {
    // A part that only this node has is as good as the node's own; links share theirs.
    const isOnly = this.#view?.alike === 1 && !own.startsWith("link");
    return shared && (this.#isShared || isOnly) ? shared : own;
  }

  #table(view: NodeView, table: TableView): HTMLElement {
    const { name } = table;
    const title = name || view.kind;
    const details: HTMLDetailsElement = make(
      "details",
      {
        class: "key-table",
        open: this.#open.has(title) || this.#asked.has(name),
        ontoggle: () => (details.open ? this.#open.add(title) : this.#open.delete(title)),
      },
      make("summary", {}, make("h3", {}, title)),
      make("p", { class: "note" }, ...marked(table.words)),
      // Constants that are set come first, then names and wishes.
      ...[...table.keys].sort((a, b) => rank(a) - rank(b)).map((key) => this.#key(table, key)),
    );
    return details;
  }

  #key(table: TableView, key: KeyView): HTMLElement {
    const path = [table.name, key.key].filter(Boolean).join(".");
    const id = `key-${path}`;
    const value = words(key.value);
    const changed = (text: string) => {
      const now = typed(text, key);
      if (now === null) {
        const place = key.place ?? this.#place(table);
        this.#hears.edit({ edit: "unset", place, key: key.key }, `${path} is left out.`);
      } else {
        const source = key.is_constant ? { source: SOURCE } : {};
        // Names and wishes are a node's own; only constants are those of parts.
        const place = key.is_constant ? this.#place(table) : table.own;
        const edit: Edit = { edit: "set", place, key: key.key, value: now, ...source };
        this.#hears.edit(edit, `${path} of ${this.#view!.name} is ${now}.`);
      }
    };
    const left = key.absent === "error" ? "needed" : key.absent === "-" ? "" : key.absent;
    const list = listOf(key);
    let field: HTMLInputElement | HTMLSelectElement;
    if (list) {
      const select: HTMLSelectElement = make("select", {
        id,
        onchange: () => changed(select.value),
      });
      const none = { value: "", text: left ? `(${left})` : "(left out)" };
      const all = list.includes(value) || !value ? list : [value, ...list];
      choices(select, [none, ...all.map((it) => ({ value: it, text: it }))], value);
      field = select;
    } else {
      const input: HTMLInputElement = make("input", {
        id,
        value,
        placeholder: left,
        inputmode: key.schema.type === "string" ? "text" : "decimal",
        onchange: () => changed(input.value),
      });
      field = input;
    }
    const isLarge =
      key.unit === "B" && typeof key.value === "number" && key.value >= LARGE_BYTES;
    const unit = [key.unit, isLarge && `= ${size(key.value as number)}`].filter(Boolean).join(" ");
    const range = key.range ? `between ${key.range[0]} and ${key.range[1]}; ` : "";
    return make(
      "div",
      { class: "key-row" },
      make("label", { for: id }, key.key),
      make("span", { class: "key-value" }, field, make("span", { class: "unit" }, unit)),
      make(
        "p",
        { class: "note" },
        ...marked(`${key.words} `),
        make("em", {}, ...marked(`(${range}${key.allowed})`)),
      ),
      key.source !== null && this.#source(id, table, key),
    );
  }

  /** The source of a value, which may be written anew. */
  #source(id: string, table: TableView, key: KeyView): HTMLElement {
    const input: HTMLInputElement = make("input", {
      id: `${id}-source`,
      class: "source",
      "aria-label": `Source of ${key.key}`,
      value: key.source ?? "",
      title: key.source ?? "",
      onchange: () => {
        const place = key.place ?? this.#place(table);
        const range = key.range ? { range: key.range } : {};
        const [value, source] = [key.value!, input.value.trim()];
        this.#hears.edit(
          { edit: "set", place, key: key.key, value, ...range, source },
          `The source of ${key.key} is written.`,
        );
      },
    });
    const where = key.place?.startsWith("part.") ? `of ${key.place.split(".")[1]}` : "";
    const said = where && make("span", { class: "note" }, where);
    return make("p", { class: "source-line" }, input, said);
  }

  /** Tables that the node does not have. */
  #more(view: NodeView): HTMLElement | "" {
    const absent = view.tables.filter((it) => it.is_absent && !this.#asked.has(it.name));
    // Tables within a table can be asked for when that one is there.
    const names = absent
      .map(({ name }) => name)
      .filter((name) => !absent.some((it) => it.name && name.startsWith(`${it.name}.`)));
    if (!names.length) return "";
    const select: HTMLSelectElement = make("select", {
      id: "part-more",
      onchange: () => {
        this.#asked.add(select.value);
        this.#open.add(select.value);
        byId("part-more").dispatchEvent(new CustomEvent("asked", { bubbles: true }));
      },
    });
    const options = names.map((it) => ({ value: it, text: it }));
    choices(select, [{ value: "", text: "choose…" }, ...options], "");
    return make(
      "div",
      { class: "line" },
      make("label", { for: "part-more" }, "More tables"),
      select,
    );
  }

  /** Hears that a table is asked for that the node does not have yet. */
  onAsked(heard: () => void): void {
    this.#box.addEventListener("asked", heard);
  }
}
