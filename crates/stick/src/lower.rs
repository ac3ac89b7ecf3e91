//! From a stick layout to the one algebra.
//!
//! The device position of a host element is found by dividing its own-stride offset by the strides of
//! `stride_map`, the largest first. Written as digits this is a tile layout over a padded domain: each line
//! of evenly spaced host elements is cut by the device strides that fall into it, and where one stride does
//! not divide the next larger one, the digits below it are padded and the valid part becomes a dimension of
//! the window.

use crate::StickLayout;
use crate::error::{Result, StickError};
use zellige_layout::Layout;
use zellige_layout::LayoutError;
use zellige_layout::StridedLayout;
use zellige_layout::int::checked_product;
use zellige_layout::{Iter, TileLayout};
use zellige_layout::{PaddedExtent, ValidWindow};

/// One digit of the device: `extent` steps of `step` on the host, `stride` on the device.
#[derive(Debug, Clone, Copy)]
pub(super) struct StickDigit {
    /// The device dimension it belongs to.
    pub(super) dim: usize,
    pub(super) extent: i64,
    /// Own stride, -1 for none, 0 for a broadcast.
    pub(super) step: i64,
    pub(super) stride: i64,
}

/// A line of host elements: `count` of them, `step` apart, from host dimension `dim` on.
#[derive(Debug, Clone, Copy)]
struct HostLine {
    dim: usize,
    count: i64,
    step: i64,
    /// The largest offset that the faster lines reach.
    below: i64,
}

/// One dimension of the window with the device digits it is made of.
#[derive(Debug, Clone, Default)]
struct WindowGroup {
    valid: i64,
    digits: Vec<(i64, i64)>,
}

impl StickLayout {
    /// The layout of the bound host on the axis `m`, in device elements, over the host's
    /// row-major index; padding is outside its window.
    ///
    /// A device dimension of stride 0 that no broadcast host dimension takes is a replica: each of
    /// its coordinates holds the same element.
    ///
    /// Laws: for every host coordinate `c`, each position of
    /// `lower_to_layout().apply_to_coordinate(size, c)`, split row-major over `device_size`, is a device
    /// coordinate whose [`StickLayout::own_stride_offset`] is the own-stride offset of `c` (standard
    /// arrangement); no two elements share a position; and every coordinate of a replica is among the
    /// positions of each element.
    pub fn lower_to_layout(&self) -> Result<Layout> {
        let host = self.require_bound_host("lowering to a layout")?;
        // An empty tensor has no positions, so it does not matter whether the device dimensions fit.
        if host.numel() == 0 {
            return Ok(TileLayout::from_shard(vec![Iter::in_memory(0, 1)])?.into());
        }
        if let Some(dim) = self.device_size.iter().position(|n| *n == 0) {
            let reason = format!("device dimension {dim} has size 0, so the device holds nothing");
            return Err(StickError::HostNotCovered { index: 0, reason });
        }
        let mut plan = DigitPlacement::new(&self.lane_order_digits()?);
        let mut groups: Vec<(usize, Vec<WindowGroup>)> = Vec::new();
        for line in host_lines(host)? {
            groups.push((line.dim, plan.place_host_line(line)?));
        }
        plan.check_device_reach(host)?;
        groups.extend(self.place_broadcast_dims(host, &mut plan)?);
        // Stable, and every line is a run of neighbouring host dimensions: the order is row-major.
        groups.sort_by_key(|(dim, _)| *dim);
        groups.push((usize::MAX, plan.idle_window_groups()));
        assemble_layout(groups.into_iter().flat_map(|(_, g)| g), plan.replica_iters())
    }

