//! The options of a compilation.

use crate::error::{CompileError, Result};
use crate::solve::memory::{self, PlacementPolicy};
use zellige_device::{KeptDtypes, StoragePolicy};
use zellige_machine::{Hardware, LaunchUnit};
use zellige_op::CoverageProfile;

/// Who decides layouts and divisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompilePolicy {
    /// As torch-spyre (summer 2026) does.
    Baseline,
    /// The lowest latency.
    Best,
}

impl CompilePolicy {
    /// The policy of that name.
    pub fn from_name(name: &str) -> Option<CompilePolicy> {
        match name {
            "baseline" => Some(CompilePolicy::Baseline),
            "best" => Some(CompilePolicy::Best),
            _ => None,
        }
    }
}

/// Whose layouts weights have when a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightLayoutRule {
    /// The default ones, or those that are pinned: what has to be moved is moved at every run.
    Given,
    /// The compiler's: a weight is written in its layout when it is loaded, once.
    Free,
}

/// Whose layouts outputs have when a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputLayoutRule {
    /// The default ones, or those that are pinned: the caller may read them without asking.
    Default,
    /// As they are computed, but for those that are pinned: the program says which.
    AsComputed,
}

/// Choices of a compilation.
#[derive(Debug, Clone)]
pub struct CompilerOptions {
    /// Who decides layouts and divisions.
    pub policy: CompilePolicy,
    /// What the card runs itself.
    pub coverage: CoverageProfile,
    /// The figures that costs are computed from.
    pub hardware: Hardware,
    /// Cores that operations are divided over.
    pub cores: usize,
    /// How tensors are stored.
    pub storage: StoragePolicy,
    /// Layouts of weights.
    pub weights: WeightLayoutRule,
    /// Layouts of outputs.
    pub outputs: OutputLayoutRule,
    /// Whether operations that torch-spyre decomposes are decomposed; by default under the coverage `card` alone.
    pub decompose: Option<bool>,
    /// Whether what torch-spyre refuses is refused, instead of repaired by a move.
    pub strict: bool,
    /// How scratchpads are planned; none leaves everything in device memory.
    pub scratchpads: Option<PlacementPolicy>,
    /// The part of every scratchpad that plans leave to the backend.
    pub lx_reserved: f64,
    /// Whether independent operations may run at the same time on different cores, where the host launches them one by
    /// one; see [`runs_side_by_side`](CompilerOptions::runs_side_by_side).
    pub concurrent: bool,
}

impl Default for CompilerOptions {
    /// The best plan for all cores of the card.
    fn default() -> CompilerOptions {
        let hardware = Hardware::card_preset();
        CompilerOptions {
            policy: CompilePolicy::Best,
            coverage: CoverageProfile::Full,
            cores: hardware.core_count(),
            hardware,
            storage: StoragePolicy::default(),
            weights: WeightLayoutRule::Free,
            outputs: OutputLayoutRule::Default,
            decompose: None,
            strict: false,
            scratchpads: Some(PlacementPolicy::Exact),
            lx_reserved: memory::LX_RESERVED,
            concurrent: true,
        }
    }
}

/// A variable of the environment with a value that is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the variable {name}: `{value}` is not accepted; {accepted}")]
pub struct BadVariable {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// What would be accepted.
    pub accepted: &'static str,
}

impl CompilerOptions {
    /// The same with the settings of torch-spyre's variables: `LX_PLANNING=0` leaves everything in memory,
    /// `DXP_LX_FRAC_AVAIL` is the part of the scratchpads that plans leave free.
    ///
    /// # Errors
    /// Values that are neither.
    pub fn with_variables(
        mut self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<CompilerOptions, BadVariable> {
        let name = "LX_PLANNING";
        match variable(name).as_deref() {
            None | Some("1") => {}
            Some("0") => self.scratchpads = None,
            Some(other) => {
                let accepted = "`0` or `1`";
                return Err(BadVariable { name, value: other.into(), accepted });
            }
        }
        let name = "DXP_LX_FRAC_AVAIL";
        if let Some(value) = variable(name) {
            let part = value.trim().parse::<f64>().ok().filter(|part| (0.0..=1.0).contains(part));
            let accepted = "a number from 0 to 1";
            self.lx_reserved = part.ok_or(BadVariable { name, value, accepted })?;
        }
        Ok(self)
    }

    /// As torch-spyre (summer 2026) does: its rules for layouts and divisions, weights as they are given, operations
    /// one after the other.
    pub fn baseline() -> CompilerOptions {
        CompilerOptions {
            policy: CompilePolicy::Baseline,
            weights: WeightLayoutRule::Given,
            scratchpads: Some(PlacementPolicy::FirstFit),
            concurrent: false,
            ..CompilerOptions::default()
        }
    }

    /// The same under a profile: what the card runs itself, and how it stores float32 and int64.
    pub fn with_profile(mut self, profile: CoverageProfile) -> CompilerOptions {
        self.coverage = profile;
        self.storage.keep = KeptDtypes::under_profile(profile);
        self
    }

    /// Whether composite operations are decomposed.
    pub fn decomposes_ops(&self) -> bool {
        self.decompose.unwrap_or(self.coverage == CoverageProfile::Card)
    }

    /// Whether independent steps run at the same time on different cores: where it is wanted, and where the host
    /// launches steps one by one. The program of a bundle is a list that the card goes through, each entry beginning
    /// when the one before has ended, and no entry describes two operations; so that within a bundle nothing runs
    /// beside anything else.
    pub fn runs_side_by_side(&self) -> bool {
        self.concurrent && self.hardware.launch_unit() == LaunchUnit::Wave
    }

    /// Bytes of a core's scratchpad that plans may use.
    pub fn lx_limit(&self) -> u64 {
        memory::lx_limit(&self.hardware, self.lx_reserved)
    }

    /// Refuses a number of cores that the hardware does not have, and a share outside of 0 to 1.
    pub(crate) fn check_ranges(&self) -> Result<()> {
        let most = self.hardware.core_count();
        if self.cores == 0 || self.cores > most {
            let cores = i64::try_from(self.cores).unwrap_or(i64::MAX);
            return Err(CompileError::Cores { cores, most });
        }
        if !(0.0..=1.0).contains(&self.lx_reserved) {
            return Err(CompileError::Reserved { part: self.lx_reserved.to_string() });
        }
        Ok(())
    }
}
