// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A plot as an SVG: a grid with its axes, and every series as a separate layer, with classes in
//! place of colours, so that the page's style sheet decides how they look. Lines lie at whole
//! tenths of a pixel.
//!
//! A plot is drawn twice, wide and narrow, so that its letters are as large on a phone.

mod axis;
mod look;
mod points;

use crosslane_results::quantity::count_words;
use maud::{Markup, html};

use self::axis::{Span, Way};
pub use self::look::Look;
pub use self::points::LeftOut;
use crate::number::{pixels, with_unit};
use crate::plot::{Axis, Plot, Scale, Series, SeriesKind};
use crate::text::shortened;

/// Size of a drawing of a plot, pixels.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Class of the drawing; the style sheet decides which of the two is shown.
    class: &'static str,
    width: f64,
    height: f64,
    /// Height of its letters.
    font: f64,
}

/// Size for a screen or a sheet of paper.
pub const WIDE: Size = Size { class: "wide", width: 820.0, height: 400.0, font: 12.5 };
/// Size for a phone.
pub const NARROW: Size = Size { class: "narrow", width: 360.0, height: 320.0, font: 11.5 };

/// Room above the grid, for the name of the axis upward.
const TOP: f64 = 30.0;
/// Room at the right of the grid, for half of the last tick's label.
const RIGHT: f64 = 26.0;
/// Room below the grid for ticks' labels, and below that for the axis's name.
const LABELS: f64 = 26.0;
const NAME: f64 = 24.0;
/// Average width of a character, in parts of its height.
const CHARACTER_WIDTH: f64 = 0.58;
/// Length of a tick, pixels.
const TICK: f64 = 4.0;
/// Most characters of a name on an axis.
const NAME_CHARACTERS: usize = 22;
/// A line of more points than this has no marks.
const MOST_MARKS: usize = 100;
/// Half of the width of a ceiling over one name of an axis.
const CATEGORY_HALF: f64 = 0.42;
/// Half of the width of a bar over a name of an axis.
const BAR_HALF: f64 = 0.3;
/// Sine and cosine of the angle of long names.
const SLANT: f64 = 0.6;
const SLANT_ACROSS: f64 = 0.8;

/// A plot with its values sorted.
pub struct Chart<'a> {
    plot: &'a Plot,
    /// The look of each series.
    pub looks: Vec<Look>,
    /// The values of each series that can be drawn.
    pub points: Vec<Vec<(f64, f64)>>,
    /// Numbers of values that cannot be drawn, by reason.
    pub left_out: LeftOut,
    /// Lower end of each value of a stacked series: the sum of those below it.
    bases: Vec<Vec<f64>>,
}

impl<'a> Chart<'a> {
    /// Sorts the values of a plot.
    pub fn new(plot: &'a Plot) -> Self {
        let mut left_out = LeftOut::default();
        let points = plot.series.iter().map(|series| points::drawable(plot, series, &mut left_out));
        let points: Vec<Vec<(f64, f64)>> = points.collect();
        let bases = bases(plot, &points);
        Self { plot, looks: look::looks(plot), points, left_out, bases }
    }

    /// Returns the upper end of every value; for stacked values, the upper end of their bar.
    fn tops(&self) -> impl Iterator<Item = f64> {
        self.points
            .iter()
            .zip(&self.bases)
            .flat_map(|(points, bases)| points.iter().zip(bases).map(|((_, y), base)| base + y))
    }

    fn has_bars(&self) -> bool {
        self.plot.series.iter().any(|series| series.kind == SeriesKind::Stacked)
    }

    /// Returns the order of the legend: ceilings last, and ours first among series of one name.
    pub fn legend(&self) -> Vec<usize> {
        let series = &self.plot.series;
        let first = |index: usize| series.iter().position(|s| s.name == series[index].name);
        let mut order: Vec<usize> = (0..series.len()).collect();
        order.sort_by_key(|&index| {
            let kind = series[index].kind;
            (kind == SeriesKind::Ceiling, first(index), kind.is_ring())
        });
        order
    }

