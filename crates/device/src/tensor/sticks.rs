//! A tensor as kernels see it: one dimension in sticks, every other one a plain stride.
//!
//! Kernels work on tensors in the layouts that they have. What they need to know of one is small: how far a step along
//! each logical dimension moves, and which dimension runs along the lanes. Tensors in the layouts that
//! the device's rules allow, and their transposes, slices by whole sticks, selections and expansions,
//! all have that form; what has not (a slice that begins inside a stick) is moved first.

use crate::error::{DeviceError, Result};
use smallvec::SmallVec;
use std::ops::Range;
use zellige_float::Format;
use zellige_layout::StridedLayout;
use zellige_machine::account::MemoryTraffic;
use zellige_stick::{AccessTerm, StickLayout};

/// Per logical dimension.
pub(crate) type StickDims<T> = SmallVec<[T; 6]>;

/// Places of a tensor's elements, in elements of its block.
///
/// **Law**: element `c` is at `offset + sum(c[d] * stride[d])` over the dimensions other than the
/// stick; along the stick dimension `s`, at `c[s] / eps * stride[s] + c[s] % eps` more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StickForm {
    /// Extents.
    pub size: StickDims<usize>,
    /// Elements of the block that one step moves; for the stick dimension, one stick.
    pub stride: StickDims<usize>,
    /// The dimension that runs along the lanes; none for a sparse tensor, with one element in each
    /// stick.
    pub stick: Option<usize>,
    /// Lanes of a stick.
    pub eps: usize,
    /// The first element.
    pub offset: usize,
    /// The format of elements.
    pub format: Format,
    /// Whether elements are truth values, stored as the numbers 0 and 1.
    pub truth: bool,
    /// Whether the host reads them as float16, which has fewer large numbers than DLFloat16.
    pub float16: bool,
}

impl StickForm {
    /// The form of a view of a tensor.
    ///
    /// # Errors
    /// [`DeviceError::Irregular`] where a kernel cannot read the view in its layout.
    pub fn from_layout(
        layout: &StickLayout,
        view: &StridedLayout,
        format: Format,
    ) -> Result<StickForm> {
        let irregular = |dim: usize, reason: String| DeviceError::Irregular { dim, reason };
        let unsigned = |n: i64| usize::try_from(n).expect("sizes and places are not negative");
        let eps = unsigned(layout.elems_per_stick());
        let mut sticks = StickForm {
            size: view.size().iter().map(|n| unsigned(*n)).collect(),
            stride: SmallVec::from_elem(0, view.rank()),
            stick: None,
            eps,
            offset: 0,
            format,
            truth: false,
            float16: false,
        };
        // Without elements every view is regular.
        if view.numel() == 0 {
            return Ok(sticks);
        }
        let access = layout.view_access(view).map_err(|e| irregular(0, e.to_string()))?;
        let strides = layout.device_strides()?;
        let last = layout.device_rank() - 1;
        // A step past the end of a device dimension would continue in another row of it, where the stride is a
        // different one.
        if let Some((dim, step)) = access.first_overrun() {
            let reason = format!("device dimension {dim} would be stepped to {step}");
            return Err(irregular(0, reason));
        }
        // The tensor itself fits by construction; for its views this has to be checked.
        if layout.host() != Some(view)
            && let Some((dim, index)) = layout.first_outside_dim(&access)
        {
            return Err(irregular(0, format!("it reaches index {index} of dimension {dim}")));
        }
        let parts = access.coordinates().iter().zip(&strides);
        sticks.offset = parts.map(|(e, s)| unsigned(e.constant) * unsigned(*s)).sum();
        for d in 0..view.rank() {
            let terms: SmallVec<[(usize, AccessTerm); 4]> = access
                .coordinates()
                .iter()
                .enumerate()
                .flat_map(|(j, e)| e.terms.iter().map(move |t| (j, *t)))
                .filter(|(_, t)| t.var == d)
                .collect();
            // A coordinate that is neither divided nor wrapped is a plain stride.
            let whole = |t: &AccessTerm| t.divisor == 1 && t.modulus.is_none();
            match terms.as_slice() {
                [] => {}
                [(j, t)] if *j != last && whole(t) => {
                    sticks.stride[d] = unsigned(t.multiplier) * unsigned(strides[*j]);
                }
                [(j, t)] if *j == last && whole(t) => sticks.stick = Some(d),
                // A dimension in sticks: its quotient by the lanes of a stick counts sticks, its remainder counts
                // lanes.
                [(j, t), (k, lane)] | [(k, lane), (j, t)]
                    if *k == last
                        && *j != last
                        && lane.modulus == Some(layout.elems_per_stick())
                        && t.divisor == layout.elems_per_stick()
                        && t.multiplier == 1
                        && t.modulus.is_none() =>
                {
                    sticks.stick = Some(d);
                    sticks.stride[d] = unsigned(strides[*j]);
                }
                _ => {
                    let reason = "it is spread over several device dimensions".into();
                    return Err(irregular(d, reason));
                }
            }
        }
        let lane = access.coordinates()[last].constant;
        if let Some(d) = sticks.stick
            && lane != 0
        {
            return Err(irregular(d, format!("it begins at lane {lane} of a stick")));
        }
        Ok(sticks)
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.size.len()
    }

