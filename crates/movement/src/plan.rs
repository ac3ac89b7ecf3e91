//! Move plans: loop nests that copy every element from its source address to its destination address.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A loop of `range` steps; each advances by `src` elements in the source and by `dst` in the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CopyLoop {
    /// Number of steps.
    pub range: i64,
    /// Source stride in elements.
    pub src: i64,
    /// Destination stride in elements.
    pub dst: i64,
}

/// A loop nest: for every pair `(a, b)` of `starts` and every combination of loop digits,
/// `destination[b + sum i * dst] = source[a + sum i * src]`.
///
/// Most nests have one start. A swizzle, or two tilings that do not nest, lead to several starts: a small permutation
/// table for what loops alone cannot express.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyNest {
    /// Outermost first, in decreasing order of destination strides.
    pub loops: Vec<CopyLoop>,
    /// Source and destination offsets in elements.
    pub starts: Vec<(i64, i64)>,
}

impl CopyNest {
    /// The number of elements that the nest writes.
    pub fn element_count(&self) -> i64 {
        self.loops.iter().map(|l| l.range).product::<i64>()
            * i64::try_from(self.starts.len()).unwrap_or(i64::MAX)
    }

    /// The number of consecutive elements that are adjacent in the source and in the destination.
    pub fn run_length(&self) -> i64 {
        self.loops.iter().find(|l| l.src == 1 && l.dst == 1).map_or(1, |l| l.range)
    }
}

/// A value written to padding: for every start and combination of digits,
/// `destination[start + sum i * stride] = fill`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FillNest {
    /// Pairs of a range and a stride in elements, outermost first.
    pub loops: Vec<(i64, i64)>,
    /// Destination offsets in elements.
    pub starts: Vec<i64>,
}

impl FillNest {
    /// The number of elements that the nest writes.
    pub fn element_count(&self) -> i64 {
        self.loops.iter().map(|(r, _)| *r).product::<i64>()
            * i64::try_from(self.starts.len()).unwrap_or(i64::MAX)
    }
}

/// How to move a tensor from one layout to another.
///
/// **Law**: running the nests writes every address of every element exactly once, with the element that the
/// source layout holds; the fills write every padding position once, and nothing else.
///
/// A plan can be serialized. A plan that is read back is checked first: loops that leave their buffers or write an
/// address twice are an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "crate::checked::UncheckedPlan")]
pub struct MovePlan {
    pub(crate) nests: Vec<CopyNest>,
    pub(crate) fills: Vec<FillNest>,
    pub(crate) elements: i64,
    /// The number of destination addresses that each element is written to.
    pub(crate) copies: i64,
    /// Lowest and highest source address read, in elements.
    pub(crate) src_range: Option<(i64, i64)>,
    /// Lowest and highest destination address written, in elements.
    pub(crate) dst_range: Option<(i64, i64)>,
}

/// The cost of a plan, computed from its nests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PlanCost {
    /// Bytes read from the source.
    pub bytes_read: i64,
    /// Bytes written, fills included.
    pub bytes_written: i64,
    /// Cache lines of 64 bytes that are accessed; a line counts once for every run that accesses it.
    pub lines: i64,
    /// Separate runs of adjacent elements.
    pub runs: i64,
}

impl MovePlan {
    /// The copies.
    pub fn nests(&self) -> &[CopyNest] {
        &self.nests
    }

    /// The fills of padding.
    pub fn fills(&self) -> &[FillNest] {
        &self.fills
    }

    /// Logical elements moved.
    pub fn element_count(&self) -> i64 {
        self.elements
    }

    /// Elements that the source buffer must hold: one more than the highest address read.
    pub fn src_len(&self) -> i64 {
        self.src_range.map_or(0, |(_, max)| max + 1)
    }

    /// Elements that the destination buffer must hold.
    pub fn dst_len(&self) -> i64 {
        self.dst_range.map_or(0, |(_, max)| max + 1)
    }