    /// Returns whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.points.iter().all(Vec::is_empty)
    }

    /// Describes the drawing in words.
    pub fn description(&self) -> String {
        let axis = |axis: &Axis, way: &str| format!("{way}: {}", axis_name(axis));
        let mut words =
            format!("{}. {}.", axis(&self.plot.x, "Across"), axis(&self.plot.y, "Upward"));
        for (look, points) in self.looks.iter().zip(&self.points) {
            let number = count_words(points.len(), "value", "values");
            words += &format!(" {}: {number}", look.label);
            let ys = points.iter().map(|point| point.1);
            let (low, high) = (ys.clone().reduce(f64::min), ys.reduce(f64::max));
            if let (Some(low), Some(high)) = (low, high) {
                let (low, high) = (value_words(low, &self.plot.y), value_words(high, &self.plot.y));
                words += &format!(" from {low} to {high}");
            }
            words.push('.');
        }
        words
    }

    /// Returns a value of each axis in words.
    pub fn words(&self, (x, y): (f64, f64)) -> (String, String) {
        (value_words(x, &self.plot.x), value_words(y, &self.plot.y))
    }

    /// Draws the plot. `id` is a unique prefix of this drawing's ids on the page.
    pub fn draw(&self, size: Size, id: &str) -> Markup {
        let frame = Frame::new(self, size);
        let title = format!("{id}-title");
        let description = format!("{id}-description");
        html! {
            svg class={ "chart " (size.class) } role="img"
                viewBox={ "0 0 " (size.width) " " (size.height) } preserveAspectRatio="xMinYMid"
                aria-labelledby={ (title) " " (description) }
            {
                title id=(title) { (self.plot.title) }
                desc id=(description) { (self.description()) }
                (frame.draw(self))
            }
        }
    }
}

/// Returns the lower end of each value of each series: 0 unless it is stacked on others.
fn bases(plot: &Plot, points: &[Vec<(f64, f64)>]) -> Vec<Vec<f64>> {
    let mut ends: Vec<(f64, f64)> = Vec::new();
    let series = plot.series.iter().zip(points).map(|(series, points)| {
        let base = |&(x, y): &(f64, f64)| {
            if series.kind != SeriesKind::Stacked {
                return 0.0;
            }
            let Some((_, end)) = ends.iter_mut().find(|(at, _)| *at == x) else {
                ends.push((x, y));
                return 0.0;
            };
            std::mem::replace(end, *end + y)
        };
        points.iter().map(base).collect()
    });
    series.collect()
}

/// Returns an axis's name with its unit. Tick labels in bytes already contain theirs.
pub fn axis_name(axis: &Axis) -> String {
    let is_said = axis.unit.is_empty() || axis.unit == "B";
    match (axis.label.is_empty(), is_said) {
        (_, true) => axis.label.clone(),
        (true, false) => axis.unit.clone(),
        (false, false) => format!("{}, {}", axis.label, axis.unit),
    }
}

/// Returns a value in words, with its unit, or the name at its position.
fn value_words(value: f64, axis: &Axis) -> String {
    match &axis.scale {
        Scale::Categories(names) => {
            let name = if value.fract() == 0.0 { names.get(value as usize) } else { None };
            name.cloned().unwrap_or_else(|| with_unit(value, ""))
        }
        _ => with_unit(value, &axis.unit),
    }
}

fn is_category(axis: &Axis) -> bool {
    matches!(axis.scale, Scale::Categories(_))
}

/// The position of the grid within the drawing.
struct Frame {
    size: Size,
    x: Span,
    y: Span,
    left: f64,
    /// Room for tick labels.
    bottom: f64,
    is_slanted: bool,
}

impl Frame {
    fn new(chart: &Chart, size: Size) -> Self {
        let plot = chart.plot;
        let all = || chart.points.iter().flatten();
        let height = size.height - TOP - LABELS - NAME;
        let mut y = Span::new(&plot.y, Way::Upward, chart.tops(), (height / 44.0).round() as usize);
        shorten(&mut y, size);
        let letter = size.font * CHARACTER_WIDTH;
        let widest = |span: &Span| {
            span.ticks.iter().map(|tick| tick.label.chars().count()).max().unwrap_or(0) as f64
        };
        let mut left = widest(&y) * letter + 2.0 * TICK + 6.0;
        let width = size.width - left - RIGHT;
        let room = if is_category(&plot.x) { size.font * 1.4 } else { letter * 8.0 + 10.0 };
        let mut x = Span::new(&plot.x, Way::Across, all().map(|p| p.0), (width / room) as usize);
        shorten(&mut x, size);
        let long = widest(&x) * letter;
        // Names that do not fit side by side stand at a slant.
        let is_slanted =
            is_category(&plot.x) && long + letter > width / x.ticks.len().max(1) as f64;
        if is_slanted {
            // The first name extends to the left of its position.
            left = left.max(long * SLANT_ACROSS - width / x.ticks.len() as f64 / 2.0 + 8.0);
        }
        let bottom = if is_slanted { LABELS.max(long * SLANT + 18.0) } else { LABELS };
        Self { size, x, y, left, bottom, is_slanted }
    }

