// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The back end that plotters draws on: it writes SVG elements with classes in place of colours, so
//! that the page's style sheet decides how they look.
//!
//! Plotters counts whole pixels; one of its pixels is a tenth of a pixel of the drawing.

use std::cell::RefCell;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::rc::Rc;

use maud::{Markup, PreEscaped, html};
use plotters::style::RGBColor;
use plotters::style::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
};

use crate::number::pixels;

/// Plotters' pixels in one pixel of the drawing.
pub const SCALE: f64 = 10.0;
/// Average width of a character, in parts of its height.
pub const CHARACTER_WIDTH: f64 = 0.58;

/// Class of an element, handed through plotters as a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ink {
    /// A line of the grid.
    Grid,
    /// The axis itself and its ticks.
    Frame,
    /// The label of a tick.
    Label,
    /// The line of a series.
    Stroke,
}

impl Ink {
    const ALL: [Self; 4] = [Self::Grid, Self::Frame, Self::Label, Self::Stroke];

    /// Returns the colour that stands for it.
    pub const fn color(self) -> RGBColor {
        RGBColor(0, 0, self as u8)
    }

    fn class(color: BackendColor) -> &'static str {
        match Self::ALL.get(usize::from(color.rgb.2)) {
            Some(Self::Grid) => "grid",
            Some(Self::Frame) => "frame",
            Some(Self::Label) => "label",
            _ => "stroke",
        }
    }
}

/// Markup drawn since it was last taken.
#[derive(Clone, Default)]
pub struct Layer(Rc<RefCell<String>>);

impl Layer {
    /// Takes everything that was drawn, and leaves the layer empty.
    pub fn take(&self) -> Markup {
        PreEscaped(self.0.take())
    }

    fn push(&self, element: Markup) {
        self.0.borrow_mut().push_str(&element.into_string());
    }
}

/// The back end.
pub struct Backend {
    size: (u32, u32),
    layer: Layer,
}

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

fn place(value: i32) -> String {
    pixels(f64::from(value) / SCALE)
}

impl Backend {
    /// Makes a back end of that width and height in pixels, which draws into `layer`.
    pub fn new((width, height): (f64, f64), layer: Layer) -> Self {
        Self { size: ((width * SCALE) as u32, (height * SCALE) as u32), layer }
    }

    fn line(&self, points: impl IntoIterator<Item = BackendCoord>, color: BackendColor) {
        if color.alpha == 0.0 {
            return;
        }
        let mut path = String::new();
        for (index, (x, y)) in points.into_iter().enumerate() {
            let letter = if index == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{letter}{} {}", place(x), place(y));
        }
        self.layer.push(html! { path class=(Ink::class(color)) d=(path) {} });
    }
}

impl DrawingBackend for Backend {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    /// Draws nothing: the methods below draw every shape that plotters would compose of pixels.
    fn draw_pixel(&mut self, _: BackendCoord, _: BackendColor) -> Drawn {
        Ok(())
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Drawn {
        self.line([from, to], style.color());
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Drawn {
        self.line(path, style.color());
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        (x, y): BackendCoord,
    ) -> Drawn {
        let anchor = match style.anchor().h_pos {
            HPos::Left => "start",
            HPos::Center => "middle",
            HPos::Right => "end",
        };
        // Moves the baseline: letters stand about seven tenths of their size above it.
        let shift = match style.anchor().v_pos {
            VPos::Top => 0.8,
            VPos::Center => 0.35,
            VPos::Bottom => -0.2,
        } * style.size();
        let y = pixels((f64::from(y) + shift) / SCALE);
        let class = Ink::class(style.color());
        self.layer.push(html! {
            text class=(class) x=(place(x)) y=(y) text-anchor=(anchor) { (text) }
        });
        Ok(())
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        let width = text.chars().count() as f64 * CHARACTER_WIDTH * style.size();
        Ok((width as u32, style.size() as u32))
    }
}
