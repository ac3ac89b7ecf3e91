//! Hardware as data: every number with its unit and where it comes from.
//!
//! A preset is a TOML file of figures, each `{ value, unit, source }`, or for a curve
//! `{ by, points, unit, source }`. `card`, `ktir` and one preset for every stack of the card whose kernels were measured
//! are built in; a file of one's own begins with
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
//! assert_eq!((half.core_count(), half.name()), (16, "half"));
//! assert_eq!(half.figure_number(Key::MemoryPeak).to_f64(), 204.8);
//! # Ok::<(), zellige_machine::MachineError>(())
//! ```

mod key;
mod named;
mod parse;

pub use key::Key;
pub use named::parse_sencores;

use crate::error::{MachineError, Result};
use crate::ratio::Ratio;
use crate::segment::{SegmentPurpose, SegmentSpec};
use key::ROWS;
use std::borrow::Cow;
use std::fmt;

/// How cycles are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CycleModel {
    /// Memory overlapped with compute, then the ring.
    Card,
    /// Compute, then memory, then communication.
    Ktir,
}

impl CycleModel {
    /// Its name in a preset.
    pub fn name(self) -> &'static str {
        match self {
            CycleModel::Card => "card",
            CycleModel::Ktir => "ktir",
        }
    }
}

/// What the host launches at once: the unit of `host.launch` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaunchUnit {
    /// A step, or several that run side by side (`us/wave`): torch-spyre until May 2026.
    Wave,
    /// All steps of the card between two that are not its own (`us/bundle`): torch-spyre of September 2026.
    Bundle,
}

/// One figure: its value, and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct HardwareFigure {
    pub(crate) value: FigureValue,
    /// As written: the number or the points.
    written: String,
    unit: &'static str,
    source: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FigureValue {
    Number(Ratio),
    Curve(Vec<(u64, Ratio)>),
}

impl HardwareFigure {
    /// The number as written, or the points of the curve.
    pub fn written_text(&self) -> &str {
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
    model: CycleModel,
    /// By [`Key`].
    figures: Vec<Option<HardwareFigure>>,
}

/// The built-in presets, by name.
const PRESETS: [(&str, &str); 4] = [
    ("card", include_str!("../../presets/card.toml")),
    ("card-2026-05", include_str!("../../presets/card-2026-05.toml")),
    ("card-2026-09", include_str!("../../presets/card-2026-09.toml")),
    ("ktir", include_str!("../../presets/ktir.toml")),
];

impl Hardware {
    /// A built-in preset: `card`, the same by the date of its software (`card-2026-05`, `card-2026-09`), or `ktir`.
    pub fn built_in_preset(name: &str) -> Result<Hardware> {
        match PRESETS.iter().find(|(n, _)| *n == name) {
            Some((_, text)) => parse::parse_hardware(text),
            None => Err(MachineError::UnknownPreset {
                name: name.into(),
                known: Hardware::preset_names().collect::<Vec<_>>().join(", "),
            }),
        }
    }

