// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A page as one self-contained HTML document.

mod anchor;
mod bars;
mod plot;
mod table;
mod topology;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use self::anchor::Anchors;
use crate::clean;
use crate::page::{Block, Page, Section};
use crate::palette::{self, Palette};
use crate::plot::Plot;
use crate::tree;

/// Content of the page's `meta` element named `generator`.
pub const GENERATOR: &str = "Crosslane";

/// The page's script: theme, legends, read-outs, sorting, search. The page is readable without it.
const SCRIPT: &str = include_str!("../assets/page.js");
/// The page's style sheet.
const STYLE: &str = include_str!("../assets/page.css");

/// Returns a plot for a page that has [`page_style`]: its legend, its drawing for wide and narrow
/// windows, and its values as a table.
pub fn plot_part(plot: &Plot) -> String {
    clean::text(&Writer::default().plot(plot).into_string())
}

/// State of the writing of a page.
#[derive(Default)]
struct Writer {
    /// Colours of parts: a name has the same colour everywhere.
    palette: Palette,
    /// Number of drawings so far, for their ids.
    drawings: usize,
    /// CSS rules of single drawings.
    rules: String,
}

impl Writer {
    /// Returns a unique id for a drawing of the page.
    fn drawing_id(&mut self) -> String {
        self.drawings += 1;
        format!("drawing-{}", self.drawings)
    }

    fn section(&mut self, section: &Section, anchor: &str) -> Markup {
        html! {
            section id=(anchor) aria-labelledby={ (anchor) "-heading" } {
                h2 id={ (anchor) "-heading" } {
                    (section.title) " "
                    a.anchor href={ "#" (anchor) }
                        aria-label={ "Link to the section " (section.title) } { "#" }
                }
                @for block in &section.blocks { (self.block(block)) }
            }
        }
    }

    fn block(&mut self, block: &Block) -> Markup {
        match block {
            Block::Text(text) => html! { p { (text) } },
            Block::Verdict(text) => html! { p.verdict { (text) } },
            Block::Plot(plot) => self.plot(plot),
            Block::Table(table) => self::table::block(table),
            Block::Bars(bars) => self.bars(bars),
            Block::Topology(topology) => self.topology(topology),
        }
    }
}

/// Returns the heading of a block, if it has a title.
fn heading(title: &str) -> Markup {
    html! { @if !title.is_empty() { h3 { (title) } } }
}

/// Returns the style sheet of pages, for a page of another kind that looks like them.
pub fn page_style() -> String {
    format!("\n{}{STYLE}{}", palette::variables(), tree::draw_style())
}

/// Returns the source of a text for the page's security policy: its hash.
fn policy_source(text: &str) -> String {
    format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text.as_bytes())))
}

impl Page {
    /// Returns the page as one self-contained HTML document: nothing is fetched. The same page
    /// gives the same bytes.
    pub fn to_html(&self) -> String {
        crate::clean::text(&document(self))
    }
}

/// Returns the HTML document; its text is not clean yet.
fn document(page: &Page) -> String {
    let mut writer = Writer::default();
    let mut anchors = Anchors::default();
    let anchors: Vec<String> =
        page.sections.iter().map(|section| anchors.make(&section.title)).collect();
    let sections: Vec<Markup> = page
        .sections
        .iter()
        .zip(&anchors)
        .map(|(section, anchor)| writer.section(section, anchor))
        .collect();
    let style = format!("{}{}", page_style(), writer.rules);
    let policy = format!(
        "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'",
        policy_source(&style),
        policy_source(SCRIPT),
    );
    let contents = html! {
        @if page.sections.len() > 1 {
            nav.contents aria-label="Contents" {
                p.contents-title { "Contents" }
                ol {
                    @for (section, anchor) in page.sections.iter().zip(&anchors) {
                        li { a href={ "#" (anchor) } { (section.title) } }
                    }
                }
            }
        }
    };
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="generator" content=(GENERATOR);
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (page.title) }
                style { (PreEscaped(style)) }
            }
            body {
                a.skip href="#content" { "Skip to the content" }
                (masthead(page))
                div.layout {
                    (contents)
                    main #content { @for section in &sections { (section) } }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    let mut document = document.into_string();
    document.push('\n');
    document
}

fn masthead(page: &Page) -> Markup {
    html! {
        header.masthead {
            div.masthead-line {
                h1 { (page.title) }
                button #theme type="button" hidden { "Dark" }
            }
            @if !page.summary.is_empty() { p.summary { (page.summary) } }
            @if !page.facts.is_empty() {
                dl.facts {
                    @for (name, value) in &page.facts {
                        div { dt { (name) } dd { (value) } }
                    }
                }
            }
        }
    }
}
