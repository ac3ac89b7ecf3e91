//! Hardware as data: every number with its unit and where it comes from.
//!
//! A preset is a TOML file of figures, each `{ value, unit, source }`, or for a curve
//! `{ by, points, unit, source }`. `card` and `ktir` are built in; a file of one's own begins with
//! `extends = "card"` and says what differs. The field `model` decides how cycles are combined
//! (see [`account`](crate::account)).
//!
//! ```
//! use zellige_machine::{Hardware, Key};
//! let half = Hardware::from_toml(r#"
//!     name = "half"
//!     extends = "card"
//!     [cores]
//!     count = { value = 16, unit = "cores", source = "what if" }
//! "#)?;
//! assert_eq!((half.cores(), half.name()), (16, "half"));
//! assert_eq!(half.number(Key::MemoryPeak).to_f64(), 204.8);
//! # Ok::<(), zellige_machine::MachineError>(())
//! ```

mod key;
mod named;
mod parse;

pub use key::Key;
pub use named::sencores;

use crate::error::{MachineError, Result};
use crate::ratio::Ratio;
use crate::segment::{Purpose, SegmentSpec};
use key::ROWS;
use std::fmt;

/// How cycles are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// Memory overlapped with compute, then the ring.
    Card,
    /// Compute, then memory, then communication.
    Ktir,
}

impl Model {
    /// Its name in a preset.
    pub fn name(self) -> &'static str {
        match self {
            Model::Card => "card",
            Model::Ktir => "ktir",
        }
    }
}

/// One figure: its value, and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    pub(crate) value: Value,
    /// As written: the number or the points.
    written: String,
    unit: &'static str,
    source: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Number(Ratio),
    Curve(Vec<(u64, Ratio)>),
}

impl Figure {
    /// The number as written, or the points of the curve.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// Its unit.
    pub fn unit(&self) -> &'static str {
        self.unit
    }

    /// Where it comes from: published, measured, computed, or an assumption.
    pub fn source(&self) -> &str {
        &self.source
    }
}

/// A machine in numbers. Every figure that its model uses is there, positive and in its range.
#[derive(Debug, Clone, PartialEq)]
pub struct Hardware {
    name: String,
    about: String,
    model: Model,
    /// By [`Key`].
    figures: Vec<Option<Figure>>,
}

/// The built-in presets, by name.
const PRESETS: [(&str, &str); 2] = [
    ("card", include_str!("../../presets/card.toml")),
    ("ktir", include_str!("../../presets/ktir.toml")),
];

impl Hardware {
    /// A built-in preset: `card` or `ktir`.
    pub fn preset(name: &str) -> Result<Hardware> {
        match PRESETS.iter().find(|(n, _)| *n == name) {
            Some((_, text)) => parse::hardware(text),
            None => Err(MachineError::UnknownPreset {
                name: name.into(),
                known: Hardware::presets().collect::<Vec<_>>().join(", "),
            }),
        }
    }

    /// The names of the built-in presets.
    pub fn presets() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|(name, _)| *name)
    }

    /// The preset `card`.
    pub fn card() -> Hardware {
        Hardware::preset("card").expect("the built-in preset is complete")
    }

    /// The preset `ktir`.
    pub fn ktir() -> Hardware {
        Hardware::preset("ktir").expect("the built-in preset is complete")
    }

    /// A preset of one's own.
    pub fn from_toml(text: &str) -> Result<Hardware> {
        parse::hardware(text)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is, in a sentence.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// How cycles are combined.
    pub fn model(&self) -> Model {
        self.model
    }

    /// A figure, if this hardware has it.
    pub fn figure(&self, key: Key) -> Option<&Figure> {
        self.figures[key as usize].as_ref()
    }

    /// A number, in the first unit of its key (bytes, GB/s, GHz, ...); 1 where the model has none.
    pub fn number(&self, key: Key) -> Ratio {
        match self.figure(key) {
            Some(Figure { value: Value::Number(number), .. }) => *number,
            _ => Ratio::ONE,
        }
    }

    /// A whole number.
    pub fn count(&self, key: Key) -> u64 {
        self.number(key).integer().unwrap_or(1)
    }

    /// The points of a curve; none where the model has none.
    pub fn curve(&self, key: Key) -> &[(u64, Ratio)] {
        match self.figure(key) {
            Some(Figure { value: Value::Curve(points), .. }) => points,
            _ => &[],
        }
    }

    /// The same hardware with another rate, a positive decimal number in the first unit of its key; none where the
    /// text is no such number, or the key no rate.
    pub fn with_rate(mut self, key: Key, text: &str, source: &str) -> Option<Hardware> {
        let row = key.row();
        let number = Ratio::decimal(text).filter(|n| n.to_f64() <= 1e9)?;
        if row.kind != key::Kind::Rate {
            return None;
        }
        self.figures[key as usize] = Some(Figure {
            value: Value::Number(number),
            written: text.to_owned(),
            unit: row.units.first()?.0,
            source: source.to_owned(),
        });
        Some(self)
    }

    /// How many cores there are.
    pub fn cores(&self) -> usize {
        usize::try_from(self.count(Key::Cores)).expect("a preset has at most 1024 cores")
    }

    /// The peak of all cores in TFLOP/s.
    pub fn peak_tflops(&self) -> f64 {
        let per_core = self.number(Key::Clock).times(self.number(Key::Flops));
        per_core.times(self.number(Key::Cores)).to_f64() / 1000.0
    }

    /// The segments of the address space: one after the other from 0, the last for programs.
    pub fn segments(&self) -> Vec<SegmentSpec> {
        let (count, bytes) = (self.count(Key::Segments), self.count(Key::Segment));
        (0..count)
            .map(|i| SegmentSpec {
                base: i * bytes,
                bytes,
                purpose: if i + 1 == count { Purpose::Programs } else { Purpose::Tensors },
            })
            .collect()
    }
}

impl fmt::Display for Hardware {
    /// Every figure with its unit and source, one per line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} (model {})", self.name, self.about, self.model.name())?;
        let rows: Vec<(&str, &Figure)> =
            ROWS.iter().filter_map(|row| Some((row.path, self.figure(row.key)?))).collect();
        let path = rows.iter().map(|(path, _)| path.len()).max().unwrap_or(0);
        // A curve is longer than any number and takes the room of both columns.
        let numbers = || rows.iter().filter(|(_, f)| matches!(f.value, Value::Number(_)));
        let value = numbers().map(|(_, f)| f.written.len()).max().unwrap_or(0);
        let unit = numbers().map(|(_, f)| f.unit.len()).max().unwrap_or(0);
        for (name, figure) in &rows {
            let Figure { written, unit: u, source, .. } = figure;
            writeln!(f, "  {name:path$}  {written:>value$} {u:unit$}  {source}")?;
        }
        write!(
            f,
            "  peak: {} TFLOP/s, computed from cores, clock and FLOP/cycle",
            self.peak_tflops()
        )
    }
}