    /// Draws the chart; a plot with long names is higher.
    fn draw(&self, chart: &Chart) -> Markup {
        let plot = chart.plot;
        let bottom = self.size.height - NAME - self.bottom;
        let (left, right) = (self.left, self.size.width - RIGHT);
        html! {
            (self.mesh(chart))
            @if is_category(&plot.x) { (self.names(left, right, bottom)) }
            text.axis-name x="2" y=(pixels(self.size.font)) {
                (shortened(&axis_name(&plot.y), (self.size.width / 8.0) as usize))
            }
            text.axis-name x=(pixels((left + right) / 2.0)) y=(pixels(self.size.height - 6.0))
                text-anchor="middle"
            {
                (shortened(&axis_name(&plot.x), (self.size.width / 8.0) as usize))
            }
            @for layer in self.layers(chart) { (layer) }
        }
    }

    /// Draws the names below the grid of an axis of names.
    fn names(&self, left: f64, right: f64, bottom: f64) -> Markup {
        html! {
            @for tick in &self.x.ticks {
                @let x = left + self.x.share(tick.value) * (right - left);
                @if self.is_slanted {
                    @let (x, y) = (pixels(x + 4.0), pixels(bottom + 16.0));
                    text.label text-anchor="end" x=(x) y=(y)
                        transform={ "rotate(-37 " (x) " " (y) ")" } { (tick.label) }
                } @else {
                    text.label text-anchor="middle" x=(pixels(x)) y=(pixels(bottom + 18.0)) {
                        (tick.label)
                    }
                }
            }
        }
    }

    /// Returns the ends of the grid: left and right, bottom and top, in tenths of a pixel.
    fn ends(&self) -> [(i32, i32); 2] {
        let Size { width, height, .. } = self.size;
        let right = tenths(width) - tenths(RIGHT) - 1;
        let bottom = tenths(height) - tenths(NAME) - tenths(self.bottom) - 1;
        [(tenths(self.left), right), (bottom, tenths(TOP))]
    }

    /// Returns the position of a value in the drawing, in tenths of a pixel.
    fn tenths_of(&self, (x, y): (f64, f64)) -> (i32, i32) {
        let [across, upward] = self.ends();
        let place = |span: &Span, value, (from, to): (i32, i32)| {
            from + (span.share(value) * f64::from(to - from)).round() as i32
        };
        (place(&self.x, x, across), place(&self.y, y, upward))
    }

    /// Returns the position of a value in the drawing, pixels.
    fn place(&self, value: (f64, f64)) -> (f64, f64) {
        let (x, y) = self.tenths_of(value);
        (f64::from(x) / 10.0, f64::from(y) / 10.0)
    }

    /// Draws the grid, and both axes with their ticks.
    fn mesh(&self, chart: &Chart) -> Markup {
        let [(left, right), (bottom, top)] = self.ends();
        let xs: Vec<i32> =
            self.x.ticks.iter().map(|tick| self.tenths_of((tick.value, 0.0)).0).collect();
        let ys: Vec<i32> =
            self.y.ticks.iter().map(|tick| self.tenths_of((0.0, tick.value)).1).collect();
        let (left_axis, bottom_axis, tick) = (left - 1, bottom + 1, tenths(TICK));
        // Letters stand about seven tenths of their size above the baseline.
        let label = |x: i32, y: i32, shift: f64, anchor: &str, words: &str| {
            let y = pixels(f64::from(y) / 10.0 + shift * self.size.font);
            let x = pixels(f64::from(x) / 10.0);
            html! { text class="label" x=(x) y=(y) text-anchor=(anchor) { (words) } }
        };
        let names_below = is_category(&chart.plot.x);
        html! {
            g.mesh {
                @for &x in &xs { (line("grid", [(x, bottom), (x, top)])) }
                @for &y in &ys { (line("grid", [(left, y), (right, y)])) }
                (line("frame", [(left_axis, top), (left_axis, bottom)]))
                @for (&y, of) in ys.iter().zip(&self.y.ticks) {
                    (label(left - 2 * tick, y, 0.35, "end", &of.label))
                    (line("frame", [(left_axis - tick, y), (left_axis, y)]))
                }
                (line("frame", [(left, bottom_axis), (right, bottom_axis)]))
                @for (&x, of) in xs.iter().zip(&self.x.ticks) {
                    @let words = if names_below { "" } else { &*of.label };
                    (label(x, bottom_axis + 2 * tick, 0.8, "middle", words))
                    (line("frame", [(x, bottom_axis), (x, bottom_axis + tick)]))
                }
            }
        }
    }