    /// The number of elements.
    pub fn numel(&self) -> usize {
        self.size.iter().product()
    }

    /// Sticks along the stick dimension.
    pub fn stick_count(&self) -> usize {
        self.stick.map_or(1, |s| self.size[s].div_ceil(self.eps))
    }

    /// What reading or writing all of it moves, in whole sticks: bursts of adjacent ones, and the
    /// bytes among them that hold no element of it. A stick that several elements share is moved once.
    pub fn stick_traffic(&self) -> (MemoryTraffic, u64) {
        if self.numel() == 0 {
            return (MemoryTraffic::new(), 0);
        }
        let mut steps: StickDims<(usize, usize)> = (0..self.rank())
            .map(|d| {
                if self.stick == Some(d) {
                    (self.stride[d], self.stick_count())
                } else {
                    (self.stride[d], self.size[d])
                }
            })
            .filter(|(stride, n)| *n > 1 && *stride > 0)
            .collect();
        // From the shortest step on: adjacent sticks become one burst, and every longer step repeats it.
        steps.sort_unstable();
        let (mut run, mut bursts) = (self.eps, 1u64);
        for (stride, n) in steps {
            if stride == run && bursts == 1 {
                run *= n;
            } else {
                bursts *= n as u64;
            }
        }
        // A broadcast dimension repeats elements that are moved once.
        let distinct = (0..self.rank()).filter(|d| self.stride[*d] > 0 || self.stick == Some(*d));
        let elements: u64 = distinct.map(|d| self.size[d] as u64).product();
        let width = self.format.byte_size() as u64;
        let moved = run as u64 * width * bursts;
        (
            MemoryTraffic::from_bursts(run as u64 * width, bursts),
            moved.saturating_sub(elements * width),
        )
    }

    /// The place of an element.
    pub fn element_offset(&self, at: &[usize]) -> usize {
        let mut place = self.offset;
        for (d, c) in at.iter().enumerate() {
            place += if self.stick == Some(d) {
                c / self.eps * self.stride[d] + c % self.eps
            } else {
                c * self.stride[d]
            };
        }
        place
    }

    /// The part of a dimension; along the sticks it begins with a whole one.
    ///
    /// # Panics
    /// Ranges outside the dimension, or that begin inside a stick: callers cut by whole sticks.
    #[must_use]
    pub fn slice_dim(&self, dim: usize, range: Range<usize>) -> StickForm {
        assert!(range.start <= range.end && range.end <= self.size[dim], "outside dimension {dim}");
        let mut part = self.clone();
        part.size[dim] = range.len();
        part.offset += if self.stick == Some(dim) {
            assert!(range.start.is_multiple_of(self.eps), "a slice begins with a whole stick");
            range.start / self.eps * self.stride[dim]
        } else {
            range.start * self.stride[dim]
        };
        part
    }

    /// The same tensor with its dimensions in another order: dimension `d` of the result is `perm[d]`.
    #[must_use]
    pub fn permute_dims(&self, perm: &[usize]) -> StickForm {
        let pick = |list: &[usize]| perm.iter().map(|d| list[*d]).collect();
        StickForm {
            size: pick(&self.size),
            stride: pick(&self.stride),
            stick: self.stick.and_then(|s| perm.iter().position(|d| *d == s)),
            ..self.clone()
        }
    }

    /// The tensor expanded to `size`: leading dimensions are added, those of extent 1 repeat.
    pub fn expand_to(&self, size: &[usize]) -> Option<StickForm> {
        let lead = size.len().checked_sub(self.rank())?;
        let mut wide = StickForm {
            size: size.into(),
            stride: SmallVec::from_elem(0, size.len()),
            stick: None,
            ..self.clone()
        };
        for d in 0..self.rank() {
            if self.size[d] == size[lead + d] {
                wide.stride[lead + d] = self.stride[d];
                // A stick dimension of one element is only its first lane.
                if self.stick == Some(d) {
                    wide.stick = Some(lead + d);
                }
            } else if self.size[d] != 1 {
                return None;
            }
        }
        Some(wide)
    }
}
