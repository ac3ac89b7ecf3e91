//! Transfers as the device's descriptors: loop nests with the field names that its tools read.

use crate::dimension_nests;
use crate::{DataFormat, Result, StickLayout};
use serde::Serialize;
use zellige_float::Dtype;
use zellige_layout::StridedLayout;
use zellige_movement::{CopyNest, MovePlan, PaddingFill};

/// The direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferDirection {
    /// Host to device.
    HostToDevice,
    /// Device to host.
    DeviceToHost,
}

/// One loop nest of a descriptor: arrays innermost first, units of elements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dcsi {
    /// Loop ranges.
    pub size_: Vec<i64>,
    /// Source strides.
    pub stride_src_: Vec<i64>,
    /// Destination strides.
    pub stride_dst_: Vec<i64>,
    /// First source element.
    pub offset_src_: i64,
    /// First destination element.
    pub offset_dst_: i64,
}

impl Dcsi {
    fn new(nest: NamedNest, to_device: bool) -> Dcsi {
        let innermost_first = |mut list: Vec<i64>| {
            list.reverse();
            // The interchange form has no nest without loops: a single element is one loop of one
            // iteration.
            if list.is_empty() { vec![1] } else { list }
        };
        let (from, to) = order_read_then_write(to_device, nest.host_strides, nest.device_strides);
        let (first, place) = order_read_then_write(to_device, nest.host_offset, nest.device_offset);
        Dcsi {
            size_: innermost_first(nest.ranges),
            stride_src_: innermost_first(from),
            stride_dst_: innermost_first(to),
            offset_src_: first,
            offset_dst_: place,
        }
    }
}

/// A transfer descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(non_snake_case, reason = "the field names are those of the interchange form")]
pub struct TransferDescriptor {
    /// The name of the data structure.
    pub dci_dsName_: String,
    /// Whether it transfers to the device.
    pub isHostToSen_: bool,
    /// Format read.
    pub dataformat_src_: String,
    /// Format written.
    pub dataformat_dst_: String,
    /// Shape of the source, innermost first.
    pub input_shape_: Vec<i64>,
    /// Shape of the destination, innermost first.
    pub output_shape_: Vec<i64>,
    /// The loop nests: whole sticks, then the partial ones.
    pub dcsi_: Vec<Dcsi>,
}

/// A nest with the two sides named, outermost first, so that its meaning does not depend on the direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamedNest {
    /// Loop ranges.
    pub ranges: Vec<i64>,
    /// Strides in host memory.
    pub host_strides: Vec<i64>,
    /// Strides in device memory.
    pub device_strides: Vec<i64>,
    /// First host element.
    pub host_offset: i64,
    /// First device element.
    pub device_offset: i64,
}

impl NamedNest {
    /// The loops with the largest device stride first; they may run in any order.
    fn sort_by_device_stride(&mut self) {
        let mut order: Vec<usize> = (0..self.ranges.len()).collect();
        order.sort_by_key(|k| std::cmp::Reverse(self.device_strides[*k].unsigned_abs()));
        for list in [&mut self.ranges, &mut self.host_strides, &mut self.device_strides] {
            *list = order.iter().map(|k| list[*k]).collect();
        }
    }

    /// The nest as torch-spyre's documents write it: ranges, device strides, host strides.
    pub fn print_as_documented(&self) -> String {
        let tuple = |list: &[i64]| {
            let list: Vec<String> = list.iter().map(i64::to_string).collect();
            let comma = if list.len() == 1 { "," } else { "" };
            format!("({}{comma})", list.join(","))
        };
        let [ranges, device, host] =
            [&self.ranges, &self.device_strides, &self.host_strides].map(|list| tuple(list));
        format!("({ranges},{device},{host})")
    }
}

/// A planned transfer between a host tensor and the device.
#[derive(Debug, Clone)]
pub struct PlannedTransfer {
    plan: MovePlan,
    direction: TransferDirection,
    host: StridedLayout,
    device: StickLayout,
    dtype: Dtype,
}

