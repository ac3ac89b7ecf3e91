//! Transfers between a host tensor and the device: refused, or the loops of the plan and of the
//! descriptor are the mapping that the two layouts define, element by element.

use crate::budget::run_bounded;
use arbitrary::{Result, Unstructured};
use serde_json::{Value, json};
use zellige_float::Dtype;
use zellige_layout::{Axis, StridedLayout};
use zellige_stick::StickLayout;
use zellige_stick::{PlannedTransfer, TransferDirection};

/// The largest transfer that is enumerated, in elements.
const MAX_ENUMERATED_ELEMENTS: i64 = 1 << 13;

/// Sizes and strides near the boundaries of sticks, padding and powers of two.
const NUMBERS: &[i64] =
    &[0, 1, 2, 3, 4, 5, 7, 8, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200, 256, 1000, 4096];

/// Numbers that overflow somewhere.
const EXTREMES: &[i64] =
    &[-1, -64, i64::MAX, i64::MIN, 1 << 31, 1 << 40, (1 << 62) - 1, 1_000_000_000_000];

/// A request of `zellige ask`.
#[derive(Debug)]
struct DmaRequest {
    size: Vec<i64>,
    stride: Vec<i64>,
    offset: i64,
    own: Option<Vec<i64>>,
    device_size: Vec<i64>,
    stride_map: Vec<i64>,
    dtype: Dtype,
    direction: TransferDirection,
}

fn draw_number(u: &mut Unstructured<'_>) -> Result<i64> {
    // Rarely, because a request with one extreme number is mostly refused at once and tests nothing
    // else.
    Ok(if u.ratio(1, 40)? { *u.choose(EXTREMES)? } else { *u.choose(NUMBERS)? })
}

fn draw_numbers(u: &mut Unstructured<'_>, n: usize) -> Result<Vec<i64>> {
    (0..n).map(|_| draw_number(u)).collect()
}

impl DmaRequest {
    fn draw_request(u: &mut Unstructured<'_>) -> Result<DmaRequest> {
        let rank = u.int_in_range(0..=4)?;
        let size = draw_numbers(u, rank)?;
        let plain = || {
            let mut strides = vec![1_i64; rank];
            for d in (1..rank).rev() {
                strides[d - 1] = strides[d].saturating_mul(size[d].max(1));
            }
            strides
        };
        let stride = if u.ratio(3, 4)? { plain() } else { draw_numbers(u, rank)? };
        let own = match u.int_in_range(0..=2)? {
            0 => None,
            1 => Some(plain()),
            _ => Some(draw_numbers(u, rank)?),
        };
        let dtype =
            *u.choose(&[Dtype::Float16, Dtype::Float32, Dtype::Int8, Dtype::Bool, Dtype::Int64])?;
        let direction = if u.arbitrary()? {
            TransferDirection::HostToDevice
        } else {
            TransferDirection::DeviceToHost
        };
        let offset = if u.ratio(1, 4)? { draw_number(u)? } else { 0 };
        // Mostly a valid layout with one number replaced; otherwise arbitrary numbers.
        let fitting = StickLayout::default_for_dtype(&size, dtype).ok();
        let (mut device_size, mut stride_map) = match fitting {
            Some(l) if u.ratio(3, 4)? => (l.device_size().to_vec(), l.stride_map().to_vec()),
            _ => {
                let n = u.int_in_range(1..=5)?;
                (draw_numbers(u, n)?, draw_numbers(u, n)?)
            }
        };
        for list in [&mut device_size, &mut stride_map] {
            if !list.is_empty() && u.ratio(1, 4)? {
                let at = u.choose_index(list.len())?;
                list[at] = draw_number(u)?;
            }
        }
        Ok(DmaRequest { size, stride, offset, own, device_size, stride_map, dtype, direction })
    }

    /// The line of this request.
    fn request_line(&self) -> String {
        let direction =
            if self.direction == TransferDirection::HostToDevice { "h2d" } else { "d2h" };
        let mut line = json!({
            "id": 1, "op": "dma", "size": self.size, "stride": self.stride, "offset": self.offset,
            "dtype": self.dtype.name(), "device_size": self.device_size,
            "stride_map": self.stride_map, "direction": direction,
        });
        if let (Some(own), Value::Object(fields)) = (&self.own, &mut line) {
            fields.insert("tensor_stride".into(), json!(own));
        }
        line.to_string()
    }

