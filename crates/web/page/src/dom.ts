// SPDX-License-Identifier: Apache-2.0 OR MIT
// Elements, made and found.

type Child = Node | string | null | false | undefined;

/** Makes an element with attributes (`onclick` and the like are functions) and children. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string | number | boolean | ((event: Event) => void) | undefined> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child): child is Node | string => !!child || child === ""));
  return element;
}

/** Finds an element of the page by its id. */
export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found as T;
}

/** Fills a list of choices, and keeps the one that is chosen if it is still there. */
export function choices(
  select: HTMLSelectElement,
  options: (string | { value: string; text: string })[],
  chosen: string,
): void {
  const made = options.map((option) => {
    const { value, text } = typeof option === "string" ? { value: option, text: option } : option;
    return make("option", { value, selected: value === chosen }, text);
  });
  select.replaceChildren(...made);
}

/** Gives the user a file. */
export function save(name: string, text: string, type: string): void {
  const address = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
