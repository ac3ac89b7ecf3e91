//! Linear layouts: maps between named dimensions that are linear over GF(2).
//!
//! A [`LinearLayout`] takes one number per *in dimension* (`register`, `lane`, `warp`, `block`, or
//! `offset` for shared memory) to one number per *out dimension* (`dim0`, `dim1`, ..: the tensor). All sizes are
//! powers of two, and addition is XOR:
//!
//! ```text
//! L(x xor y) = L(x) xor L(y),   so L is known by its bases   bases[dim][k] = L(2^k on dim)
//! ```
//!
//! It maps in the opposite direction of a [`crate::Layout`]: from hardware to tensor. Two inputs with one
//! output are two physical coordinates of one element, so a basis of zeros is a broadcast. Names and semantics follow
//! Triton's `LinearLayout.h`.
//!
//! Dimensions are ordered from minor to major: in a flat number the first one has the low bits. Every misuse is an
//! [`LayoutError`], and every answer is exact.
//!
//! ```
//! use zellige_layout::LinearLayout;
//! // Two registers hold neighbours along dim1, and 4 lanes continue: 8 elements.
//! let row = LinearLayout::identity_1d(2, "register", "dim1")?
//!     .direct_sum(&LinearLayout::identity_1d(4, "lane", "dim1")?)?;
//! assert_eq!(row.apply_to_input(&[("register", 1), ("lane", 3)])?, [7]);
//! assert!(row.is_invertible());
//! assert_eq!(row.invert()?.apply_to_input(&[("dim1", 7)])?, [1, 3]);
//! # Ok::<(), zellige_layout::LayoutError>(())
//! ```

mod algebra;
mod banks;
mod divide;
mod facts;
mod gf2;
mod hardware;
mod reshape;

pub use banks::{SharedSwizzle, count_bank_conflicts, find_optimal_swizzle};
pub use hardware::LinearAxis;

use crate::error::{LayoutError, Result};
use std::fmt;

/// Bits of all in dimensions together, and of all out dimensions: a flat number of either side is a
/// non-negative `i64`.
pub const MAX_LINEAR_BITS: u32 = 62;

/// The most dimensions of one side. Past 62 they can only be of size 1, but a text may list any number of those.
const MAX_LINEAR_DIMS: usize = 256;

/// A map from named in dimensions to named out dimensions that is linear over GF(2).
///
/// **Invariants**, checked by [`LinearLayout::new`]: names are distinct on each side; an out size is a power of two;
/// a basis has one entry per out dimension, from 0 to below its size; each side has at most [`MAX_LINEAR_BITS`] bits.
#[derive(Clone, PartialEq, Eq)]
pub struct LinearLayout {
    ins: Vec<InDim>,
    outs: Vec<OutDim>,
}

/// An in dimension: its bases as flat numbers of the out dimensions, the image of 1, 2, 4, ..
#[derive(Debug, Clone, PartialEq, Eq)]
struct InDim {
    name: String,
    bases: Vec<u64>,
}

/// An out dimension of `2^bits`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OutDim {
    name: String,
    bits: u32,
}

impl LinearLayout {
    /// A layout from its bases (`ins[i].1[k]` is the image of `2^k` on that dimension, one entry per out dimension)
    /// and the sizes of its out dimensions.
    pub fn new(ins: &[(String, Vec<Vec<i64>>)], outs: &[(String, i64)]) -> Result<LinearLayout> {
        let outs: Vec<OutDim> = outs
            .iter()
            .map(|(name, size)| Ok(OutDim { name: name.clone(), bits: log2_of_size(*size, name)? }))
            .collect::<Result<_>>()?;
        check_distinct_names("out", outs.iter().map(|d| d.name.as_str()))?;
        check_within_bits("out", outs.iter().map(|d| u64::from(d.bits)))?;
        let empty = LinearLayout { ins: Vec::new(), outs };
        let mut dims = Vec::with_capacity(ins.len());
        for (name, bases) in ins {
            let flat = |(index, basis): (usize, &Vec<i64>)| empty.flatten_basis(name, index, basis);
            let bases = bases.iter().enumerate().map(flat).collect::<Result<_>>()?;
            dims.push(InDim { name: name.clone(), bases });
        }
        LinearLayout::from_flat_bases(dims, empty.outs)
    }