    /// Host dimensions of stride 0 on device dimensions of stride 0.
    ///
    /// No stride says which of them belong together. Equal sizes are paired first, in order, then any
    /// device dimension with room; a broadcast stick is paired together with its count.
    fn place_broadcast_dims(
        &self,
        host: &StridedLayout,
        plan: &mut DigitPlacement,
    ) -> Result<Vec<(usize, Vec<WindowGroup>)>> {
        let wanted: Vec<(usize, i64)> = host
            .sizes_and_strides()
            .enumerate()
            .filter(|(_, (n, s))| *s == 0 && *n != 1)
            .map(|(d, (n, _))| (d, n))
            .collect();
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let mut units: Vec<Vec<usize>> = Vec::new();
        let last = self.device_rank() - 1;
        let count = self.stick_count_dim().filter(|_| self.stride_map[last] == 0);
        for (i, slot) in plan.all.iter().enumerate() {
            if slot.step == 0 && Some(slot.dim) != count && slot.dim != last {
                units.push(vec![i]);
            }
        }
        let with_stick = |s: &StickDigit| s.step == 0 && (Some(s.dim) == count || s.dim == last);
        let stick: Vec<usize> = (0..plan.all.len()).filter(|i| with_stick(&plan.all[*i])).collect();
        if !stick.is_empty() {
            units.push(stick);
        }
        let room = |unit: &[usize]| {
            checked_product(unit.iter().map(|i| plan.all[*i].extent), "a broadcast dimension")
        };
        let mut taken: Vec<Option<usize>> = vec![None; wanted.len()];
        for exact in [true, false] {
            for (k, (_, n)) in wanted.iter().enumerate() {
                for (u, unit) in units.iter().enumerate() {
                    let fits = if exact { room(unit)? == *n } else { room(unit)? >= *n };
                    if fits && taken[k].is_none() && !taken.contains(&Some(u)) {
                        taken[k] = Some(u);
                    }
                }
            }
        }
        let mut groups = Vec::new();
        for (k, (dim, n)) in wanted.iter().enumerate() {
            let Some(u) = taken[k] else {
                let reason = format!(
                    "host dimension {dim} (size {n}) is broadcast, and no device dimension of \
                     stride 0 is left for it"
                );
                return Err(StickError::HostNotCovered { index: 0, reason });
            };
            let digits: Vec<(i64, i64)> =
                units[u].iter().map(|i| (plan.all[*i].extent, plan.all[*i].stride)).collect();
            groups.push((*dim, vec![WindowGroup { valid: *n, digits }]));
            for i in &units[u] {
                plan.idle[*i] = false;
            }
        }
        Ok(groups)
    }
}

/// The lines of host elements, largest stride first. Dimensions that are neighbours both in the row-major
/// order and in memory make one line.
fn host_lines(host: &StridedLayout) -> Result<Vec<HostLine>> {
    let mut lines: Vec<HostLine> = Vec::new();
    let mut previous = None;
    for (dim, (count, step)) in host.sizes_and_strides().enumerate().filter(|(_, (n, _))| *n != 1) {
        if step == 0 {
            previous = None;
            continue;
        }
        match lines.last_mut() {
            Some(l) if previous.is_some() && count.checked_mul(step) == Some(l.step) => {
                (l.count, l.step) = (l.count * count, step);
            }
            _ => lines.push(HostLine { dim, count, step, below: 0 }),
        }
        previous = Some(dim);
    }
    lines.sort_by_key(|l| std::cmp::Reverse(l.step));
    let mut below = 0i64;
    for line in lines.iter_mut().rev() {
        // Overlapping dimensions give two elements the same own-stride offset, which division by strides
        // cannot distinguish.
        if below >= line.step {
            let accepted = format!(
                "the elements of host dimension {} overlap those of faster ones, which reach \
                 offset {below}",
                line.dim
            );
            return Err(LayoutError::BadParameter {
                what: "an own stride",
                value: line.step,
                accepted,
            }
            .into());
        }
        line.below = below;
        // The largest address of the host, which its constructor checked.
        below += (line.count - 1) * line.step;
    }
    Ok(lines)
}

