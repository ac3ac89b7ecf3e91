//! Loops over a view of a tensor, as coordinates of its device layout.

use crate::StickLayout;
use crate::error::{Result, StickError};
use std::fmt;
use zellige_layout::LayoutError;
use zellige_layout::StridedLayout;

/// A loop variable: it runs over `0..range`, and each step advances by `step` elements of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ViewLoop {
    /// The number of values.
    pub range: i64,
    /// Own-stride distance of one step.
    pub step: i64,
}

/// `multiplier * (p % modulus // divisor)` for the loop variable `p` numbered `var`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AccessTerm {
    /// Which loop.
    pub var: usize,
    /// Factor of the quotient.
    pub multiplier: i64,
    /// The divisor of the remainder.
    pub divisor: i64,
    /// The modulus of the variable, if it is reduced.
    pub modulus: Option<i64>,
}

impl AccessTerm {
    /// Its value for a value of its variable.
    pub fn evaluate_term(&self, value: i64) -> i64 {
        let reduced = self.modulus.map_or(value, |m| value % m);
        // In range for every value that the loop takes: it is at most the offset it contributes.
        self.multiplier.saturating_mul(reduced / self.divisor)
    }

    /// Its largest value while the variable runs over `0..range`.
    fn largest_value(&self, range: i64) -> i128 {
        let top = self.modulus.map_or(range - 1, |m| (range - 1).min(m - 1)).max(0);
        i128::from(self.multiplier) * i128::from(top / self.divisor)
    }
}

impl fmt::Display for AccessTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let simple = self.modulus.is_none() && self.divisor == 1;
        if self.multiplier != 1 {
            write!(f, "{}*{}", self.multiplier, if simple { "" } else { "(" })?;
        }
        write!(f, "p{}", self.var)?;
        if let Some(m) = self.modulus {
            write!(f, "%{m}")?;
        }
        if self.divisor != 1 {
            write!(f, "//{}", self.divisor)?;
        }
        if self.multiplier != 1 && !simple {
            f.write_str(")")?;
        }
        Ok(())
    }
}

/// The coordinate in one device dimension: a sum of terms and a constant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct AccessExpr {
    /// The terms, by variable.
    pub terms: Vec<AccessTerm>,
    /// The constant.
    pub constant: i64,
}

impl AccessExpr {
    /// Its value for values of all loop variables.
    // Saturating, so that a caller may pass any numbers; inside the ranges of the loops nothing
    // saturates.
    pub fn evaluate_at(&self, values: &[i64]) -> i64 {
        self.terms.iter().fold(self.constant, |sum, t| {
            sum.saturating_add(t.evaluate_term(values.get(t.var).copied().unwrap_or(0)))
        })
    }
}

impl fmt::Display for AccessExpr {
    /// `2*p1+p3//64+3`; `0` for an empty sum.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, term) in self.terms.iter().enumerate() {
            write!(f, "{}{term}", if i > 0 { "+" } else { "" })?;
        }
        match (self.terms.is_empty(), self.constant) {
            (true, c) => write!(f, "{c}"),
            (false, 0) => Ok(()),
            (false, c) => write!(f, "+{c}"),
        }
    }
}

/// A loop nest over a view, with the device coordinates of its iterations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceAccess {
    loops: Vec<ViewLoop>,
    coordinates: Vec<AccessExpr>,
    device_size: Vec<i64>,
}

impl DeviceAccess {
    /// One expression per device dimension.
    pub fn coordinates(&self) -> &[AccessExpr] {
        &self.coordinates
    }

    /// The loops.
    pub fn loops(&self) -> &[ViewLoop] {
        &self.loops
    }

    /// The first device dimension whose coordinate leaves its extent for some values, with the
    /// largest value it takes. An access that starts inside a stick overruns the stick dimension:
    /// its lanes past the end are those of the next stick.
    pub fn first_overrun(&self) -> Option<(usize, i64)> {
        if self.loops.iter().any(|l| l.range == 0) {
            return None;
        }
        self.coordinates.iter().zip(&self.device_size).enumerate().find_map(|(dim, (e, n))| {
            let terms = e.terms.iter().map(|t| t.largest_value(self.loops[t.var].range));
            let top = terms.fold(i128::from(e.constant), |a, b| a + b);
            (top >= i128::from(*n)).then(|| (dim, i64::try_from(top).unwrap_or(i64::MAX)))
        })
    }
}

impl StickLayout {
    /// Translates the access `offset + sum(p_i * step_i)` onto device coordinates.
    ///
    /// Law: for all values of the loops, the dot product of the coordinates with `stride_map`
    /// (entries of -1 left out) is the host offset of the access; the coordinates are inside
    /// `device_size` when [`DeviceAccess::first_overrun`] is `None`.
    ///
    /// The stick coordinate is one variable, one variable modulo the stick, or none, plus a constant; an
    /// access that would need anything else is refused, because the device's kernels read one run along the
    /// stick.
    pub fn device_access(&self, loops: &[ViewLoop], offset: i64) -> Result<DeviceAccess> {
        let access = self.decompose_access(loops, offset)?;
        self.check_stick_coordinate(&access.coordinates)?;
        Ok(access)
    }

