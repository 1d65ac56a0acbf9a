// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An axis as numbers: the values that it spans, the positions of its ticks and their labels.

use crate::number;
use crate::plot::{Axis, Scale};

/// Largest value that is drawn; on a logarithmic axis its inverse is the smallest.
const MOST: f64 = 1e30;
/// A span of less than this part of its values is drawn as if they were equal.
const EQUAL: f64 = 1e-9;
/// Least space above the highest value, in steps of a linear axis.
const HEADROOM: f64 = 0.06;

/// Reason for which a value is not drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The value is NaN or infinite, or too large for a drawing.
    NotANumber,
    /// The value is 0 or less, and the axis logarithmic.
    NotPositive,
    /// The value is not an index of the axis's names.
    NoCategory,
}

/// Returns why a value has no position on an axis of that scale, if so.
pub fn fault(value: f64, scale: &Scale) -> Option<Fault> {
    if !value.is_finite() || value.abs() > MOST {
        return Some(Fault::NotANumber);
    }
    match scale {
        Scale::Linear => None,
        Scale::Logarithmic => (value < 1.0 / MOST).then_some(Fault::NotPositive),
        Scale::Categories(names) => {
            let is_within = value > -0.5 && value < names.len() as f64 - 0.5;
            (!is_within).then_some(Fault::NoCategory)
        }
    }
}

/// A value with a grid line and a label.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// Value at the tick.
    pub value: f64,
    /// Label of the tick.
    pub label: String,
}

/// Direction of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From left to right.
    Across,
    /// From bottom to top.
    Upward,
}

/// An axis with its ends and ticks.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    low: f64,
    high: f64,
    is_logarithmic: bool,
    /// Ticks from low to high.
    pub ticks: Vec<Tick>,
}

impl Span {
    /// Makes an axis that holds all `values`, none of which has a [`fault`], with at most about
    /// `most` ticks.
    pub fn new(axis: &Axis, way: Way, values: impl Iterator<Item = f64>, most: usize) -> Self {
        let (low, high) = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        let (low, high) = if low <= high { (low, high) } else { (1.0, 1.0) };
        let most = most.max(2);
        match &axis.scale {
            Scale::Linear => Self::linear(low, high, way, most, &axis.unit),
            Scale::Logarithmic => Self::logarithmic(low, high, most, &axis.unit),
            Scale::Categories(names) => Self::categories(names, most),
        }
    }

    fn linear(low: f64, high: f64, way: Way, most: usize, unit: &str) -> Self {
        let (mut low, mut high) = (low, high);
        // An upward axis shows magnitudes, so it begins at 0.
        if low > 0.0 && (way == Way::Upward || low < high * 0.3) {
            low = 0.0;
        }
        if high < 0.0 && way == Way::Upward {
            high = 0.0;
        }
        if high - low <= EQUAL * high.abs().max(low.abs()) {
            let around = if high == 0.0 { 1.0 } else { high.abs() * 0.5 };
            (low, high) = (if low == 0.0 { 0.0 } else { low - around }, high + around);
        }
        let step = nice_step(high - low, most, unit);
        let (first, last) = if way == Way::Upward {
            // The highest value stays below the upper edge.
            let over = if high > 0.0 { HEADROOM } else { 0.0 };
            ((low / step).floor(), (high / step + over).ceil())
        } else {
            let space = (high - low) * 0.03;
            (low, high) = (low - if low == 0.0 { 0.0 } else { space }, high + space);
            ((low / step).ceil(), (high / step).floor())
        };
        let ticks = linear_ticks(first, last, step, unit);
        if way == Way::Upward {
            (low, high) = (low.min(first * step), high.max(last * step));
        }
        Self { low, high, is_logarithmic: false, ticks }
    }

    fn logarithmic(low: f64, high: f64, most: usize, unit: &str) -> Self {
        let base: f64 = if unit == "B" { 2.0 } else { 10.0 };
        let (mut from, mut to) = (low.ln() / base.ln(), high.ln() / base.ln());
        // Around a single value the axis spans a few powers.
        let alone = if unit == "B" { 2.2 } else { 1.2 };
        let space = if to - from < EQUAL { alone } else { (to - from) * 0.04 };
        (from, to) = (from - space, to + space);
        let (low, high) = (base.powf(from), base.powf(to));
        let mut ticks = power_ticks(from, to, base, most, unit);
        if ticks.len() < 2 {
            // Less than two powers: ticks as on a linear axis.
            let step = nice_step(high - low, most, unit);
            ticks = linear_ticks((low / step).ceil(), (high / step).floor(), step, unit);
            ticks.retain(|tick| tick.value > 0.0);
        }
        Self { low, high, is_logarithmic: true, ticks }
    }

    fn categories(names: &[String], most: usize) -> Self {
        let each = names.len().div_ceil(most).max(1);
        let ticks = names
            .iter()
            .enumerate()
            .step_by(each)
            .map(|(index, name)| Tick { value: index as f64, label: name.clone() });
        let high = names.len().max(1) as f64 - 0.5;
        Self { low: -0.5, high, is_logarithmic: false, ticks: ticks.collect() }
    }

    /// Returns the position of a value, 0 at the low end and 1 at the high end.
    pub fn share(&self, value: f64) -> f64 {
        let place = |v: f64| if self.is_logarithmic { v.ln() } else { v };
        let (low, high) = (place(self.low), place(self.high));
        let share = (place(value) - low) / (high - low);
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.5 }
    }

    /// Returns the values at its ends.
    pub fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }
}

