//! What is measured: transfers, and operations if the table has them.

use serde_json::{Value, json};
use std::time::Instant;
use zellige_device::RunOp;
use zellige_device::{Card, KeptDtypes, Tensor, host_format};
use zellige_float::Dtype;
use zellige_host::AlignedBuffer;
use zellige_layout::StridedLayout;
use zellige_op::TensorOp;

/// The fewest seconds of one call.
pub(super) struct DeviceFigures {
    /// Of an operation, the better of two ways: into a tensor that is there, or into a new one.
    pub(super) ours: f64,
    /// A plain copy of as many bytes as are read and written; of a product with one row, which does nothing
    /// but read its weights, a plain read of them.
    pub(super) copy: Option<f64>,
}

/// The figures, or why there are none.
pub(super) type DeviceTiming = Result<DeviceFigures, String>;

/// One row of the table.
pub(super) struct DeviceCase {
    pub(super) name: String,
    /// The best peer's time over ours, at least.
    pub(super) goal: Option<f64>,
    /// What the peers do; nothing beside a plain copy.
    pub(super) peer: Option<&'static str>,
    /// Sizes of the operands, and what they are on the host.
    pub(super) sizes: Vec<Vec<i64>>,
    dtype: Dtype,
    /// Bytes read and written, or floating-point operations.
    pub(super) units: f64,
    what: DeviceWork,
}