    /// The names of the built-in presets.
    pub fn preset_names() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|(name, _)| *name)
    }

    /// The preset `card`.
    pub fn card_preset() -> Hardware {
        Hardware::built_in_preset("card").expect("the built-in preset is complete")
    }

    /// The preset `ktir`.
    pub fn ktir_preset() -> Hardware {
        Hardware::built_in_preset("ktir").expect("the built-in preset is complete")
    }

    /// A preset of one's own.
    pub fn from_toml(text: &str) -> Result<Hardware> {
        parse::parse_hardware(text)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is, in a sentence.
    pub fn description(&self) -> &str {
        &self.about
    }

    /// How cycles are combined.
    pub fn cycle_model(&self) -> CycleModel {
        self.model
    }

    /// A figure, if this hardware has it.
    pub fn find_figure(&self, key: Key) -> Option<&HardwareFigure> {
        self.figures[key as usize].as_ref()
    }

    /// A number, in the first unit of its key (bytes, GB/s, GHz, ...); 1 where the model has none.
    pub fn figure_number(&self, key: Key) -> Ratio {
        match self.find_figure(key) {
            Some(HardwareFigure { value: FigureValue::Number(number), .. }) => *number,
            _ => Ratio::ONE,
        }
    }

    /// A whole number.
    pub fn figure_count(&self, key: Key) -> u64 {
        self.figure_number(key).as_integer().unwrap_or(1)
    }

    /// The points of a curve; none where the model has none.
    pub fn figure_curve(&self, key: Key) -> &[(u64, Ratio)] {
        match self.find_figure(key) {
            Some(HardwareFigure { value: FigureValue::Curve(points), .. }) => points,
            _ => &[],
        }
    }

    /// The same hardware with another rate, a positive decimal number in the first unit of its key; none where the
    /// text is no such number, or the key no rate.
    pub fn with_rate(mut self, key: Key, text: &str, source: &str) -> Option<Hardware> {
        let row = key.figure_row();
        let number = Ratio::parse_decimal(text).filter(|n| n.to_f64() <= 1e9)?;
        if row.kind != key::FigureKind::Rate {
            return None;
        }
        // The unit of a launch says what is launched at once, which another rate does not change.
        let kept = self.find_figure(key).map(|f| f.unit);
        let accepted = |unit: &&str| row.units.contains(&(*unit, 1));
        let unit = kept.filter(accepted).or_else(|| row.units.first().map(|(unit, _)| *unit))?;
        self.figures[key as usize] = Some(HardwareFigure {
            value: FigureValue::Number(number),
            written: text.to_owned(),
            unit,
            source: source.to_owned(),
        });
        Some(self)
    }

    /// What the host launches at once; waves where the preset has no figure for a launch.
    pub fn launch_unit(&self) -> LaunchUnit {
        match self.find_figure(Key::Launch).map(HardwareFigure::unit) {
            Some("us/bundle") => LaunchUnit::Bundle,
            _ => LaunchUnit::Wave,
        }
    }

    /// The same hardware with a memory whose full rate a single core reaches that streams tensors: on it nothing takes
    /// longer for being done by few cores, so that times of one core bound those of any number of cores.
    pub fn with_full_streams(&self) -> Cow<'_, Hardware> {
        if self.find_figure(Key::StreamShare).is_none() {
            return Cow::Borrowed(self);
        }
        let mut bound = self.clone();
        bound.figures[Key::StreamShare as usize] = None;
        Cow::Owned(bound)
    }

    /// How many cores there are.
    pub fn core_count(&self) -> usize {
        usize::try_from(self.figure_count(Key::Cores)).expect("a preset has at most 1024 cores")
    }

    /// The peak of all cores in TFLOP/s.
    pub fn peak_tflops(&self) -> f64 {
        let per_core = self.figure_number(Key::Clock).multiplied_by(self.figure_number(Key::Flops));
        per_core.multiplied_by(self.figure_number(Key::Cores)).to_f64() / 1000.0
    }

    /// The segments of the address space: one after the other from 0, the last for programs.
    pub fn address_segments(&self) -> Vec<SegmentSpec> {
        let (count, bytes) = (self.figure_count(Key::Segments), self.figure_count(Key::Segment));
        (0..count)
            .map(|i| SegmentSpec {
                base: i * bytes,
                bytes,
                purpose: if i + 1 == count {
                    SegmentPurpose::Programs
                } else {
                    SegmentPurpose::Tensors
                },
            })
            .collect()
    }
}

impl fmt::Display for Hardware {
    /// Every figure with its unit and source, one per line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} (model {})", self.name, self.about, self.model.name())?;
        let rows: Vec<(&str, &HardwareFigure)> =
            ROWS.iter().filter_map(|row| Some((row.path, self.find_figure(row.key)?))).collect();
        let path = rows.iter().map(|(path, _)| path.len()).max().unwrap_or(0);
        // A curve is longer than any number and takes the room of both columns.
        let numbers = || rows.iter().filter(|(_, f)| matches!(f.value, FigureValue::Number(_)));
        let value = numbers().map(|(_, f)| f.written.len()).max().unwrap_or(0);
        let unit = numbers().map(|(_, f)| f.unit.len()).max().unwrap_or(0);
        for (name, figure) in &rows {
            let HardwareFigure { written, unit: u, source, .. } = figure;
            writeln!(f, "  {name:path$}  {written:>value$} {u:unit$}  {source}")?;
        }
        write!(
            f,
            "  peak: {} TFLOP/s, computed from cores, clock and FLOP/cycle",
            self.peak_tflops()
        )
    }
}