    /// The same without the check of the stick coordinate.
    pub(super) fn decompose_access(&self, loops: &[ViewLoop], offset: i64) -> Result<DeviceAccess> {
        self.require_standard_arrangement()?;
        let coordinates = box_access(&self.device_size, &self.stride_map, loops, offset)?;
        let device_size = self.device_size.clone();
        Ok(DeviceAccess { loops: loops.to_vec(), coordinates, device_size })
    }

    /// The access to every element of a view of the tensor: one loop per dimension of the view.
    ///
    /// The view is described in the tensor's own strides, as the functions of [`StridedLayout`] make it
    /// from a base with those strides.
    pub fn view_access(&self, view: &StridedLayout) -> Result<DeviceAccess> {
        let loops: Vec<ViewLoop> =
            view.sizes_and_strides().map(|(range, step)| ViewLoop { range, step }).collect();
        self.device_access(&loops, view.offset())
    }

    /// Dimensions of the host with more than one element: the number, the extent, and the own stride. A
    /// dimension along which no device dimension steps is joined with the next faster one if the two are
    /// dense, because a longer device dimension of the faster one carries into it.
    fn host_dim_runs(&self) -> Option<Vec<(usize, i64, i64)>> {
        let long =
            self.host()?.sizes_and_strides().enumerate().filter(|(_, (n, own))| *n > 1 && *own > 0);
        let mut dims: Vec<(usize, i64, i64)> = long.map(|(d, (n, own))| (d, n, own)).collect();
        dims.sort_by_key(|(_, _, own)| *own);
        let mut runs: Vec<(usize, i64, i64)> = Vec::new();
        for (d, extent, own) in dims {
            // A device dimension of extent 1 steps nowhere, whatever its stride.
            let stepped = self.stride_map.iter().zip(&self.device_size).any(|(s, n)| {
                *n > 1 && *s >= own && i128::from(*s) < i128::from(own) * i128::from(extent)
            });
            match runs.last_mut() {
                Some((_, inner, step)) if !stepped && step.checked_mul(*inner) == Some(own) => {
                    *inner = inner.checked_mul(extent)?;
                }
                _ => runs.push((d, extent, own)),
            }
        }
        Some(runs)
    }

    /// The first dimension of the host that an access leaves although every device coordinate is inside its
    /// extent, with the largest index it takes there. That happens with several loops along one dimension,
    /// whose sum ends in the padding of a stick: the host's address carries into the next dimension then,
    /// and device coordinates do not.
    ///
    /// Law: where this and [`DeviceAccess::first_overrun`] are `None`, no coordinate is in the padding.
    pub fn first_outside_dim(&self, access: &DeviceAccess) -> Option<(usize, i64)> {
        self.host_dim_runs()?.into_iter().find_map(|(dim, extent, own)| {
            let end = i128::from(own) * i128::from(extent);
            let inside = |j: usize| {
                let stride = self.stride_map[j];
                stride >= own && i128::from(stride) < end
            };
            let along = || (0..self.device_rank()).filter(|j| inside(*j));
            let constants = along()
                .map(|j| {
                    i128::from(access.coordinates[j].constant) * i128::from(self.stride_map[j])
                })
                .sum::<i128>();
            let reach = access.loops.iter().enumerate().map(|(var, l)| {
                let terms = along().flat_map(|j| &access.coordinates[j].terms);
                // The device dimensions of one host dimension split the variable over moduli and
                // divisors. Together they count up to the largest modulus in steps of the smallest
                // divisor.
                let (mut within, mut by) = (0, i64::MAX);
                for t in terms.filter(|t| t.var == var) {
                    within =
                        within.max(t.modulus.map_or(l.range - 1, |m| (l.range - 1).min(m - 1)));
                    by = by.min(t.divisor);
                }
                i128::from(within / by * by) * i128::from(l.step)
            });
            let top = (constants + reach.sum::<i128>()) / i128::from(own);
            (top >= i128::from(extent)).then(|| (dim, i64::try_from(top).unwrap_or(i64::MAX)))
        })
    }