    /// The cost for elements of these widths in bytes.
    pub fn cost_in_bytes(&self, src_bytes: i64, dst_bytes: i64) -> PlanCost {
        // Every run is counted as if it began at the beginning of a line. Where it really begins depends on the addresses
        // of the buffers, which a plan does not have.
        let lines_of = |run_bytes: i64| run_bytes / 64 + i64::from(run_bytes % 64 > 0);
        // The arithmetic saturates, because a plan may be made for a tensor that is too large for any memory.
        let (mut lines, mut runs) = (0i64, 0i64);
        for nest in &self.nests {
            let run = nest.run_length();
            let count = nest.element_count() / run.max(1);
            runs = runs.saturating_add(count);
            let per_run =
                lines_of(run.saturating_mul(src_bytes)) + lines_of(run.saturating_mul(dst_bytes));
            lines = lines.saturating_add(count.saturating_mul(per_run));
        }
        let mut filled = 0i64;
        for fill in &self.fills {
            let run = fill.loops.iter().find(|(_, s)| *s == 1).map_or(1, |(r, _)| *r);
            let count = fill.element_count() / run.max(1);
            filled = filled.saturating_add(fill.element_count());
            runs = runs.saturating_add(count);
            lines =
                lines.saturating_add(count.saturating_mul(lines_of(run.saturating_mul(dst_bytes))));
        }
        let written = self.elements.saturating_mul(self.copies).saturating_add(filled);
        PlanCost {
            bytes_read: self.elements.saturating_mul(self.copies).saturating_mul(src_bytes),
            bytes_written: written.saturating_mul(dst_bytes),
            lines,
            runs,
        }
    }

    /// Pairs of a run length and the number of copied runs of that length, longest first.
    pub fn run_lengths(&self) -> Vec<(i64, i64)> {
        let mut lengths: Vec<(i64, i64)> = Vec::new();
        for nest in &self.nests {
            let (run, count) = (nest.run_length(), nest.element_count() / nest.run_length().max(1));
            match lengths.iter_mut().find(|(r, _)| *r == run) {
                Some((_, c)) => *c += count,
                None => lengths.push((run, count)),
            }
        }
        lengths.sort_unstable_by_key(|(r, _)| std::cmp::Reverse(*r));
        lengths
    }
}

impl fmt::Display for CopyNest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = (0..self.loops.len()).map(loop_name).collect();
        if !self.loops.is_empty() {
            f.write_str("for ")?;
            for (i, (l, n)) in self.loops.iter().zip(&names).enumerate() {
                write!(f, "{}{n} in {}", if i > 0 { ", " } else { "" }, l.range)?;
            }
            f.write_str(": ")?;
        }
        let address = |start: i64, stride: fn(&CopyLoop) -> i64| {
            let mut terms: Vec<String> = self
                .loops
                .iter()
                .zip(&names)
                .filter(|(l, _)| stride(l) != 0)
                .map(|(l, n)| match stride(l) {
                    1 => n.clone(),
                    s => format!("{n}*{s}"),
                })
                .collect();
            if start != 0 || terms.is_empty() {
                terms.push(start.to_string());
            }
            terms.join(" + ")
        };
        match self.starts.as_slice() {
            [(a, b)] => {
                write!(f, "dst[{}] = src[{}]", address(*b, |l| l.dst), address(*a, |l| l.src))
            }
            many => {
                let dst = address(0, |l| l.dst);
                let src = address(0, |l| l.src);
                write!(f, "dst[b + {dst}] = src[a + {src}] for {} starts (a,b)", many.len())?;
                for (a, b) in many.iter().take(4) {
                    write!(f, " ({a},{b})")?;
                }
                if many.len() > 4 { f.write_str(" ..") } else { Ok(()) }
            }
        }
    }
}

fn loop_name(i: usize) -> String {
    // The first 18 loops are named i to z, the next ones i18, i19, ...
    match u8::try_from(i) {
        Ok(k) if k < 18 => char::from(b'i' + k).to_string(),
        _ => format!("i{i}"),
    }
}

impl fmt::Display for MovePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for nest in &self.nests {
            writeln!(f, "{nest}")?;
        }
        for fill in &self.fills {
            let total = fill.element_count();
            writeln!(f, "fill {total} positions: {:?} from {:?}", fill.loops, fill.starts)?;
        }
        Ok(())
    }
}