/// Transfers of float32 convert to and from DLFloat16, as the card does by default; operations on
/// float32 have tensors that are kept in float32.
enum DeviceWork {
    Upload,
    Download,
    /// A product with one row.
    Decode,
    /// A name, and attributes of which the first that is accepted counts.
    Op(&'static str, Vec<Value>),
}

/// Every case.
pub(super) fn all_cases() -> Vec<DeviceCase> {
    let mut cases = Vec::new();
    #[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
    let count = |size: &[i64]| size.iter().product::<i64>() as f64;
    for dtype in [Dtype::Float16, Dtype::Float32] {
        let size = vec![4096, 4096];
        #[allow(clippy::cast_precision_loss, reason = "8 to 64")]
        // The host's element is read and the card's 16 bits are written, or the other way round.
        let width = dtype.bits() as f64 / 8.0 + 2.0;
        let units = count(&size) * width;
        for (word, what) in [("upload", DeviceWork::Upload), ("download", DeviceWork::Download)] {
            let name = format!("{word} 4096x4096 {dtype}");
            let sizes = vec![size.clone()];
            cases.push(DeviceCase { name, goal: None, peer: None, sizes, dtype, units, what });
        }
    }
    let row = || vec![4096, 1024];
    let last = || vec![json!({"dim": -1}), json!({"dim": 1}), json!({})];
    let plain = || vec![json!({})];
    let norm = || vec![json!({"normalized_shape": [1024]}), json!({"dims": [-1]}), json!({})];
    for dtype in [Dtype::Float16, Dtype::Float32] {
        for (name, goal, operands, attributes) in [
            ("add", 0.9, 2, plain()),
            ("exp", 0.5, 1, plain()),
            ("gelu", 0.5, 1, plain()),
            ("softmax", 0.5, 1, last()),
            ("layer_norm", 0.5, 1, norm()),
        ] {
            let sizes = vec![row(); operands];
            #[allow(clippy::cast_precision_loss, reason = "2 to 4")]
            let (width, tensors) = (dtype.bits() as f64 / 8.0, (operands + 1) as f64);
            let units = count(&row()) * width * tensors;
            let (case, what) =
                (format!("{name} 4096x1024 {dtype}"), DeviceWork::Op(name, attributes));
            let (goal, peer) = (Some(goal), Some(name));
            cases.push(DeviceCase { name: case, goal, peer, sizes, dtype, units, what });
        }
    }
    let dtype = Dtype::Float16;
    for (m, k, n) in [(1024, 1024, 1024), (64, 2048, 8192)] {
        let sizes = vec![vec![m, k], vec![k, n]];
        let (name, units) = (format!("matmul {m}x{k}x{n} float16"), 2.0 * count(&[m, k, n]));
        let what = DeviceWork::Op("matmul", plain());
        cases.push(DeviceCase {
            name,
            goal: Some(0.5),
            peer: Some("matmul"),
            sizes,
            dtype,
            units,
            what,
        });
    }
    for (k, n) in [(4096, 4096), (4096, 11008)] {
        let sizes = vec![vec![1, k], vec![k, n]];
        // Gigabytes of weights a second.
        let (name, units) = (format!("matmul 1x{k}x{n} float16"), 2.0 * count(&[k, n]));
        let what = DeviceWork::Decode;
        cases.push(DeviceCase {
            name,
            goal: Some(0.8),
            peer: Some("matmul"),
            sizes,
            dtype,
            units,
            what,
        });
    }
    cases
}

impl DeviceCase {
    /// The best of some calls after one that warms up.
    pub(super) fn measure_case(&self, rounds: usize) -> DeviceTiming {
        // Transfers measure the conversion to 16 bits; operations measure arithmetic on float32, which the peers
        // have too.
        let wide = !matches!(self.what, DeviceWork::Upload | DeviceWork::Download);
        let keep = KeptDtypes { float32: wide, int64: false };
        let card = Card::builder().keep_dtypes(keep).build().map_err(|e| e.to_string())?;
        let put = |size: &[i64]| {
            let (bytes, host) = host_operand(size, self.dtype);
            let uploaded = Tensor::upload(&card, &bytes, &host, self.dtype, None);
            uploaded.map(|(t, _)| (t, bytes, host)).map_err(|e| e.to_string())
        };
        let plain = [json!({})];
        let (name, attributes) = match &self.what {
            DeviceWork::Decode => (&"matmul", plain.as_slice()),
            DeviceWork::Upload | DeviceWork::Download => {
                let (tensor, mut bytes, host) = put(&self.sizes[0])?;
                let ours = if matches!(self.what, DeviceWork::Upload) {
                    best_seconds(rounds, || tensor.write_from(&bytes, &host, self.dtype).map(drop))?
                } else {
                    best_seconds(rounds, || {
                        tensor.read_into(&mut bytes, &host, self.dtype).map(drop)
                    })?
                };
                let copy = Some(time_copy(rounds, self.units)?);
                return Ok(DeviceFigures { ours, copy });
            }
            DeviceWork::Op(name, attributes) => (name, attributes.as_slice()),
        };
        // An operation that was renamed must be seen in the table, and not be left out.
        if !TensorOp::all_rows().any(|e| e.name == *name) {
            return Err("not in the table".into());
        }
        let inputs = self.sizes.iter().map(|size| put(size).map(|(t, ..)| t));
        let inputs = inputs.collect::<Result<Vec<Tensor>, String>>()?;
        let ops = attributes.iter().filter_map(|a| TensorOp::new(name, a).ok());
        let tried =
            ops.filter_map(|op| op.run_op(&card, &inputs).ok().map(|ran| (op, ran.outputs)));
        let (op, out) = { tried }.next().ok_or("no attributes that it takes are known here")?;
        // A tensor that is there needs no zeroing; where it cannot be computed in place, a new one
        // needs no copy.
        let into = best_seconds(rounds, || op.run_into(&card, &inputs, &out).map(drop))?;
        let fresh = best_seconds(rounds, || op.run_op(&card, &inputs).map(drop))?;
        let copy = match self.what {
            DeviceWork::Decode => Some(time_read(rounds, self.units, card.host_threads())?),
            _ => None,
        };
        // A library may take either way, so the better one is ours.
        Ok(DeviceFigures { ours: into.min(fresh), copy })
    }
}

/// Memory with pages of its own: what was never written would all be the one page of zeros, in the cache.
fn written_buffer(bytes: f64) -> AlignedBuffer {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some MB")]
    let mut memory = AlignedBuffer::new_zeroed(bytes as usize);
    memory.fill(1);
    memory
}

/// A plain copy that reads and writes so many bytes in all.
fn time_copy(rounds: usize, bytes: f64) -> Result<f64, String> {
    let from = written_buffer(bytes / 2.0);
    let mut to = AlignedBuffer::new_zeroed(from.len());
    best_seconds(rounds, || {
        to.copy_from_slice(&from);
        std::hint::black_box(&mut to);
        Ok(())
    })
}

/// A plain read of so many bytes, shared by as many threads as the card has.
fn time_read(rounds: usize, bytes: f64, threads: usize) -> Result<f64, String> {
    const LINE: usize = 64;
    let from: &[u8] = &written_buffer(bytes);
    // Whole cache lines, so that no two threads read one.
    let share = from.len().div_ceil(threads.max(1)).next_multiple_of(LINE);
    best_seconds(rounds, || {
        zellige_host::crew::share_pieces(threads, threads, &|i| {
            let part = from.chunks(share).nth(i).unwrap_or_default();
            let mut sums = [0_u8; LINE];
            for line in part.chunks_exact(LINE) {
                sums.iter_mut().zip(line).for_each(|(sum, byte)| *sum ^= byte);
            }
            std::hint::black_box(sums);
        });
        Ok(())
    })
}

/// Numbers between -4 and 4.
fn host_operand(size: &[i64], dtype: Dtype) -> (Vec<u8>, StridedLayout) {
    let host = StridedLayout::new_contiguous(size).expect("a small size");
    let format = host_format(dtype).expect("a float");
    let count = usize::try_from(host.numel()).expect("positive");
    // Steps of 1/256 below 4 are exact in float16 and float32, so that both dtypes hold the same numbers.
    let number = |i: usize| f32::from(u16::try_from(i * 31 % 2048).expect("below 2048"));
    let numbers: Vec<u8> =
        (0..count).flat_map(|i| (number(i) / 256.0 - 4.0).to_le_bytes()).collect();
    let mut bytes = vec![0; count * format.byte_size()];
    zellige_float::Converter::new(zellige_float::Format::F32, format)
        .convert(&numbers, &mut bytes, count)
        .expect("as long as asked");
    (bytes, host)
}

fn best_seconds(
    rounds: usize,
    mut call: impl FnMut() -> zellige_device::Result<()>,
) -> Result<f64, String> {
    let mut best = f64::INFINITY;
    // One round more than is counted: the first touches fresh pages and fills caches of plans.
    for round in 0..=rounds {
        let start = Instant::now();
        call().map_err(|e| e.to_string())?;
        if round > 0 {
            best = best.min(start.elapsed().as_secs_f64());
        }
    }
    Ok(best)
}
