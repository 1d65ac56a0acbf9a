// SPDX-License-Identifier: Apache-2.0 OR MIT
// The text of the lab file, with what is wrong in it beside the line at fault.

import type { Failure } from "./answers.ts";
import { make } from "./dom.ts";

/** Milliseconds after the last key until the text is read. */
const PAUSE_MS = 250;

export class Editor {
  #area: HTMLTextAreaElement;
  #numbers: HTMLElement;
  #note: HTMLElement;
  #said: HTMLElement;
  #failure: Failure | null = null;
  #timer = 0;

  /** `changed` gets the text when a user has changed it. */
  constructor(box: HTMLElement, said: HTMLElement, changed: (text: string) => void) {
    this.#said = said;
    this.#numbers = make("pre", { class: "numbers", "aria-hidden": "true" });
    this.#note = make("p", { class: "line-note", hidden: true });
    this.#area = make("textarea", {
      id: "text",
      wrap: "off",
      spellcheck: "false",
      autocapitalize: "off",
      "aria-label": "Text of the lab file, TOML",
      "aria-describedby": said.id,
    });
    box.replaceChildren(this.#numbers, this.#area, this.#note);
    this.#area.addEventListener("scroll", () => this.#place());
    this.#area.addEventListener("input", () => {
      this.#count();
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => changed(this.#area.value), PAUSE_MS);
    });
  }

  /** Shows a text, unless it is there already. */
  show(text: string): void {
    if (this.#area.value === text) return;
    this.#area.value = text;
    this.#area.scrollTop = 0;
    this.#count();
  }

  /** Shows what is wrong, beside its line; `null` for a lab that can be built. */
  fault(failure: Failure | null): void {
    this.#failure = failure;
    this.#area.setAttribute("aria-invalid", String(!!failure));
    this.#said.replaceChildren();
    if (failure) {
      const { place, message, help } = failure;
      const where = place && [`line ${place.line}`, place.key].filter(Boolean).join(", ");
      this.#said.append(
        make("strong", {}, where ? `${where}: ` : ""),
        message,
        help ? `; ${help}` : "",
      );
      if (place) {
        const go = make("button", { type: "button", class: "plain", onclick: () => this.go() });
        go.append("go to the line");
        this.#said.append(" ", go);
      }
    }
    this.#said.hidden = !failure;
    this.#count();
  }

  /** Selects what is at fault. */
  go(): void {
    const place = this.#failure?.place;
    if (!place) return;
    const lines = this.#area.value.split("\n");
    const before = lines.slice(0, place.line - 1).reduce((sum, line) => sum + line.length + 1, 0);
    // Columns are characters, and a selection counts UTF-16 units.
    const line = [...(lines[place.line - 1] ?? "")];
    const at = (column: number) => line.slice(0, column).join("").length;
    const start = before + at(place.column - 1);
    this.#area.focus();
    this.#area.setSelectionRange(start, before + at(place.column - 1 + place.length));
    this.#area.scrollTop = (place.line - 4) * this.#lineHeight();
    this.#place();
  }

  #lineHeight(): number {
    return Number.parseFloat(getComputedStyle(this.#area).lineHeight);
  }

  #count(): void {
    const count = this.#area.value.split("\n").length;
    const fault = this.#failure?.place?.line;
    const numbers = (from: number, to: number) => {
      const length = Math.max(0, to - from + 1);
      return Array.from({ length }, (_, index) => `${from + index}\n`).join("");
    };
    this.#numbers.replaceChildren(
      ...(fault
        ? [numbers(1, fault - 1), make("b", {}, String(fault)), `\n${numbers(fault + 1, count)}`]
        : [numbers(1, count)]),
    );
    this.#place();
  }

  #place(): void {
    this.#numbers.scrollTop = this.#area.scrollTop;
    const place = this.#failure?.place;
    this.#note.hidden = !place;
    if (!place) return;
    const top = place.line * this.#lineHeight() - this.#area.scrollTop;
    const isSeen = top > 0 && top < this.#area.clientHeight - this.#lineHeight();
    this.#note.hidden = !isSeen;
    this.#note.textContent = this.#failure!.message;
    this.#note.style.top = `${top + 6}px`;
  }
}