    fn plan_transfer(
        &self,
    ) -> zellige_stick::Result<(StridedLayout, StickLayout, PlannedTransfer)> {
        let host = StridedLayout::new(&self.size, &self.stride, self.offset)?;
        let format = zellige_stick::DataFormat::device_format_of(self.dtype)?;
        let device =
            StickLayout::from_size_and_stride_map(&self.device_size, &self.stride_map, format)?;
        let device = match &self.own {
            Some(own) => device.with_own_strides(&self.size, own)?,
            None => device.with_host(&self.size, Some(&self.stride))?,
        };
        let transfer = PlannedTransfer::new(&host, &device, self.dtype, self.direction)?;
        Ok((host, device, transfer))
    }
}

pub(crate) fn fuzz_dma(data: &[u8]) {
    let Ok(request) = DmaRequest::draw_request(&mut Unstructured::new(data)) else { return };
    let line = request.request_line();
    let reply = run_bounded("an answer", 2 << 30, || zellige_ask::answer_line(&line));
    let reply: Value = serde_json::from_str(&reply).expect("an answer is JSON");
    crate::ask::check_answer(&reply);
    let Ok((host, device, transfer)) = run_bounded("a plan", 1 << 30, || request.plan_transfer())
    else {
        assert!(reply.get("error").is_some(), "{line} was answered, and there is no plan");
        return;
    };
    let count = host.size().iter().try_fold(1_i64, |n, d| n.checked_mul(*d));
    let positions = device.count_positions();
    // The comparison below visits every element, so only small plans are compared; larger ones were
    // checked for their budget above.
    if count.is_none_or(|n| n > MAX_ENUMERATED_ELEMENTS)
        || positions > 16 * MAX_ENUMERATED_ELEMENTS
        || transfer.named_nests().len() > 1 << 12
    {
        return;
    }
    let mut have: Vec<(i64, i64)> = Vec::new();
    for n in transfer.named_nests() {
        let first = (n.host_offset, n.device_offset);
        have.extend(nest_pairs(&n.ranges, &n.host_strides, &n.device_strides, first));
    }
    have.sort_unstable();
    check_mapping(&line, &host, &device, request.direction, &have);
    let made = transfer.build_descriptor("x").expect("a plan has a descriptor");
    let mut told: Vec<(i64, i64)> = Vec::new();
    for d in &made.dcsi_ {
        let all =
            nest_pairs(&d.size_, &d.stride_src_, &d.stride_dst_, (d.offset_src_, d.offset_dst_));
        let back = request.direction == TransferDirection::DeviceToHost;
        told.extend(all.into_iter().map(|(a, b)| if back { (b, a) } else { (a, b) }));
    }
    told.sort_unstable();
    assert_eq!(told, have, "{line}: the descriptor is another mapping");
}

/// Lists every pair of addresses of a nest.
fn nest_pairs(range: &[i64], a: &[i64], b: &[i64], first: (i64, i64)) -> Vec<(i64, i64)> {
    let mut points = vec![first];
    for ((n, s), t) in range.iter().zip(a).zip(b) {
        let along = |(x, y): &(i64, i64)| {
            (0..*n).map(move |i| (i, *s, *t)).map({
                let (x, y) = (*x, *y);
                move |(i, s, t)| (x + i * s, y + i * t)
            })
        };
        points = points.iter().flat_map(along).collect();
    }
    points
}

/// Checks a mapping against its definition: an element is written to all of its positions, and read
/// from one of them.
fn check_mapping(
    line: &str,
    host: &StridedLayout,
    device: &StickLayout,
    way: TransferDirection,
    have: &[(i64, i64)],
) {
    let there = device.lower_to_layout().expect("it was planned");
    let here = host.to_layout().expect("it was planned");
    let address = |p: &zellige_layout::PhysicalCoordinate| p.get(Axis::M);
    let (mut want, mut count) = (Vec::new(), 0);
    for flat in 0..here.size() {
        let from: Vec<i64> = here
            .physical_coordinates(flat)
            .expect("inside")
            .sorted_coordinates()
            .iter()
            .map(address)
            .collect();
        let to: Vec<i64> = there
            .physical_coordinates(flat)
            .expect("inside")
            .sorted_coordinates()
            .iter()
            .map(address)
            .collect();
        match way {
            TransferDirection::HostToDevice => want.extend(to.iter().map(|p| (from[0], *p))),
            TransferDirection::DeviceToHost => {
                count += 1;
                let found = to.iter().any(|p| have.binary_search(&(from[0], *p)).is_ok());
                assert!(found, "{line}: element {flat} comes from none of its places");
            }
        }
    }
    if way == TransferDirection::HostToDevice {
        want.sort_unstable();
        assert_eq!(have, want, "{line}: the plan is another mapping");
    } else {
        assert_eq!(have.len(), count, "{line}: the plan reads another number of elements");
    }
}
