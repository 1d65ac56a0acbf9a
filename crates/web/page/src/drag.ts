// SPDX-License-Identifier: Apache-2.0 OR MIT
// Dragging of a part or a card onto a card of the drawing, by mouse or pen. A finger scrolls: it
// and the keyboard have buttons for the same.

import { make } from "./dom.ts";

/** Pixels that a pointer moves before it drags. */
const LEAST_MOVE = 6;

/** The end of a drag. */
export interface Dropping {
  /** Whether a card takes it. */
  can(node: string): boolean;
  /** Drops it on a card. */
  drop(node: string): void;
  /** Drops it beside all cards, on the drawing. */
  elsewhere?(): void;
  /** The card at a place of the window. */
  cardAt(x: number, y: number): SVGElement | null;
}

/** Lets an element be dragged. */
export function draggable(
  element: HTMLElement | SVGElement,
  name: string,
  dropping: Dropping,
): void {
  let begun: { x: number; y: number; id: number } | null = null;
  let ghost: HTMLElement | null = null;
  let over: SVGElement | null = null;
  const leave = () => {
    over?.classList.remove("is-target");
    over = null;
  };
  const end = () => {
    leave();
    ghost?.remove();
    ghost = null;
    begun = null;
    document.body.classList.remove("is-dragging");
  };
  element.addEventListener("pointerdown", ((event: PointerEvent) => {
    if (event.pointerType === "touch" || event.button !== 0) return;
    begun = { x: event.clientX, y: event.clientY, id: event.pointerId };
  }) as EventListener);
  element.addEventListener("pointermove", ((event: PointerEvent) => {
    if (!begun || event.pointerId !== begun.id) return;
    const by = Math.hypot(event.clientX - begun.x, event.clientY - begun.y);
    if (!ghost) {
      if (by < LEAST_MOVE) return;
      element.setPointerCapture(event.pointerId);
      ghost = make("div", { class: "ghost", "aria-hidden": "true" }, name);
      document.body.append(ghost);
      document.body.classList.add("is-dragging");
    }
    event.preventDefault();
    ghost.style.translate = `${event.clientX + 10}px ${event.clientY + 10}px`;
    leave();
    const card = dropping.cardAt(event.clientX, event.clientY);
    if (card && dropping.can(card.dataset["node"]!)) {
      over = card;
      card.classList.add("is-target");
    }
  }) as EventListener);
  element.addEventListener("pointerup", ((event: PointerEvent) => {
    if (!begun || event.pointerId !== begun.id) return;
    const [isDrag, node] = [ghost !== null, over?.dataset["node"]];
    const isOnDrawing = !!document
      .elementFromPoint(event.clientX, event.clientY)
      ?.closest(".tree-box");
    end();
    if (!isDrag) return;
    // The click that follows is of the drag, and chooses nothing.
    const stop = (click: Event) => {
      click.stopPropagation();
      click.preventDefault();
    };
    addEventListener("click", stop, { capture: true, once: true });
    setTimeout(() => removeEventListener("click", stop, { capture: true }), 0);
    if (node) dropping.drop(node);
    else if (isOnDrawing) dropping.elsewhere?.();
  }) as EventListener);
  element.addEventListener("pointercancel", end);
  element.addEventListener("keydown", ((event: KeyboardEvent) => {
    if (event.key === "Escape") end();
  }) as EventListener);
  // Text in the drawing would be selected otherwise.
  element.addEventListener("dragstart", (event) => event.preventDefault());
}