/// Returns a step of 1, 2 or 5 times a power of ten, or a power of two for bytes.
fn nice_step(span: f64, most: usize, unit: &str) -> f64 {
    let raw = span / most as f64;
    if unit == "B" {
        return raw.log2().ceil().exp2();
    }
    let power = 10_f64.powf(raw.log10().floor());
    let nice = [1.0, 2.0, 5.0].iter().map(|nice| nice * power).find(|step| *step >= raw * 0.999);
    nice.unwrap_or(10.0 * power)
}

fn linear_ticks(first: f64, last: f64, step: f64, unit: &str) -> Vec<Tick> {
    // The step is chosen for few ticks; this bounds their number whatever rounding does.
    const MOST_TICKS: usize = 40;
    let count = (last - first + 1.0).clamp(0.0, MOST_TICKS as f64) as usize;
    let decimals = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
    let ticks = (0..count).map(|index| {
        let value = (first + index as f64) * step;
        let is_plain = value == 0.0 || (1e-4..1e9).contains(&value.abs());
        let label = match unit {
            "B" => number::size(value),
            _ if is_plain && step >= 1e-4 => format!("{:.decimals$}", value + 0.0),
            _ => number::plain(value),
        };
        Tick { value, label }
    });
    ticks.collect()
}

/// Returns ticks at powers of the base, and at 2 and 5 times a power of ten if there are few.
fn power_ticks(from: f64, to: f64, base: f64, most: usize, unit: &str) -> Vec<Tick> {
    let powers = (to.floor() - from.ceil() + 1.0).max(0.0);
    let is_dense = unit != "B" && powers * 2.3 <= most as f64;
    let factors: &[f64] = if is_dense { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let wanted = (powers / most as f64).ceil().max(1.0) as i32;
    // Every second power of two, or every fourth: 64 B, 256 B, 1 KiB stay round.
    let nice: &[i32] = if unit == "B" { &[1, 2, 4, 5, 10, 20] } else { &[1, 2, 3, 5, 10, 20] };
    let every = nice.iter().copied().find(|nice| *nice >= wanted).unwrap_or(wanted);
    let mut ticks = Vec::new();
    for power in from.floor() as i32..=to.ceil() as i32 {
        if power.rem_euclid(every) != 0 {
            continue;
        }
        for factor in factors {
            let value = base.powi(power) * factor;
            let place = value.ln() / base.ln();
            if place < from || place > to {
                continue;
            }
            let label = if unit == "B" { number::size(value) } else { number::plain(value) };
            ticks.push(Tick { value, label });
        }
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(unit: &str, scale: Scale) -> Axis {
        Axis { label: "x".into(), unit: unit.into(), scale }
    }

    fn labels(span: &Span) -> Vec<&str> {
        span.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn rates_begin_at_zero() {
        let axis = axis("MB/s", Scale::Linear);
        let span = Span::new(&axis, Way::Upward, [1595.3, 1683.4].into_iter(), 6);
        assert_eq!(labels(&span), ["0", "500", "1000", "1500", "2000"]);
        assert_eq!(span.share(1000.0), 0.5);
        let span = Span::new(&axis, Way::Upward, [0.25, 0.5].into_iter(), 6);
        assert_eq!(labels(&span), ["0.0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6"]);
    }

    #[test]
    fn sizes_are_binary() {
        let axis = axis("B", Scale::Logarithmic);
        let span = Span::new(&axis, Way::Across, [64.0, 4_194_304.0].into_iter(), 10);
        let expected =
            ["64 B", "256 B", "1 KiB", "4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB", "4 MiB"];
        assert_eq!(labels(&span), expected);
        assert!(span.share(64.0) > 0.0 && span.share(4_194_304.0) < 1.0);
    }

    #[test]
    fn decades_have_few_ticks() {
        let axis = axis("ns", Scale::Logarithmic);
        let span = Span::new(&axis, Way::Upward, [1.0, 1e5].into_iter(), 7);
        assert_eq!(labels(&span), ["1", "10", "100", "1000", "10000", "100000"]);
        let span = Span::new(&axis, Way::Upward, [3.0, 60.0].into_iter(), 7);
        assert_eq!(labels(&span), ["5", "10", "20", "50"]);
    }

    #[test]
    fn equal_values_have_room_around_them() {
        for scale in [Scale::Linear, Scale::Logarithmic] {
            for value in [1.0, 706.0, 1e-20, 1e29] {
                for way in [Way::Across, Way::Upward] {
                    let axis = axis("ns", scale.clone());
                    let span = Span::new(&axis, way, [value, value].into_iter(), 6);
                    let share = span.share(value);
                    assert!(share > 0.05 && share < 0.95, "{scale:?} {value}: {share}");
                    assert!(span.ticks.len() >= 2, "{scale:?} {value}: {span:?}");
                }
            }
        }
        let span = Span::new(&axis("", Scale::Linear), Way::Across, [0.0].into_iter(), 6);
        assert_eq!(span.ends(), (0.0, 1.03));
    }

    #[test]
    fn what_has_no_place_is_found() {
        let names = Scale::Categories(vec!["a".into(), "b".into()]);
        assert_eq!(fault(f64::NAN, &Scale::Linear), Some(Fault::NotANumber));
        assert_eq!(fault(f64::INFINITY, &names), Some(Fault::NotANumber));
        assert_eq!(fault(0.0, &Scale::Logarithmic), Some(Fault::NotPositive));
        assert_eq!(fault(-1.0, &Scale::Linear), None);
        assert_eq!(fault(2.0, &names), Some(Fault::NoCategory));
        assert_eq!(fault(1.0, &names), None);
        assert_eq!(fault(0.0, &Scale::Categories(Vec::new())), Some(Fault::NoCategory));
    }
}