    /// Draws each series, the lowest first.
    fn layers(&self, chart: &Chart) -> Vec<Markup> {
        let mut order: Vec<usize> = (0..chart.points.len()).collect();
        // A paper's values lie above our line, and both above ceilings.
        order.sort_by_key(|&index| match chart.plot.series[index].kind {
            SeriesKind::Stacked => 0,
            SeriesKind::Ceiling => 1,
            SeriesKind::Ours => 2,
            SeriesKind::Published | SeriesKind::Measured => 3,
        });
        let layer = |index: usize| {
            let points = points::thinned(&chart.points[index], &self.x);
            let lines = self.lines(chart, index, &points);
            let marks = if chart.plot.series[index].kind == SeriesKind::Stacked {
                draw_bars(chart, index, |x, y| self.place((x, y)))
            } else {
                let marks = points.iter().map(|&point| (point, self.place(point)));
                draw_marks(chart, index, marks.collect())
            };
            let class = &chart.looks[index].class;
            html! {
                g class={ "series " (class) } data-series=(index) {
                    @for points in lines {
                        (line("stroke", points.into_iter().map(|point| self.tenths_of(point))))
                    }
                    (marks)
                }
            }
        };
        order.into_iter().map(layer).collect()
    }

    /// Returns the lines of a series, each by its points.
    fn lines(&self, chart: &Chart, index: usize, points: &[(f64, f64)]) -> Vec<Vec<(f64, f64)>> {
        let is_category = is_category(&chart.plot.x);
        match (chart.plot.series[index].kind, points) {
            (SeriesKind::Published | SeriesKind::Measured | SeriesKind::Stacked, _) | (_, []) => {
                Vec::new()
            }
            (SeriesKind::Ceiling, _) if is_category => points
                .iter()
                .map(|&(x, y)| vec![(x - CATEGORY_HALF, y), (x + CATEGORY_HALF, y)])
                .collect(),
            // A single value is the ceiling of the whole plot.
            (SeriesKind::Ceiling, &[(_, y)]) => {
                let (low, high) = self.x.ends();
                vec![vec![(low, y), (high, y)]]
            }
            // A line between names would show nothing.
            (SeriesKind::Ours, _) if is_category && !chart.has_bars() => Vec::new(),
            _ => vec![points.to_vec()],
        }
    }
}

/// Returns a length in tenths of a pixel.
fn tenths(length: f64) -> i32 {
    (length * 10.0).round() as i32
}

/// Draws a line through points in tenths of a pixel.
fn line(class: &str, points: impl IntoIterator<Item = (i32, i32)>) -> Markup {
    let mut path = String::new();
    for (index, (x, y)) in points.into_iter().enumerate() {
        let letter = if index == 0 { 'M' } else { 'L' };
        let [x, y] = [x, y].map(|value| pixels(f64::from(value) / 10.0));
        path += &format!("{letter}{x} {y}");
    }
    html! { path class=(class) d=(path) {} }
}

fn shorten(span: &mut Span, size: Size) {
    let most = if size.class == NARROW.class { NAME_CHARACTERS / 2 } else { NAME_CHARACTERS };
    for tick in &mut span.ticks {
        tick.label = shortened(&tick.label, most);
    }
}

/// Draws a bar over each name, with a tooltip. `place` maps values to positions in the drawing.
fn draw_bars(chart: &Chart, index: usize, place: impl Fn(f64, f64) -> (f64, f64)) -> Markup {
    let look = &chart.looks[index];
    html! {
        @for (&(x, y), &base) in chart.points[index].iter().zip(&chart.bases[index]) {
            @let (left, top) = place(x - BAR_HALF, base + y);
            @let (right, bottom) = place(x + BAR_HALF, base);
            @let (name, value) = chart.words((x, y));
            path.mark d=(look::bar_path((left, top), (right, bottom))) {
                title { (look.label) "\n" (name) ": " (value) }
            }
        }
    }
}

/// Draws a mark at each position, with a tooltip.
fn draw_marks(chart: &Chart, index: usize, places: Vec<((f64, f64), (f64, f64))>) -> Markup {
    let look = &chart.looks[index];
    let kind = chart.plot.series[index].kind;
    let is_quiet =
        kind == SeriesKind::Ceiling || (kind == SeriesKind::Ours && places.len() > MOST_MARKS);
    let radius = if kind.is_ring() { 5.2 } else { own_radius(chart, index) };
    html! {
        @for (point, place) in places {
            @let (x, y) = chart.words(point);
            path class={ "mark" @if is_quiet { " quiet-mark" } }
                d=(look::mark_path(place, look.shape, radius))
            {
                title { (look.label) "\n" (x) ": " (y) }
            }
        }
    }
}

/// Returns the radius of a mark of ours. Where lines overlap, the marks of lower ones are larger
/// and stay visible; where a paper's rings surround ours, all marks fit into the rings.
fn own_radius(chart: &Chart, index: usize) -> f64 {
    let series = &chart.plot.series;
    if series.iter().any(|series| series.kind.is_ring()) {
        return 3.6;
    }
    let ours = |series: &&Series| series.kind == SeriesKind::Ours;
    let above = series[index + 1..].iter().filter(ours).count() as f64;
    let others = series.iter().filter(ours).count() as f64 - 1.0;
    3.6 + 1.8 * above / others.max(1.0)
}
