//! Which of float32 and int64 keep their bits on the card.
//!
//! This is the one place of that rule: the program, its JSON requests, the compiler and the device of PyTorch all use
//! [`KeptDtypes::under_profile`] for a profile, and [`KeptDtypes::parse_choice`] for a flag or a variable that overrides it.

use crate::error::Result;
use crate::tensor::tensor_layout::TensorLayout;
use zellige_float::{Dtype, Format};
use zellige_op::CoverageProfile;
use zellige_stick::DataFormat;

/// Dtypes that the card would store in half of their bits, and which of them keep all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeptDtypes {
    /// Whether float32 has its 32 bits, and not 16.
    pub float32: bool,
    /// Whether int64 has its 64 bits, and not 32.
    pub int64: bool,
}

impl Default for KeptDtypes {
    /// As under the default profile.
    fn default() -> KeptDtypes {
        KeptDtypes::under_profile(CoverageProfile::default())
    }
}

impl KeptDtypes {
    /// Nothing is stored in fewer bits than it has.
    pub const ALL: KeptDtypes = KeptDtypes { float32: true, int64: true };
    /// Both are stored in half of their bits, as the card does.
    pub const NONE: KeptDtypes = KeptDtypes { float32: false, int64: false };

    /// What a profile stores with all its bits: everything, so that results are those of the host, unless the profile is
    /// that of the card itself.
    pub const fn under_profile(profile: CoverageProfile) -> KeptDtypes {
        match profile {
            CoverageProfile::Full => KeptDtypes::ALL,
            CoverageProfile::Card => KeptDtypes::NONE,
        }
    }

    /// Whether a word means a dtype with all its bits (`keep`) or in half of its bits (`cast`, and its longer name
    /// `downcast`); None of other words.
    pub fn parse_choice(word: &str) -> Option<bool> {
        match word {
            "keep" => Some(true),
            "cast" | "downcast" => Some(false),
            _ => None,
        }
    }

    /// Whether a dtype keeps all its bits although the card would not store them.
    pub fn keeps_dtype(self, dtype: Dtype) -> bool {
        match dtype {
            Dtype::Float32 => self.float32,
            Dtype::Int64 => self.int64,
            _ => false,
        }
    }

    /// The format in which a dtype is stored by default.
    ///
    /// # Errors
    /// Dtypes that the device does not store.
    pub fn default_format(self, dtype: Dtype) -> Result<DataFormat> {
        match dtype {
            Dtype::Float32 if !self.float32 => Ok(DataFormat::SEN169_FP16),
            Dtype::Int64 if self.int64 => Ok(DataFormat::IEEE_INT64),
            other => Ok(DataFormat::device_format_of(other)?),
        }
    }
}

impl TensorLayout {
    /// What a user is warned of when elements lose bits on their way to this tensor; None where they do not.
    pub fn narrowing_warning(&self) -> Option<&'static str> {
        match (self.dtype(), self.format()) {
            (Dtype::Float32, Format::F32) | (Dtype::Int64, Format::I64) => None,
            (Dtype::Float32, _) => {
                Some("float32 tensors are stored in 16 bits (SEN169_FP16) on the device")
            }
            (Dtype::Int64, _) => Some(
                "int64 tensors are stored in 32 bits on the device: values past them are refused, results wrap",
            ),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::KeptDtypes;
    use crate::card::Card;
    use crate::tensor::format::default_layout;
    use crate::tensor::tensor_layout::{StoragePolicy, TensorLayout};
    use zellige_float::Dtype;
    use zellige_op::CoverageProfile;

    #[test]
    fn a_card_stores_as_its_profile_says_unless_told_otherwise() {
        for profile in CoverageProfile::ALL {
            let card = Card::builder().profile(profile).build().unwrap();
            assert_eq!(card.kept_dtypes(), KeptDtypes::under_profile(profile));
            let card =
                Card::builder().keep_dtypes(KeptDtypes::ALL).profile(profile).build().unwrap();
            assert_eq!(card.kept_dtypes(), KeptDtypes::ALL);
        }
        assert_eq!(Card::builder().build().unwrap().kept_dtypes(), KeptDtypes::ALL);
        for (dtype, narrows) in
            [(Dtype::Float32, true), (Dtype::Int64, true), (Dtype::Int32, false)]
        {
            for keep in [KeptDtypes::ALL, KeptDtypes::NONE] {
                let storage = StoragePolicy { keep, ..StoragePolicy::default() };
                let layout = default_layout(&[4, 70], None, dtype, keep).unwrap();
                let tensor = TensorLayout::new(storage, dtype, &layout).unwrap();
                assert_eq!(
                    tensor.narrowing_warning().is_some(),
                    narrows && keep == KeptDtypes::NONE
                );
            }
        }
    }
}