    fn check_stick_coordinate(&self, coordinates: &[AccessExpr]) -> Result<()> {
        let Some((dim, stick)) = coordinates.iter().enumerate().next_back() else { return Ok(()) };
        if self.stick_dims != 1 {
            let reason = format!(
                "the last {} device dimensions together are the stick, and kernels read along one",
                self.stick_dims
            );
            return Err(StickError::BadStick { dim, reason });
        }
        let eps = self.device_size[dim];
        let plain = |t: &AccessTerm| {
            t.multiplier == 1 && t.divisor == 1 && t.modulus.is_none_or(|m| m == eps)
        };
        if stick.terms.len() > 1 || !stick.terms.iter().all(plain) {
            let reason = format!(
                "the stick coordinate comes out as `{stick}`; it has to be a loop variable, one \
                 modulo {eps}, or 0, plus a constant"
            );
            return Err(StickError::BadStick { dim, reason });
        }
        Ok(())
    }
}

/// Translates the access `offset + sum(p_i * step_i)` onto the coordinates of a box, of the host or of a device: one
/// expression per dimension.
///
/// Law: for all values of the loops, the dot product of the coordinates with `stride` is the offset of
/// the access. Dimensions of size 1, and those with strides of 0 or less, have the coordinate 0.
///
/// # Errors
/// Lists of other lengths; negative numbers; steps that end between two elements.
pub fn box_access(
    size: &[i64],
    stride: &[i64],
    loops: &[ViewLoop],
    offset: i64,
) -> Result<Vec<AccessExpr>> {
    if size.len() != stride.len() {
        let (expected, found) = (size.len(), stride.len());
        return Err(LayoutError::LengthMismatch { what: "the stride list", expected, found }.into());
    }
    let mut coordinates = vec![AccessExpr::default(); size.len()];
    let mut order: Vec<usize> =
        (0..size.len()).filter(|j| stride[*j] > 0 && size[*j] > 1).collect();
    // Largest stride first, as in any positional notation: the remainder then belongs to smaller
    // strides.
    order.sort_by_key(|j| std::cmp::Reverse(stride[*j]));

    if offset < 0 {
        let accepted = "offsets are 0 or more".into();
        let what = "the offset of a view";
        return Err(LayoutError::BadParameter { what, value: offset, accepted }.into());
    }
    let mut rest = offset;
    for j in &order {
        coordinates[*j].constant = rest / stride[*j];
        rest %= stride[*j];
    }
    if rest != 0 {
        let reason = format!("{rest} is left over of the offset {offset} of the view");
        return Err(StickError::HostNotCovered { index: offset, reason });
    }
    for (var, l) in loops.iter().enumerate() {
        if l.range < 0 || l.step < 0 {
            let (what, value) =
                if l.range < 0 { ("a loop range", l.range) } else { ("a loop step", l.step) };
            let accepted = format!("range and step of p{var} are 0 or more");
            return Err(LayoutError::BadParameter { what, value, accepted }.into());
        }
        if l.range > 1 && l.step > 0 {
            decompose_loop(var, *l, stride, &order, &mut coordinates)?;
        }
    }
    Ok(coordinates)
}

/// Spreads one loop over the dimensions in `order`, largest stride first.
fn decompose_loop(
    var: usize,
    l: ViewLoop,
    strides: &[i64],
    order: &[usize],
    out: &mut [AccessExpr],
) -> Result<()> {
    let refuse = |dim: usize, why: &str| {
        let (stride, step) = (strides[dim], l.step);
        let reason = format!("p{var} steps by {step} on the host, and stride {stride} {why}");
        Err(StickError::BadStick { dim, reason })
    };
    let reach = (l.range - 1)
        .checked_mul(l.step)
        .ok_or_else(|| LayoutError::overflow_of(format!("the reach of p{var}")))?;
    let mut modulus = None;
    for j in order.iter().copied() {
        let stride = strides[j];
        // The loop never reaches one step of this dimension, so its coordinate is constant.
        if stride > reach {
            continue;
        }
        // A step covers several steps of this dimension, and every smaller dimension stays at 0:
        // the decomposition is complete.
        if stride < l.step {
            if l.step % stride != 0 {
                return refuse(j, "does not divide that");
            }
            let multiplier = l.step / stride;
            out[j].terms.push(AccessTerm { var, multiplier, divisor: 1, modulus });
            return Ok(());
        }
        if stride % l.step != 0 {
            return refuse(j, "falls between two of its steps");
        }
        let divisor = stride / l.step;
        // If the strides do not divide one another, the variable is divided unevenly by the larger one, and
        // this coordinate is no quotient of a remainder.
        if modulus.is_some_and(|m| m % divisor != 0) {
            return refuse(j, "does not divide the next larger stride");
        }
        // A second dimension of the same stride has no digit left to count.
        if modulus != Some(divisor) {
            out[j].terms.push(AccessTerm { var, multiplier: 1, divisor, modulus });
        }
        modulus = Some(divisor);
        if divisor == 1 {
            return Ok(());
        }
    }
    let reason = format!(
        "p{var} steps by {} on the host, and no device dimension steps by that or by a divisor \
         of it",
        l.step
    );
    Err(StickError::HostNotCovered { index: l.step, reason })
}
