//! A card in words and for programs: figures, segments, scratchpads, what is in use.

use crate::card::Card;
use crate::error::{DeviceError, Result};
use crate::hardware::{Hardware, Key};
use crate::memory::Purpose;
use crate::units::Bytes;
use serde_json::{Value, json};
use std::fmt::Write;

impl Hardware {
    /// A built-in preset by its name, or one of a file whose name ends in `.toml`.
    ///
    /// # Errors
    /// Unknown names, files that cannot be read, and what is wrong in them with its line.
    pub fn named(text: &str) -> Result<Hardware> {
        if !text.ends_with(".toml") {
            return Hardware::preset(text).map_err(|e| match e {
                DeviceError::UnknownPreset { name, known } => DeviceError::UnknownPreset {
                    name,
                    known: format!("{known}; a preset of your own is a file named *.toml"),
                },
                other => other,
            });
        }
        let failed = |reason: String| DeviceError::PresetFile { path: text.into(), reason };
        let toml =
            std::fs::read_to_string(text).map_err(|e| failed(format!("cannot read it: {e}")))?;
        Hardware::from_toml(&toml).map_err(|e| failed(e.to_string()))
    }

    /// Every figure with its unit and source.
    pub fn to_json(&self) -> Value {
        let figures: Vec<Value> = Key::all()
            .filter_map(|key| {
                let f = self.figure(key)?;
                let (value, unit, source) = (f.written(), f.unit(), f.source());
                Some(json!({"key": key.path(), "value": value, "unit": unit, "source": source}))
            })
            .collect();
        json!({
            "name": self.name(), "about": self.about(), "model": self.model().name(),
            "peak_tflops": self.peak_tflops(), "figures": figures,
        })
    }
}

/// The number of cores that the variable `SENCORES` asks for.
///
/// # Errors
/// Anything but a whole number from 1 to 32.
pub fn sencores(value: &str) -> Result<usize> {
    let cores = value.parse().ok().filter(|n| (1..=32).contains(n));
    cores.ok_or_else(|| DeviceError::BadSencores { value: value.chars().take(40).collect() })
}

impl Card {
    /// Figures, segments with their bases, scratchpads, and how much of them is in use.
    pub fn describe(&self) -> String {
        let (memory, lx) = (self.memory().stats(), self.lx().stats());
        let mut text = format!("{}\n\nsegments\n", self.hardware());
        let digits = memory.segments.last().map_or(1, |s| format!("{:x}", s.spec.base).len());
        for (i, s) in memory.segments.iter().enumerate() {
            let purpose = if s.spec.purpose == Purpose::Programs { "programs" } else { "tensors" };
            let (base, size, used) = (s.spec.base, Bytes(s.spec.bytes), Bytes(s.reserved));
            let _ =
                writeln!(text, "  {i}  base 0x{base:0digits$x}  {size}  {purpose}, {used} in use");
        }
        let each = lx.segments.first().map_or(0, |s| s.spec.bytes);
        let (used, peak) = (Bytes(memory.allocated), Bytes(memory.peak));
        let (all, hole) = (Bytes(memory.capacity), Bytes(memory.largest_hole));
        let _ = writeln!(text, "memory  {all}, {used} in use, peak {peak}, largest hole {hole}");
        let (cores, used) = (lx.segments.len(), Bytes(lx.allocated));
        let _ = write!(
            text,
            "LX      {cores} cores of {}, {used} in use\n\
             cores   {} in use; 16-bit floats as {}; coverage profile {}",
            Bytes(each),
            self.cores(),
            self.mode(),
            self.profile(),
        );
        text
    }

    /// The same for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "hardware": self.hardware().to_json(), "cores": self.cores(), "mode": self.mode(),
            "profile": self.profile(), "memory": self.memory().stats(), "lx": self.lx().stats(),
        })
    }
}