/// The device digits to which lines are assigned, and the room left in each.
struct DigitPlacement {
    all: Vec<StickDigit>,
    /// Whether no host dimension uses the digit.
    idle: Vec<bool>,
    /// The digits that have a host stride, largest first, merged where they are one line both on
    /// the host and on the device.
    digits: Vec<StickDigit>,
    /// Which of `all` a digit is made of.
    parts: Vec<Vec<usize>>,
    /// Per digit, how far faster lines may extend it.
    room: Vec<i64>,
    /// Per digit, the largest value in use.
    used: Vec<i128>,
    /// Per digit, an offset that uses the largest value.
    witness: Vec<i128>,
}

impl DigitPlacement {
    fn new(slots: &[StickDigit]) -> DigitPlacement {
        let all: Vec<StickDigit> = slots.to_vec();
        let mut order: Vec<usize> =
            (0..all.len()).filter(|i| all[*i].step > 0 && all[*i].extent > 1).collect();
        order.sort_by_key(|i| std::cmp::Reverse(all[*i].step));
        let (mut digits, mut parts): (Vec<StickDigit>, Vec<Vec<usize>>) = Default::default();
        for i in order {
            let inner = all[i];
            // Two digits that continue each other on both sides are one, so that a line is not cut
            // where nothing changes.
            let one_line = |outer: &StickDigit| {
                inner.extent.checked_mul(inner.step) == Some(outer.step)
                    && inner.extent.checked_mul(inner.stride) == Some(outer.stride)
            };
            match (digits.last_mut(), parts.last_mut()) {
                (Some(outer), Some(part)) if one_line(outer) => {
                    outer.extent = outer.extent.saturating_mul(inner.extent);
                    (outer.step, outer.stride) = (inner.step, inner.stride);
                    part.push(i);
                }
                _ => {
                    digits.push(inner);
                    parts.push(vec![i]);
                }
            }
        }
        DigitPlacement {
            idle: vec![true; all.len()],
            room: digits.iter().map(|d| d.extent).collect(),
            used: vec![0; digits.len()],
            witness: vec![0; digits.len()],
            all,
            digits,
            parts,
        }
    }

    /// Cuts a line at every device stride that falls into it.
    ///
    /// Invariant of the loop: the digits found so far leave `0..rest` to be distinguished, and `group`
    /// holds the digits since its first cut, of whose combinations `group.valid` are elements.
    fn place_host_line(&mut self, line: HostLine) -> Result<Vec<WindowGroup>> {
        let HostLine { dim, count, step, below } = line;
        let reach = (count - 1) * step + below;
        let mut groups = Vec::new();
        let mut group = WindowGroup { valid: count, digits: Vec::new() };
        let mut rest = count;
        for j in 0..self.digits.len() {
            let digit = self.digits[j];
            // Digits below the step belong to faster lines, and one beyond the reach stays at 0.
            if digit.step < step || digit.step > reach {
                continue;
            }
            if digit.step % step != 0 {
                let reason = format!(
                    "its stride {} falls between two steps of host dimension {dim}, which are \
                     {step} apart",
                    digit.step
                );
                return Err(StickError::BadStick { dim: digit.dim, reason });
            }
            let unit = digit.step / step;
            let need = rest / unit + i64::from(rest % unit != 0);
            let exact = rest % unit == 0;
            let wide = need.max(self.room[j]);
            if group.digits.is_empty() {
                group.digits.push((wide, digit.stride));
            } else if exact && need == self.room[j] {
                group.digits.push((need, digit.stride));
            // The block above ends exactly with this digit's block, so padding inside it is the
            // same for each repetition: a dimension of the window of its own.
            } else if group.valid % rest == 0 {
                group.valid /= rest;
                groups.push(std::mem::take(&mut group));
                group = WindowGroup { valid: rest, digits: vec![(wide, digit.stride)] };
            } else if exact {
                group.digits.push((need, digit.stride));
            } else {
                let reason = format!(
                    "host dimension {dim} ends inside a block of {rest} elements, and stride {} \
                     does not divide the block: the elements form no box of device dimensions",
                    digit.step
                );
                return Err(StickError::BadStick { dim: digit.dim, reason });
            }
            self.mark_digit_used(j, need - 1, i128::from(unit) * i128::from(step));
            rest = unit;
        }
        if rest > 1 {
            let Some(j) = self.digits.iter().position(|d| d.step < step) else {
                let reason = format!(
                    "host dimension {dim} steps by {step}, and no device dimension steps by that \
                     or by a divisor of it"
                );
                return Err(StickError::HostNotCovered { index: step, reason });
            };
            let digit = self.digits[j];
            if step % digit.step != 0 {
                let reason = format!(
                    "its stride {} does not divide {step}, the stride of host dimension {dim}",
                    digit.step
                );
                return Err(StickError::BadStick { dim: digit.dim, reason });
            }
            let ratio = step / digit.step;
            // The line may use the whole digit, whose unused values then become padding; a faster
            // line that shares the digit needs the rest below `ratio`.
            let wide = rest.max(self.room[j] / ratio);
            let stride = ratio
                .checked_mul(digit.stride)
                .ok_or_else(|| LayoutError::overflow_of("a stride on the device"))?;
            if group.digits.is_empty() {
                group.digits.push((wide, stride));
            } else if wide > rest && group.valid % rest == 0 {
                group.valid /= rest;
                groups.push(std::mem::take(&mut group));
                group = WindowGroup { valid: rest, digits: vec![(wide, stride)] };
            } else {
                group.digits.push((rest, stride));
            }
            self.mark_digit_used(j, (rest - 1) * ratio, i128::from(digit.step));
            self.room[j] = ratio;
        }
        groups.push(group);
        Ok(groups)
    }