    /// A layout whose out sizes are the least powers of two that hold its bases.
    pub fn with_inferred_sizes(
        ins: &[(String, Vec<Vec<i64>>)],
        outs: &[String],
    ) -> Result<LinearLayout> {
        let largest = |d: usize| {
            let entries = ins.iter().flat_map(|(_, bases)| bases).filter_map(move |b| b.get(d));
            entries.copied().max().unwrap_or(0).max(0)
        };
        let size = |d: usize| {
            let next = largest(d).checked_add(1).map(i64::cast_unsigned);
            let size = next.and_then(u64::checked_next_power_of_two);
            size.and_then(|s| i64::try_from(s).ok())
                .ok_or_else(|| LayoutError::overflow_of("a basis"))
        };
        let outs: Vec<(String, i64)> = outs
            .iter()
            .enumerate()
            .map(|(d, name)| Ok((name.clone(), size(d)?)))
            .collect::<Result<_>>()?;
        LinearLayout::new(ins, &outs)
    }

    /// The layout without dimensions: the neutral element of [`LinearLayout::direct_sum`].
    pub fn empty() -> LinearLayout {
        LinearLayout { ins: Vec::new(), outs: Vec::new() }
    }

    /// `L(x) = x` for `x < size`.
    pub fn identity_1d(size: i64, in_dim: &str, out_dim: &str) -> Result<LinearLayout> {
        LinearLayout::strided_1d(size, 1, in_dim, out_dim)
    }

    /// `L(x) = stride * x` for `x < size`, into `size * stride`.
    pub fn strided_1d(size: i64, stride: i64, in_dim: &str, out_dim: &str) -> Result<LinearLayout> {
        let (bits, shift) = (log2_of_size(size, in_dim)?, log2_of_size(stride, "the stride")?);
        check_within_bits("out", [u64::from(bits) + u64::from(shift)])?;
        let bases = (0..bits).map(|k| 1 << (k + shift)).collect();
        LinearLayout::from_flat_bases(
            vec![InDim { name: in_dim.into(), bases }],
            vec![OutDim { name: out_dim.into(), bits: bits + shift }],
        )
    }

    /// `L(x) = 0` for `x < size`, into `out_size`: a broadcast.
    pub fn zeros_1d(size: i64, in_dim: &str, out_dim: &str, out_size: i64) -> Result<LinearLayout> {
        let bases = vec![0; log2_of_size(size, in_dim)? as usize];
        let out = OutDim { name: out_dim.into(), bits: log2_of_size(out_size, out_dim)? };
        LinearLayout::from_flat_bases(vec![InDim { name: in_dim.into(), bases }], vec![out])
    }