impl PlannedTransfer {
    /// Plans the transfer of a host tensor to or from a device layout that is bound to it.
    pub fn new(
        host: &StridedLayout,
        device: &StickLayout,
        dtype: Dtype,
        direction: TransferDirection,
    ) -> Result<PlannedTransfer> {
        let (h, d) = (host.to_layout()?, device.lower_to_layout()?);
        let (src, dst) = match direction {
            TransferDirection::HostToDevice => (&h, &d),
            TransferDirection::DeviceToHost => (&d, &h),
        };
        // The transfer leaves padding as it is, because the device's descriptors have no fill.
        let plan = MovePlan::between(src, dst, host.size(), PaddingFill::Leave)?;
        Ok(PlannedTransfer { plan, direction, host: host.clone(), device: device.clone(), dtype })
    }

    /// The plan.
    pub fn plan(&self) -> &MovePlan {
        &self.plan
    }

    /// Every nest, one per start.
    fn nests_with_starts(&self) -> impl Iterator<Item = (&CopyNest, i64, i64)> {
        self.plan.nests().iter().flat_map(|n| n.starts.iter().map(move |(a, b)| (n, *a, *b)))
    }

    /// The nests with host and device named, in the order of the documents: device strides decrease.
    pub fn named_nests(&self) -> Vec<NamedNest> {
        let mut nests = self.nests_in_plan_order();
        nests.iter_mut().for_each(NamedNest::sort_by_device_stride);
        nests
    }

    /// The nests in the order of the plan's loops.
    fn nests_in_plan_order(&self) -> Vec<NamedNest> {
        let to_device = self.direction == TransferDirection::HostToDevice;
        self.nests_with_starts()
            .map(|(nest, a, b)| {
                let (src, dst) =
                    (nest.loops.iter().map(|l| l.src), nest.loops.iter().map(|l| l.dst));
                let (src, dst): (Vec<i64>, Vec<i64>) = (src.collect(), dst.collect());
                let ranges = nest.loops.iter().map(|l| l.range).collect();
                if to_device {
                    let (host_offset, device_offset) = (a, b);
                    NamedNest {
                        ranges,
                        host_strides: src,
                        device_strides: dst,
                        host_offset,
                        device_offset,
                    }
                } else {
                    let (host_offset, device_offset) = (b, a);
                    NamedNest {
                        ranges,
                        host_strides: dst,
                        device_strides: src,
                        host_offset,
                        device_offset,
                    }
                }
            })
            .collect()
    }

    /// The descriptor in the interchange form: a loop for every device dimension where that is a mapping of the
    /// tensor's digits, else the loops of the plan.
    pub fn build_descriptor(&self, name: &str) -> Result<TransferDescriptor> {
        let innermost_first = |list: &[i64]| -> Vec<i64> { list.iter().rev().copied().collect() };
        let host_shape =
            if self.host.size().is_empty() { vec![1] } else { innermost_first(self.host.size()) };
        let device_shape = innermost_first(self.device.device_size());
        let host_format = DataFormat::host_format_of(self.dtype)?.name().to_string();
        let device_format = self.device.device_dtype().name().to_string();
        let to_device = self.direction == TransferDirection::HostToDevice;
        let (input, output) = order_read_then_write(to_device, host_shape, device_shape);
        let (from, to) = order_read_then_write(to_device, host_format, device_format);
        let nests = dimension_nests::plan_dimension_nests(&self.host, &self.device, to_device)
            .unwrap_or_else(|| self.nests_in_plan_order());
        let dcsi = nests.into_iter().map(|n| Dcsi::new(n, to_device)).collect();
        Ok(TransferDescriptor {
            dci_dsName_: name.into(),
            isHostToSen_: to_device,
            dataformat_src_: from,
            dataformat_dst_: to,
            input_shape_: input,
            output_shape_: output,
            dcsi_: dcsi,
        })
    }
}

/// The values of the side that is read and of the side that is written, in this order.
fn order_read_then_write<T>(to_device: bool, host: T, device: T) -> (T, T) {
    if to_device { (host, device) } else { (device, host) }
}