    fn mark_digit_used(&mut self, j: usize, steps: i64, step: i128) {
        self.used[j] += i128::from(steps);
        self.witness[j] += i128::from(steps) * step;
        for i in &self.parts[j] {
            self.idle[*i] = false;
        }
    }

    /// Refuses a device dimension that is shorter than the elements along it need.
    fn check_device_reach(&self, host: &StridedLayout) -> Result<()> {
        for (j, digit) in self.digits.iter().enumerate() {
            if self.used[j] >= i128::from(digit.extent) {
                let reason = format!(
                    "taking the largest strides first, device dimension {} has {} steps of stride \
                     {}, and the host of size {:?} needs {}",
                    digit.dim,
                    digit.extent,
                    digit.step,
                    host.size(),
                    self.used[j] + 1
                );
                // A host element's offset, hence in range.
                let index = i64::try_from(self.witness[j]).unwrap_or(i64::MAX);
                return Err(StickError::HostNotCovered { index, reason });
            }
        }
        Ok(())
    }

    /// Digits along which no host dimension steps.
    fn unmoved_digits(&self) -> impl Iterator<Item = &StickDigit> + '_ {
        let still = self.all.iter().zip(&self.idle).filter(|(s, idle)| **idle && s.extent != 1);
        still.map(|(s, _)| s)
    }

    /// Digits along which only the first step holds elements.
    fn idle_window_groups(&self) -> Vec<WindowGroup> {
        let idle = self.unmoved_digits().filter(|s| s.step != 0);
        idle.map(|s| WindowGroup { valid: 1, digits: vec![(s.extent, s.stride)] }).collect()
    }

    /// Digits along which every step holds the same elements.
    fn replica_iters(&self) -> Vec<Iter> {
        self.unmoved_digits()
            .filter(|s| s.step == 0)
            .map(|s| Iter::in_memory(s.extent, s.stride))
            .collect()
    }
}

/// The tile layout over all digits, and the window of the valid ones.
fn assemble_layout(
    groups: impl Iterator<Item = WindowGroup>,
    replicas: Vec<Iter>,
) -> Result<Layout> {
    let (mut shard, mut window) = (Vec::new(), Vec::new());
    for group in groups {
        let padded = checked_product(group.digits.iter().map(|(n, _)| *n), "a padded extent")?;
        window.push(PaddedExtent::padded_to(group.valid, padded));
        shard.extend(group.digits.iter().map(|(n, stride)| Iter::in_memory(*n, *stride)));
    }
    Ok(Layout::from(TileLayout::new(shard, replicas, [])?)
        .with_window(ValidWindow::new(window)?)?)
}