    /// The identity on several dimensions of one name on both sides, in order.
    pub fn identity<'a>(dims: impl IntoIterator<Item = (&'a str, i64)>) -> Result<LinearLayout> {
        let mut all = LinearLayout::empty();
        for (name, size) in dims {
            all = all.direct_sum(&LinearLayout::identity_1d(size, name, name)?)?;
        }
        Ok(all)
    }

    /// Checks names and sizes; bases are already inside the out dimensions.
    fn from_flat_bases(ins: Vec<InDim>, outs: Vec<OutDim>) -> Result<LinearLayout> {
        check_distinct_names("in", ins.iter().map(|d| d.name.as_str()))?;
        check_distinct_names("out", outs.iter().map(|d| d.name.as_str()))?;
        check_within_bits("in", ins.iter().map(|d| d.bases.len() as u64))?;
        check_within_bits("out", outs.iter().map(|d| u64::from(d.bits)))?;
        Ok(LinearLayout { ins, outs })
    }

    /// A basis as one flat number, or an error if it has the wrong length or leaves an out dimension.
    fn flatten_basis(&self, dim: &str, index: usize, basis: &[i64]) -> Result<u64> {
        let bad = |reason: String| LayoutError::BadBasis { dim: dim.into(), index, reason };
        if basis.len() != self.outs.len() {
            let (found, expected) = (basis.len(), self.outs.len());
            let reason = format!("it has {found} entries, and there are {expected} out dimensions");
            return Err(bad(reason));
        }
        let (mut flat, mut shift) = (0, 0);
        for (out, value) in self.outs.iter().zip(basis) {
            let inside = (0..1i64 << out.bits).contains(value);
            if !inside {
                let size = 1i64 << out.bits;
                let reason = format!("{value} is outside of `{}`, which has size {size}", out.name);
                return Err(bad(reason));
            }
            flat |= value.cast_unsigned() << shift;
            shift += out.bits;
        }
        Ok(flat)
    }

    /// A flat number as one entry per out dimension.
    fn split_flat_number(&self, flat: u64) -> Vec<i64> {
        let mut rest = flat;
        let entry = |out: &OutDim| {
            let value = rest & ((1 << out.bits) - 1);
            rest >>= out.bits;
            value.cast_signed()
        };
        self.outs.iter().map(entry).collect()
    }

    /// The names of the in dimensions, in order.
    pub fn in_dims(&self) -> impl ExactSizeIterator<Item = &str> + DoubleEndedIterator + Clone {
        self.ins.iter().map(|d| d.name.as_str())
    }

    /// The names of the out dimensions, in order.
    pub fn out_dims(&self) -> impl ExactSizeIterator<Item = &str> + DoubleEndedIterator + Clone {
        self.outs.iter().map(|d| d.name.as_str())
    }

    /// The in dimensions with their sizes.
    pub fn in_sizes(&self) -> impl ExactSizeIterator<Item = (&str, i64)> + Clone {
        self.ins.iter().map(|d| (d.name.as_str(), 1 << d.bases.len()))
    }

    /// The out dimensions with their sizes.
    pub fn out_sizes(&self) -> impl ExactSizeIterator<Item = (&str, i64)> + Clone {
        self.outs.iter().map(|d| (d.name.as_str(), 1 << d.bits))
    }

    /// The size of an in dimension, where it has it.
    pub fn in_size(&self, dim: &str) -> Option<i64> {
        self.in_sizes().find(|(name, _)| *name == dim).map(|(_, size)| size)
    }

    /// The size of an out dimension, where it has it.
    pub fn out_size(&self, dim: &str) -> Option<i64> {
        self.out_sizes().find(|(name, _)| *name == dim).map(|(_, size)| size)
    }

    /// The bases of an in dimension, one entry per out dimension; empty where it has none.
    pub fn bases(&self, dim: &str) -> Vec<Vec<i64>> {
        self.flat_bases(dim).iter().map(|b| self.split_flat_number(*b)).collect()
    }

    /// Every in dimension with its bases: what [`LinearLayout::new`] takes.
    pub fn bases_of_all_dims(&self) -> Vec<(String, Vec<Vec<i64>>)> {
        self.ins.iter().map(|d| (d.name.clone(), self.bases(&d.name))).collect()
    }

    /// The bases of an in dimension as flat numbers of the out dimensions.
    fn flat_bases(&self, dim: &str) -> &[u64] {
        self.ins.iter().find(|d| d.name == dim).map_or(&[], |d| &d.bases)
    }

    /// Bits of all in dimensions.
    fn in_bits(&self) -> usize {
        self.ins.iter().map(|d| d.bases.len()).sum()
    }

    /// Bits of all out dimensions.
    fn out_bits(&self) -> u32 {
        self.outs.iter().map(|d| d.bits).sum()
    }

    /// The columns of its matrix: every basis, in the order of the in dimensions.
    fn matrix_columns(&self) -> impl Iterator<Item = u64> + '_ {
        self.ins.iter().flat_map(|d| d.bases.iter().copied())
    }

    /// The out coordinate of an input that names every in dimension, in any order.
    pub fn apply_to_input(&self, input: &[(&str, i64)]) -> Result<Vec<i64>> {
        check_same_names("apply", "the input", input.iter().map(|(d, _)| *d), self.in_dims())?;
        let mut sum = 0;
        for dim in &self.ins {
            let value = input.iter().find(|(d, _)| *d == dim.name).map_or(0, |(_, v)| *v);
            let size = 1i64 << dim.bases.len();
            if !(0..size).contains(&value) {
                let accepted = format!("`{}` goes from 0 to {}", dim.name, size - 1);
                return Err(LayoutError::BadParameter {
                    what: "an input coordinate",
                    value,
                    accepted,
                });
            }
            for (k, basis) in dim.bases.iter().enumerate() {
                if value >> k & 1 == 1 {
                    sum ^= basis;
                }
            }
        }
        Ok(self.split_flat_number(sum))
    }

    /// The matrix over GF(2): one row per out bit, one column per in bit, both from minor to major.
    pub fn gf2_matrix(&self) -> Vec<Vec<u8>> {
        let row = |r: u32| self.matrix_columns().map(|c| u8::from(c >> r & 1 == 1)).collect();
        (0..self.out_bits()).map(row).collect()
    }
}

