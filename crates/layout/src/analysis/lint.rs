//! What looks wrong about a layout, with a witness.

use crate::analysis::access::Access;
use crate::axis::{Axis, AxisKind};
use crate::error::Result;
use crate::layout::Layout;

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Probably not meant.
    Warning,
}

impl Severity {
    /// `note` or `warning`.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
        }
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lint {
    /// A stable identifier.
    pub id: &'static str,
    /// How serious it is.
    pub severity: Severity,
    /// What was found, with its place.
    pub message: String,
}

impl Layout {
    /// Everything that looks wrong or is worth knowing, most serious first.
    pub fn lints(&self, shape: &[i64], bits: Option<i64>) -> Result<Vec<Lint>> {
        self.admit(shape)?;
        let mut found = Vec::new();
        let mut say = |id, severity, message: String| found.push(Lint { id, severity, message });
        if self.size() == 0 {
            say("empty", Severity::Note, "the tensor has no elements".into());
            return Ok(found);
        }
        let tile = self.tile();
        match self.clash() {
            Ok(Some((a, b, place))) => {
                let shown = |i| crate::unflatten(shape, i);
                let message = format!("elements {:?} and {:?} share {place}", shown(a), shown(b));
                let broadcast = tile.shard().iter().any(|it| it.stride == 0 && it.extent > 1);
                let severity = if broadcast { Severity::Note } else { Severity::Warning };
                say("aliasing", severity, message);
            }
            Ok(None) => {}
            Err(e) => say("undecided", Severity::Note, format!("aliasing not decided: {e}")),
        }
        for axis in tile.axes() {
            let bounds = self.bounds(*axis)?;
            if bounds.min < 0 {
                let message = format!("coordinates on `{axis}` start at {}", bounds.min);
                say("negative-coordinate", Severity::Warning, message);
            }
            let limit = hardware_limit(*axis);
            if let Some((limit, what)) = limit.filter(|(limit, _)| bounds.max >= *limit) {
                let message = format!("`{axis}` reaches {}, but {what} {limit}", bounds.max);
                // Wavefronts of AMD have up to 64 lanes: of those the layout may be one.
                if *axis == Axis::LANEID && bounds.max < 64 {
                    let message = format!("{message} on CUDA hardware; a wavefront of AMD has 64");
                    say("out-of-hardware", Severity::Note, message);
                } else {
                    say("out-of-hardware", Severity::Warning, message);
                }
            }
        }
        if tile.copies() > self.distinct_copies().unwrap_or(tile.copies()) {
            let message = "some replicas of an element are the same place".into();
            say("replica-overlap", Severity::Warning, message);
        }
        if let Err(e) = tile.scope() {
            say("scope", Severity::Note, e.to_string());
        }
        if let Some(sw) = self.swizzle() {
            let span = tile.span(Axis::M);
            if self.effective_swizzle().is_none() {
                let message = format!("{sw:?} moves none of the {span} addresses");
                say("idle-swizzle", Severity::Note, message);
            } else if self.span(Axis::M)? > span {
                let message = format!(
                    "{sw:?} spreads {span} addresses over {}: not a multiple of its period {}",
                    self.span(Axis::M)?,
                    1i64 << sw.bits()
                );
                say("swizzle-spread", Severity::Warning, message);
            }
        }
        if let Some(w) = self.window() {
            let padding = tile.size() - self.size();
            let message =
                format!("{padding} of {} padded positions hold no element", w.padded_size());
            say("padding", Severity::Note, message);
            let times = w.padded_size() / self.size().max(1);
            if times >= BLOW_UP {
                let message =
                    format!("padding makes the tensor {times} times as large as its elements");
                say("padding-blow-up", Severity::Note, message);
            }
        }
        if let Ok(Some(place)) = self.gap() {
            say("gap", Severity::Note, format!("nothing maps to {place}"));
        }
        if let Some(bits) = bits
            && tile.axes() == [Axis::M]
            && shape.len() >= 2
            && let Ok(c) = self.conflicts(shape, bits, &Access::Column { index: 0 }, 1)
            && c.ways > 1
        {
            let message =
                format!("in shared memory a column is a bank conflict of {} ways", c.ways);
            say("bank-conflict", Severity::Note, message);
        }
        if let Some(bits) = bits
            && tile.axes() == [Axis::M]
            && let Some((found, least)) = self.uncoalesced(shape, bits)
        {
            let message = format!(
                "a warp that reads along the last dimension touches {found} sectors of 32 bytes, where {least} would do"
            );
            say("uncoalesced", Severity::Note, message);
        }
        found.sort_by_key(|l| std::cmp::Reverse(l.severity));
        Ok(found)
    }
}

/// From this factor on, padding is more than one would expect.
const BLOW_UP: i64 = 4;

impl Layout {
    /// The sectors that a warp touches along the last dimension, and the fewest that hold as many elements, where
    /// that is at least twice as many.
    fn uncoalesced(&self, shape: &[i64], bits: i64) -> Option<(usize, usize)> {
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
        let access = Access::Lanes(coordinates.collect());
        let found = *self.sectors(shape, bits, &access, 1).ok()?.iter().max()?;
        let least = usize::try_from((lanes * bits + 255) / 256).ok()?.max(1);
        (found > 2 * least).then_some((found, least))
    }
}

/// The number of places an axis has on hardware, where that is fixed.
fn hardware_limit(axis: Axis) -> Option<(i64, &'static str)> {
    if let AxisKind::Thread { of, within } = axis.kind() {
        return of.count_in(within).map(|n| (n, "its scope has"));
    }
    match axis.name() {
        "TLane" => Some((128, "tensor memory has lanes up to")),
        "TCol" => Some((512, "tensor memory has columns up to")),
        _ => None,
    }
}
