//! Lints: suspicious properties of a layout, each with a witness.

use crate::analysis::access::LaneAccessPattern;
use crate::axis::{Axis, AxisKind};
use crate::error::Result;
use crate::layout::Layout;

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LintSeverity {
    /// Worth knowing.
    Note,
    /// Probably a mistake.
    Warning,
}

impl LintSeverity {
    /// `note` or `warning`.
    pub fn name(self) -> &'static str {
        match self {
            LintSeverity::Note => "note",
            LintSeverity::Warning => "warning",
        }
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutLint {
    /// A stable identifier.
    pub id: &'static str,
    /// How serious it is.
    pub severity: LintSeverity,
    /// The finding, with its witness.
    pub message: String,
}

impl Layout {
    /// All findings about a layout, the most serious first.
    pub fn find_lints(&self, shape: &[i64], bits: Option<i64>) -> Result<Vec<LayoutLint>> {
        self.check_shape_size(shape)?;
        let mut found = Vec::new();
        let mut say =
            |id, severity, message: String| found.push(LayoutLint { id, severity, message });
        if self.size() == 0 {
            say("empty", LintSeverity::Note, "the tensor has no elements".into());
            return Ok(found);
        }
        let tile = self.tile();
        match self.find_clash() {
            Ok(Some((a, b, place))) => {
                let shown = |i| crate::unflatten_index(shape, i);
                let message = format!("elements {:?} and {:?} share {place}", shown(a), shown(b));
                let broadcast = tile.shard().iter().any(|it| it.stride == 0 && it.extent > 1);
                let severity = if broadcast { LintSeverity::Note } else { LintSeverity::Warning };
                say("aliasing", severity, message);
            }
            Ok(None) => {}
            Err(e) => say("undecided", LintSeverity::Note, format!("aliasing not decided: {e}")),
        }
        for axis in tile.axes() {
            let bounds = self.axis_bounds(*axis)?;
            if bounds.min < 0 {
                let message = format!("coordinates on `{axis}` start at {}", bounds.min);
                say("negative-coordinate", LintSeverity::Warning, message);
            }
            let limit = hardware_axis_limit(*axis);
            if let Some((limit, what)) = limit.filter(|(limit, _)| bounds.max >= *limit) {
                let message = format!("`{axis}` reaches {}, but {what} {limit}", bounds.max);
                // Wavefronts of AMD have up to 64 lanes, so this may be a layout for that hardware.
                if *axis == Axis::LANEID && bounds.max < 64 {
                    let message = format!("{message} on CUDA hardware; a wavefront of AMD has 64");
                    say("out-of-hardware", LintSeverity::Note, message);
                } else {
                    say("out-of-hardware", LintSeverity::Warning, message);
                }
            }
        }
        if tile.replica_count() > self.count_distinct_copies().unwrap_or(tile.replica_count()) {
            let message = "several replicas of an element have the same place".into();
            say("replica-overlap", LintSeverity::Warning, message);
        }
        if let Err(e) = tile.thread_scopes() {
            say("scope", LintSeverity::Note, e.to_string());
        }
        if let Some(sw) = self.swizzle() {
            let span = tile.axis_span(Axis::M);
            if self.effective_swizzle().is_none() {
                let message = format!("{sw:?} moves none of the {span} addresses");
                say("idle-swizzle", LintSeverity::Note, message);
            } else if self.axis_span(Axis::M)? > span {
                let message = format!(
                    "{sw:?} spreads {span} addresses over {}: not a multiple of its period {}",
                    self.axis_span(Axis::M)?,
                    1i64 << sw.affected_low_bits()
                );
                say("swizzle-spread", LintSeverity::Warning, message);
            }
        }
        if let Some(w) = self.window() {
            let padding = tile.size() - self.size();
            let message =
                format!("{padding} of {} padded positions hold no element", w.padded_size());
            say("padding", LintSeverity::Note, message);
            let times = w.padded_size() / self.size().max(1);
            if times >= BLOW_UP {
                let message =
                    format!("padding makes the tensor {times} times as large as its elements");
                say("padding-blow-up", LintSeverity::Note, message);
            }
        }
        if let Ok(Some(place)) = self.find_gap() {
            say("gap", LintSeverity::Note, format!("nothing maps to {place}"));
        }
        if let Some(bits) = bits
            && tile.axes() == [Axis::M]
            && shape.len() >= 2
            && let Ok(c) =
                self.find_bank_conflicts(shape, bits, &LaneAccessPattern::Column { index: 0 }, 1)
            && c.ways > 1
        {
            let message =
                format!("in shared memory a column is a bank conflict of {} ways", c.ways);
            say("bank-conflict", LintSeverity::Note, message);
        }
        if let Some(bits) = bits
            && tile.axes() == [Axis::M]
            && let Some((found, least)) = self.uncoalesced_sectors(shape, bits)
        {
            let message = format!(
                "a warp that reads along the last dimension touches {found} sectors of 32 bytes, where {least} would do"
            );
            say("uncoalesced", LintSeverity::Note, message);
        }
        found.sort_by_key(|l| std::cmp::Reverse(l.severity));
        Ok(found)
    }
}

/// From this factor on, padding is reported: a matrix whose dimensions are at least one block each stays below it.
const BLOW_UP: i64 = 4;

impl Layout {
    /// The sectors that a warp touches along the last dimension, and the fewest that hold as many elements, where
    /// that is at least twice as many.
    fn uncoalesced_sectors(&self, shape: &[i64], bits: i64) -> Option<(usize, usize)> {
        let along = *shape.last()?;
        let lanes = along.min(32);
        if lanes < 2 {
            return None;
        }
        let coordinates = (0..lanes).map(|k| {
            let mut c = vec![0; shape.len()];
            c[shape.len() - 1] = k;
            c
        });
        let access = LaneAccessPattern::Lanes(coordinates.collect());
        let found = *self.count_sectors(shape, bits, &access, 1).ok()?.iter().max()?;
        let least = usize::try_from((lanes * bits + 255) / 256).ok()?.max(1);
        (found > 2 * least).then_some((found, least))
    }
}

/// The number of coordinates that hardware has on an axis, where that is fixed.
fn hardware_axis_limit(axis: Axis) -> Option<(i64, &'static str)> {
    if let AxisKind::Thread { of, within } = axis.kind() {
        return of.count_in_scope(within).map(|n| (n, "its scope has"));
    }
    match axis.name() {
        // PTX ISA, "Tensor Memory": 512 columns and 128 rows (lanes) of 32-bit cells for each CTA.
        "TLane" => Some((128, "tensor memory has lanes up to")),
        "TCol" => Some((512, "tensor memory has columns up to")),
        _ => None,
    }
}
