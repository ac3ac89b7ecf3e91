//! How a card stores 16-bit floats.

use crate::error::DeviceError;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// The formats that 16-bit floats of the host have on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FloatMode {
    /// DLFloat16, as on the card: a wider range and one bit of fraction less than float16.
    #[default]
    Dl16,
    /// The bits of the host unchanged, to distinguish the rounding of the format from mistakes.
    Ieee,
}

impl fmt::Display for FloatMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FloatMode::Dl16 => "dl16",
            FloatMode::Ieee => "ieee",
        })
    }
}

impl FromStr for FloatMode {
    type Err = DeviceError;
    fn from_str(text: &str) -> Result<FloatMode, DeviceError> {
        match text {
            "dl16" => Ok(FloatMode::Dl16),
            "ieee" => Ok(FloatMode::Ieee),
            _ => Err(DeviceError::UnknownMode { mode: text.into() }),
        }
    }
}
