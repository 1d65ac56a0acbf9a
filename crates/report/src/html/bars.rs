// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bars that divide wholes into parts.

use crosslane_results::distinct;
use maud::{Markup, html};

use super::{Writer, heading, table};
use crate::number::{percent, share, trimmed};
use crate::page::{Bar, Bars};
use crate::table::Table;

/// A part of at least this share contains its number.
const WRITTEN: f64 = 0.13;

/// A part of a bar as it is drawn.
struct Piece<'a> {
    name: &'a str,
    value: f64,
    from: f64,
    width: f64,
}

/// Returns the parts of a bar from left to right. Parts beyond the whole are cut off.
fn pieces(bar: &Bar) -> Vec<Piece<'_>> {
    let mut from = 0.0;
    let mut pieces = Vec::new();
    for (name, value) in &bar.parts {
        let width = share(*value).min(1.0 - from);
        if width > 0.0 {
            pieces.push(Piece { name, value: *value, from, width });
        }
        from += width;
    }
    pieces
}

fn of_whole(share: f64) -> String {
    trimmed(share * 100.0, 3) + "%"
}

impl Writer {
    /// Writes bars as a block of a section.
    pub fn bars(&mut self, bars: &Bars) -> Markup {
        let names = distinct(bars.bars.iter().flat_map(|bar| &bar.parts).map(|(name, _)| &**name));
        html! {
            figure.block.bars {
                (heading(&bars.title))
                @if names.is_empty() {
                    p.empty { "No values to draw." }
                } @else {
                    ul.legend.parts {
                        @for name in &names {
                            li {
                                svg.key width="14" height="14" viewBox="0 0 14 14"
                                    aria-hidden="true" focusable="false"
                                {
                                    rect class={ "part " (self.palette.part(name)) }
                                        x="1" y="1" width="12" height="12" rx="2" {}
                                }
                                span.legend-name { (name) }
                            }
                        }
                    }
                    div.bar-rows {
                        @for bar in &bars.bars {
                            div.bar-name { (bar.name) }
                            (self.bar(bar))
                        }
                    }
                    (table::details(&values(bars, &names)))
                }
            }
        }
    }

    fn bar(&mut self, bar: &Bar) -> Markup {
        let id = self.drawing_id();
        let words: Vec<String> =
            bar.parts.iter().map(|(name, value)| format!("{name} {}", percent(*value))).collect();
        html! {
            svg.bar width="100%" height="26" role="img"
                aria-labelledby={ (id) "-title " (id) "-description" }
            {
                title id={ (id) "-title" } { (bar.name) }
                desc id={ (id) "-description" } { (words.join(", ")) }
                rect.rest x="0" y="0" width="100%" height="26" {}
                @for piece in pieces(bar) {
                    @let class = self.palette.part(piece.name);
                    g.piece {
                        title { (bar.name) "\n" (piece.name) ": " (percent(piece.value)) }
                        rect class={ "part " (class) } x=(of_whole(piece.from)) y="0"
                            width=(of_whole(piece.width)) height="26" {}
                        @if piece.width >= WRITTEN {
                            text.on-part x=(of_whole(piece.from + piece.width / 2.0)) y="17.5"
                                text-anchor="middle" { (percent(piece.value)) }
                        }
                    }
                }
            }
        }
    }
}

/// Returns a table with a row for each bar and a column for each name.
fn values(bars: &Bars, names: &[&str]) -> Table {
    let mut table = Table::headed("").with_numbers(names.iter().copied());
    for bar in &bars.bars {
        let value = |name: &&str| {
            let mut values = bar.parts.iter().filter(|part| part.0 == *name).map(|part| part.1);
            let first = values.next();
            // A name that occurs twice in a bar counts as one part.
            first.map_or("–".to_owned(), |first| percent(first + values.sum::<f64>()))
        };
        table.row(std::iter::once(bar.name.clone()).chain(names.iter().map(value)));
    }
    table.titled(format!("Values of {}", bars.title))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_stay_within_the_whole() {
        let parts = [0.5, f64::NAN, -1.0, 0.25, 7.0, 0.1];
        let parts = parts.iter().map(|share| ("p".to_owned(), *share)).collect();
        let bar = Bar { name: "b".into(), parts };
        let places: Vec<(f64, f64)> =
            pieces(&bar).iter().map(|piece| (piece.from, piece.width)).collect();
        assert_eq!(places, [(0.0, 0.5), (0.5, 0.25), (0.75, 0.25)]);
        assert_eq!(of_whole(0.12345), "12.345%");
    }
}
