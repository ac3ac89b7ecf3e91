//! The legacy notation: per device dimension, the host dimension it came from.
//!
//! `[128, 256, 512]` on `[256, 8, 128, 64]` has the map `[1, 2, 0, 2]`: device element
//! `(a, b, c, d)` is host element `(c, a, b * 64 + d)`. Device dimensions of one host dimension
//! combine with strides that grow from right to left; -1 is synthetic. Host dimensions of size 1
//! do not contribute and may be left out.

use crate::build::build_host_layout;
use crate::error::{Result, StickError};
use crate::{DataFormat, StickLayout};
use zellige_layout::LayoutError;
use zellige_layout::StridedLayout;

/// Steps of the search before it gives up; each device dimension rarely has two candidates.
// Equal strides double the choices for each dimension, and 60 dimensions of extent 2 are legal.
const MAX_SEARCH_STEPS: u64 = 100_000;

impl StickLayout {
    /// The layout that a legacy map describes, bound to its host.
    pub fn from_dim_map(
        size: &[i64],
        stride: Option<&[i64]>,
        device_size: &[i64],
        dim_map: &[i64],
        format: DataFormat,
    ) -> Result<StickLayout> {
        let host = build_host_layout(size, stride)?;
        let (expected, found) = (device_size.len(), dim_map.len());
        if expected != found {
            return Err(LayoutError::LengthMismatch { what: "dim_map", expected, found }.into());
        }
        let mut strides = vec![-1; found];
        let mut right: Vec<Option<usize>> = vec![None; size.len()];
        for (j, d) in dim_map.iter().enumerate().rev() {
            if *d == -1 {
                continue;
            }
            let Some(d) = usize::try_from(*d).ok().filter(|d| *d < size.len()) else {
                let reason = format!("{d} is not a host dimension of {size:?}, nor -1");
                return Err(StickError::BadStick { dim: j, reason });
            };
            let previous = right[d].replace(j);
            if size[d] == 1 {
                continue;
            }
            strides[j] = match previous {
                None => host.stride()[d],
                Some(k) => strides[k]
                    .checked_mul(device_size[k])
                    .ok_or_else(|| LayoutError::overflow_of("a stride of stride_map"))?,
            };
        }
        if let Some(d) = (0..size.len()).find(|d| size[*d] != 1 && right[*d].is_none()) {
            let reason = format!("dim_map {dim_map:?} does not name host dimension {d}");
            return Err(StickError::HostNotCovered { index: host.stride()[d], reason });
        }
        let layout = StickLayout::from_size_and_stride_map(device_size, &strides, format)?;
        Ok(StickLayout { host: Some(host), ..layout })
    }

    /// The legacy map of a bound layout, where there is one.
    ///
    /// There is none where a device dimension runs over several host dimensions (fused), cuts a host
    /// dimension elsewhere than the dimensions to its right do (split), or could belong to two host
    /// dimensions (ambiguous). Device dimensions of extent 1 could come from anywhere, so they get the host
    /// dimension that the constructors would give them.
    pub fn recover_dim_map(&self) -> Result<Vec<i64>> {
        let host = self.require_bound_host("the dim_map")?;
        let rank = self.device_rank();
        let order = (0..rank).rev().filter(|j| self.device_size[*j] > 1);
        let mut search = DimMapSearch {
            layout: self,
            host,
            order: order.filter(|j| self.stride_map[*j] != -1).collect(),
            map: vec![None; rank],
            found: Vec::new(),
            stuck: None,
            steps: 0,
        };
        search.assign_dims_from(0)?;
        let found = std::mem::take(&mut search.found);
        let Some(first) = found.first() else {
            let none = StickError::BadStick { dim: 0, reason: "no map exists".into() };
            return Err(search.stuck.unwrap_or(none));
        };
        for other in &found[1..] {
            for j in 0..self.device_rank() {
                if self.device_size[j] > 1 && first[j] != other[j] {
                    let name = |d: Option<usize>| d.map_or("none".into(), |d| d.to_string());
                    let reason = format!(
                        "ambiguous: stride {} could be host dimension {} or {}",
                        self.stride_map[j],
                        name(first[j]),
                        name(other[j])
                    );
                    return Err(StickError::BadStick { dim: j, reason });
                }
            }
        }
        search.map.clone_from(first);
        search.assign_short_dims();
        let number = |d: &Option<usize>| d.map_or(-1, |d| i64::try_from(d).unwrap_or(i64::MAX));
        let mut map: Vec<i64> = search.map.iter().map(number).collect();
        self.assign_unit_dims(host, &mut map);
        Ok(map)
    }

    /// Gives host dimensions of size 1 the device dimensions without a stride.
    fn assign_unit_dims(&self, host: &StridedLayout, map: &mut [i64]) {
        // The constructors rotate the order left by one.
        let rotated = (1..host.rank()).chain((host.rank() > 0).then_some(0));
        let mut units = rotated.filter(|d| host.size()[*d] == 1).peekable();
        let waiting = units.clone().count();
        let last = map.len() - 1;
        let free = |j: &usize| self.stride_map[*j] == -1 && self.device_size[*j] == 1;
        let mut slots: Vec<usize> = (0..last).filter(free).collect();
        let pair = self.stick_count_dim().filter(|_| self.is_sparse());
        if slots.len() > waiting {
            // A sparse stick comes with a count of its own, which belongs to no dimension.
            slots.retain(|j| Some(*j) != pair);
        }
        for j in slots {
            let Some(d) = units.next() else { break };
            map[j] = i64::try_from(d).unwrap_or(i64::MAX);
            if Some(j) == pair {
                map[last] = map[j];
            }
        }
    }
}

