//! Which card is meant: one that does everything and keeps every bit, or the real one with its coverage and storage.

use anyhow::{Context, Result, anyhow};
use zellige_device::{KeptDtypes, TensorLayout};
use zellige_float::Dtype;
use zellige_op::CoverageProfile;

/// The profile, and what differs from it.
#[derive(clap::Args)]
pub(crate) struct ProfileArgs {
    /// full runs everything on the card and keeps float32 and int64; card is the real one: what upstream runs on the
    /// device, float32 in 16 bits, int64 in 32 (default: ZELLIGE_PROFILE, else full)
    #[arg(long, alias = "coverage", value_name = "full|card")]
    profile: Option<String>,
    /// How float32 is stored: keep, or cast to 16 bits (default: ZELLIGE_FP32, else by the profile)
    #[arg(long, value_name = "keep|cast", conflicts_with = "keep_fp32")]
    fp32: Option<String>,
    /// How int64 is stored: keep, or cast to 32 bits (default: ZELLIGE_INT64, else by the profile)
    #[arg(long, value_name = "keep|cast", conflicts_with = "keep_int64")]
    int64: Option<String>,
    /// The same as --fp32 keep
    #[arg(long, hide = true)]
    keep_fp32: bool,
    /// The same as --int64 keep
    #[arg(long, hide = true)]
    keep_int64: bool,
}

impl ProfileArgs {
    /// The profile of the flag or of the environment.
    pub(crate) fn card_profile(&self) -> Result<CoverageProfile> {
        find_profile(self.profile.as_deref())
    }

    /// Which dtypes are stored as they are.
    pub(crate) fn kept_dtypes(&self) -> Result<KeptDtypes> {
        let usual = KeptDtypes::under_profile(self.card_profile()?);
        let keep = |flag: bool, given: &Option<String>| {
            // The hidden flags are other spellings of `keep`, and clap refuses both at once.
            if flag { Some("keep".to_string()) } else { given.clone() }
        };
        Ok(KeptDtypes {
            float32: flag_or_variable("--fp32", "ZELLIGE_FP32", keep(self.keep_fp32, &self.fp32))?
                .unwrap_or(usual.float32),
            int64: flag_or_variable(
                "--int64",
                "ZELLIGE_INT64",
                keep(self.keep_int64, &self.int64),
            )?
            .unwrap_or(usual.int64),
        })
    }
}

/// The profile of a flag, else of the environment, else the default one.
pub(crate) fn find_profile(flag: Option<&str>) -> Result<CoverageProfile> {
    match (flag, env_variable("ZELLIGE_PROFILE")) {
        (Some(name), _) => name.parse().context("--profile"),
        (None, Some(name)) => name.parse().context("the variable ZELLIGE_PROFILE"),
        (None, None) => Ok(CoverageProfile::default()),
    }
}

/// Whether a flag, or else a variable, keeps a dtype.
fn flag_or_variable(flag: &str, name: &str, given: Option<String>) -> Result<Option<bool>> {
    let (origin, word) = match (given, env_variable(name)) {
        (Some(word), _) => (flag.to_string(), word),
        (None, Some(word)) => (format!("the variable {name}:"), word),
        (None, None) => return Ok(None),
    };
    let parsed = KeptDtypes::parse_choice(&word);
    parsed.map(Some).ok_or_else(|| anyhow!("{origin} {word}: accepted are keep and cast"))
}

/// A variable of the environment; one that is empty is not set.
pub(crate) fn env_variable(name: &str) -> Option<String> {
    // Lossy, because bytes that are no text match no accepted word and are quoted in the refusal.
    let value = std::env::var_os(name)?.to_string_lossy().trim().to_string();
    (!value.is_empty()).then_some(value)
}

/// Warns that elements lose bits on their way to these tensors, once for each dtype, unless
/// `TORCH_SPYRE_DOWNCAST_WARN=0`.
pub(crate) fn warn_of_narrowing<'t>(tensors: impl IntoIterator<Item = &'t TensorLayout>) {
    if env_variable("TORCH_SPYRE_DOWNCAST_WARN").as_deref() == Some("0") {
        return;
    }
    let mut warned = Vec::new();
    for tensor in tensors {
        let Some(text) = tensor.narrowing_warning() else { continue };
        // A model has hundreds of float32 tensors, and the same sentence for each would hide every other warning.
        if !warned.contains(&text) {
            let flag = if tensor.dtype() == Dtype::Float32 { "--fp32" } else { "--int64" };
            eprintln!(
                "warning: {text}; {flag} keep stores them as they are, TORCH_SPYRE_DOWNCAST_WARN=0 silences this"
            );
            warned.push(text);
        }
    }
}
