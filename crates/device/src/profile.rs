//! Which operations a card runs itself.

use crate::error::DeviceError;
use crate::ops::Layer;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// The coverage profile of a card.
///
/// Results are the same under both: kernels compute them either way. What differs is the cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// What upstream runs on the device; for the rest operands go to the host and results come
    /// back.
    Card,
    /// Every operation of the table on the device.
    #[default]
    Full,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Profile; 2] = [Profile::Card, Profile::Full];

    /// Whether an operation of that layer is done by the host.
    pub fn on_host(self, layer: Layer) -> bool {
        self == Profile::Card && matches!(layer, Layer::Fallback | Layer::Missing)
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Profile::Card => "card",
            Profile::Full => "full",
        })
    }
}

impl FromStr for Profile {
    type Err = DeviceError;
    fn from_str(text: &str) -> Result<Profile, DeviceError> {
        let known = Profile::ALL.into_iter().find(|p| p.to_string() == text);
        known.ok_or_else(|| DeviceError::UnknownProfile { profile: text.into() })
    }
}

impl Layer {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Layer::Native => "native",
            Layer::Custom => "custom",
            Layer::Decomposed => "decomposed",
            Layer::Fallback => "fallback",
            Layer::Missing => "missing",
        }
    }
}
