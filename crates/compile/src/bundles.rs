//! Which steps the host launches at once: the bundles of a program.
//!
//! The rule is that of torch-spyre: the steps are gone through once, in their order. A step of the card joins the bundle
//! in front of it; a step that the card does not do closes that bundle and is one of its own; loading and running
//! have bundles of their own, as they are launched at different times. Nothing is reordered, no bundle has a limit,
//! and no cost decides. Where the host launches step by step ([`LaunchUnit::Wave`]), every wave is a bundle.
//!
//! **Law**: the bundles of a program are its steps in their order, every step once; no two neighbours could be one.

use crate::options::CompilerOptions;
use crate::program::BundleKind;
use std::ops::Range;
use zellige_machine::{LaunchUnit, SimulatedTime};

/// A wave, as far as bundles go by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaveKind {
    /// Whether its steps run when weights are loaded.
    pub(crate) load: bool,
    /// Who does its steps.
    pub(crate) kind: BundleKind,
}

/// Waves that are launched at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BundledWaves {
    /// Their numbers.
    pub(crate) waves: Range<usize>,
    /// What they have in common.
    pub(crate) of: WaveKind,
    /// What the host takes to launch them; none where nothing is launched.
    pub(crate) launch: Option<SimulatedTime>,
}

/// The bundles of waves in their order.
pub(crate) fn divide_into_bundles(
    options: &CompilerOptions,
    waves: &[WaveKind],
) -> Vec<BundledWaves> {
    let hardware = &options.hardware;
    let unit = hardware.launch_unit();
    let mut bundles: Vec<BundledWaves> = Vec::new();
    for (wave, of) in waves.iter().enumerate() {
        let joins = unit == LaunchUnit::Bundle && of.kind == BundleKind::Device;
        match bundles.last_mut() {
            Some(open) if joins && open.of == *of => open.waves.end = wave + 1,
            _ => {
                // What the host computes is launched nowhere; launched step by step, the published times count it
                // like any other step.
                let launched = unit == LaunchUnit::Wave || of.kind == BundleKind::Device;
                let launch = launched.then(|| hardware.launch_time());
                bundles.push(BundledWaves { waves: wave..wave + 1, of: *of, launch });
            }
        }
    }
    bundles
}