/// The logarithm of a size.
fn log2_of_size(size: i64, what: &str) -> Result<u32> {
    if size >= 1 && size.cast_unsigned().is_power_of_two() {
        return Ok(size.trailing_zeros());
    }
    Err(LayoutError::NotPowerOfTwo { what: what.into(), value: size })
}

fn check_distinct_names<'a>(
    side: &'static str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Result<()> {
    let mut seen: Vec<&str> = Vec::new();
    for name in names {
        if seen.contains(&name) {
            let reason = format!("the {side} dimension `{name}` is given twice");
            return Err(LayoutError::LinearDims { call: "a linear layout", reason });
        }
        if seen.len() == MAX_LINEAR_DIMS {
            let reason = format!("there are more than {MAX_LINEAR_DIMS} {side} dimensions");
            return Err(LayoutError::LinearDims { call: "a linear layout", reason });
        }
        seen.push(name);
    }
    Ok(())
}

fn check_within_bits(side: &'static str, bits: impl IntoIterator<Item = u64>) -> Result<()> {
    let total = bits.into_iter().fold(0u64, u64::saturating_add);
    if total <= u64::from(MAX_LINEAR_BITS) {
        return Ok(());
    }
    let value = i64::try_from(total).unwrap_or(i64::MAX);
    let accepted = format!("the {side} dimensions together have at most {MAX_LINEAR_BITS} bits");
    Err(LayoutError::BadParameter {
        what: "the number of bits of a linear layout",
        value,
        accepted,
    })
}

/// Refuses names that are not exactly those expected, in any order.
fn check_same_names<'a, 'b>(
    call: &'static str,
    what: &str,
    given: impl IntoIterator<Item = &'a str>,
    expected: impl IntoIterator<Item = &'b str>,
) -> Result<()> {
    let given: Vec<&str> = given.into_iter().collect();
    let expected: Vec<&str> = expected.into_iter().collect();
    check_distinct_names("given", given.iter().copied())?;
    let same = given.len() == expected.len() && given.iter().all(|d| expected.contains(d));
    if same {
        return Ok(());
    }
    let reason = format!(
        "{what} names {}; expected {}",
        list_some_names(&given),
        list_some_names(&expected)
    );
    Err(LayoutError::LinearDims { call, reason })
}

/// Names in a message: `[a, b]`, and of a long list only the first ones.
fn list_some_names(names: &[&str]) -> String {
    let shown: Vec<String> =
        names.iter().take(16).map(|n| n.chars().take(40).collect::<String>()).collect();
    let rest = if names.len() > 16 { ", .." } else { "" };
    format!("[{}{rest}]", shown.join(", "))
}

/// The form that Triton prints: one line per basis, then the out dimensions.
impl fmt::Display for LinearLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outs: Vec<String> =
            self.out_sizes().map(|(name, size)| format!("{name} (size {size})")).collect();
        let outs = outs.join(", ");
        if self.ins.is_empty() {
            return match self.outs.is_empty() {
                true => f.write_str("\n(empty layout)"),
                false => write!(f, "\n(empty layout with out-dims [{outs}])"),
            };
        }
        f.write_str("\n")?;
        for dim in &self.ins {
            if dim.bases.is_empty() {
                writeln!(f, " - {} is a size 1 dimension", dim.name)?;
            }
            for (k, basis) in dim.bases.iter().enumerate() {
                let bullet = if k == 0 { " - " } else { "   " };
                let entries: Vec<String> =
                    self.split_flat_number(*basis).iter().map(i64::to_string).collect();
                writeln!(f, "{bullet}{}={} -> ({})", dim.name, 1u64 << k, entries.join(", "))?;
            }
        }
        write!(f, "where out dims are: [{outs}]")
    }
}

impl fmt::Debug for LinearLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
