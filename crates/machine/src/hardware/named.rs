//! Hardware by the name that people give it, and as data for programs.

use super::{Hardware, Key};
use crate::error::{MachineError, Result};
use serde_json::{Value, json};

impl Hardware {
    /// A built-in preset by its name, or one of a file whose name ends in `.toml`.
    ///
    /// # Errors
    /// Unknown names, files that cannot be read, and what is wrong in them with its line.
    pub fn load_named(text: &str) -> Result<Hardware> {
        if !text.ends_with(".toml") {
            return Hardware::built_in_preset(text).map_err(|e| match e {
                MachineError::UnknownPreset { name, known } => MachineError::UnknownPreset {
                    name,
                    known: format!("{known}; a preset of your own is a file named *.toml"),
                },
                other => other,
            });
        }
        let failed = |reason: String| MachineError::PresetFile { path: text.into(), reason };
        let toml =
            std::fs::read_to_string(text).map_err(|e| failed(format!("cannot read it: {e}")))?;
        Hardware::from_toml(&toml).map_err(|e| failed(e.to_string()))
    }

    /// Every figure with its unit and source.
    pub fn to_json(&self) -> Value {
        let figures: Vec<Value> = Key::all_keys()
            .filter_map(|key| {
                let f = self.find_figure(key)?;
                let (value, unit, source) = (f.written_text(), f.unit(), f.source());
                Some(json!({"key": key.preset_path(), "value": value, "unit": unit, "source": source}))
            })
            .collect();
        json!({
            "name": self.name(), "about": self.description(), "model": self.cycle_model().name(),
            "peak_tflops": self.peak_tflops(), "figures": figures,
        })
    }
}

/// The number of cores that the variable `SENCORES` asks for.
///
/// # Errors
/// Anything but a whole number from 1 to 32.
pub fn parse_sencores(value: &str) -> Result<usize> {
    let cores = value.parse().ok().filter(|n| (1..=32).contains(n));
    cores.ok_or_else(|| MachineError::BadSencores { value: value.chars().take(40).collect() })
}