/// Assignment of device dimensions to host dimensions.
struct DimMapSearch<'a> {
    layout: &'a StickLayout,
    host: &'a StridedLayout,
    /// The device dimensions of extent 2 or more, right to left. Their extents multiply to a
    /// number that fits in 64 bits, so the search is never deep; shorter ones decide nothing.
    order: Vec<usize>,
    map: Vec<Option<usize>>,
    found: Vec<Vec<Option<usize>>>,
    stuck: Option<StickError>,
    steps: u64,
}

impl DimMapSearch<'_> {
    /// Assigns the device dimensions from position `at` of the order on, in every way. It stops at two
    /// answers, because two show an ambiguity.
    fn assign_dims_from(&mut self, at: usize) -> Result<()> {
        self.steps += 1;
        if self.steps > MAX_SEARCH_STEPS {
            return Err(LayoutError::TooLarge {
                what: "finding the dim_map",
                limit: MAX_SEARCH_STEPS,
            }
            .into());
        }
        let Some(j) = self.order.get(at).copied() else {
            match self.check_all_covered() {
                Ok(()) => self.found.push(self.map.clone()),
                Err(e) => {
                    self.stuck.get_or_insert(e);
                }
            }
            return Ok(());
        };
        let candidates = self.candidate_host_dims(j);
        if candidates.is_empty() {
            let e = self.unmatched_dim_error(j);
            self.stuck.get_or_insert(e);
        }
        for d in candidates {
            self.map[j] = Some(d);
            self.assign_dims_from(at + 1)?;
            self.map[j] = None;
            if self.found.len() > 1 {
                break;
            }
        }
        Ok(())
    }

    /// The host dimensions whose next device dimension, from the right, may be `j`.
    fn candidate_host_dims(&self, j: usize) -> Vec<usize> {
        let step = Some(self.layout.stride_map[j]);
        let dims = (0..self.host.rank()).filter(|d| self.host.size()[*d] != 1);
        dims.filter(|d| self.next_stride_of(*d, j + 1) == step).collect()
    }

    /// Gives device dimensions of extent 0 or 1 a host dimension whose stride they continue; a stick count
    /// gets the dimension of its stick.
    fn assign_short_dims(&mut self) {
        let count = self.layout.stick_count_dim();
        for j in (0..self.map.len()).rev() {
            if self.layout.device_size[j] < 2 && self.layout.stride_map[j] != -1 {
                let stick = self.map[self.map.len() - 1].filter(|_| Some(j) == count);
                self.map[j] = stick.or_else(|| self.candidate_host_dims(j).first().copied());
            }
        }
    }

    /// The stride that the next device dimension of host dimension `d` must have.
    fn next_stride_of(&self, d: usize, end: usize) -> Option<i64> {
        match (end..self.map.len()).find(|j| self.map[*j] == Some(d)) {
            None => Some(self.host.stride()[d]),
            Some(j) => self.layout.stride_map[j].checked_mul(self.layout.device_size[j]),
        }
    }

    /// Whether every host dimension has room on its device dimensions.
    fn check_all_covered(&self) -> Result<()> {
        for d in (0..self.host.rank()).filter(|d| self.host.size()[*d] != 1) {
            let n = self.host.size()[d];
            let own = || (0..self.map.len()).filter(|j| self.map[*j] == Some(d));
            let room = own().fold(1i64, |r, j| r.saturating_mul(self.layout.device_size[j]));
            // Dimensions of extent 0 are assigned later, because they have room for no element.
            if n > 0 && room < n {
                let (stride, faster) = (self.host.stride()[d], self.longest_stride_below(d));
                let reason = format!(
                    "fused: it runs past its host dimension into dimension {d} (size {n}, stride \
                     {stride}), which has no device dimension of that stride with room for it"
                );
                return Err(StickError::BadStick { dim: faster, reason });
            }
        }
        Ok(())
    }

    /// The device dimension of the largest stride at or below that of a host dimension, or that
    /// runs over it.
    fn longest_stride_below(&self, d: usize) -> usize {
        let map = &self.layout.stride_map;
        let over = |j: &usize| {
            let reach = map[*j].saturating_mul(self.layout.device_size[*j]);
            map[*j] > 0 && self.layout.device_size[*j] > 1 && reach > self.host.stride()[d]
        };
        (0..map.len()).filter(over).min_by_key(|j| map[*j]).unwrap_or(map.len() - 1)
    }

    fn unmatched_dim_error(&self, j: usize) -> StickError {
        let step = self.layout.stride_map[j];
        let inside = self.host.sizes_and_strides().position(|(n, s)| {
            n != 1 && s > 0 && s < step && i128::from(step) < i128::from(n) * i128::from(s)
        });
        let reason = match inside {
            Some(d) => format!(
                "split: stride {step} cuts host dimension {d} elsewhere than the device dimensions \
                 to its right do"
            ),
            None => format!("fused: stride {step} is that of no host dimension"),
        };
        StickError::BadStick { dim: j, reason }
    }
}
