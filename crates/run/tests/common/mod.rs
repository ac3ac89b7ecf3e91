//! Inputs for graphs.
#![allow(clippy::unwrap_used, reason = "a test helper")]

use zellige_device::host_format;
use zellige_float::Dtype;
use zellige_graph::{Graph, GraphTensor};
use zellige_run::HostArray;

/// Numbers that differ from name to name, the same every time: small floats, small integers.
pub(crate) fn values(t: &GraphTensor, seed: u64) -> HostArray {
    let mut state = t.name.bytes().fold(seed ^ 0x9e37_79b9_7f4a_7c15, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let n = usize::try_from(t.size.iter().product::<i64>()).unwrap();
    let float = host_format(t.dtype).unwrap().is_float();
    let mut bytes = Vec::new();
    for _ in 0..n {
        let r = next();
        match t.dtype {
            Dtype::Float32 => {
                let v = (r % 2001) as f32 / 1000.0 - 1.0;
                bytes.extend(v.to_le_bytes());
            }
            Dtype::Float16 => {
                // Sixteenths between -1 and 1 are exact in every 16-bit format.
                let sixteenths = i32::try_from(r % 33).unwrap() - 16;
                bytes.extend(half(sixteenths).to_le_bytes());
            }
            Dtype::Int64 => bytes.extend(i64::try_from(r % 4).unwrap().to_le_bytes()),
            Dtype::Int32 => bytes.extend(i32::try_from(r % 4).unwrap().to_le_bytes()),
            Dtype::Bool => bytes.push(u8::from(r % 2 == 0)),
            other => panic!("no values for {other}, float {float}"),
        }
    }
    HostArray::from_contiguous(bytes, &t.size, t.dtype).unwrap()
}

/// The bits of a float16 of so many sixteenths.
fn half(sixteenths: i32) -> u16 {
    if sixteenths == 0 {
        return 0;
    }
    let sign = u16::from(sixteenths < 0) << 15;
    let n = sixteenths.unsigned_abs();
    let top = n.ilog2();
    let exponent = u16::try_from(15 + top).unwrap() - 4;
    let fraction = u16::try_from((n - (1 << top)) << (10 - top)).unwrap();
    sign | exponent << 10 | fraction
}

/// The input of a name.
pub(crate) fn input(graph: &Graph, name: &str) -> HostArray {
    values(graph.tensor(name).unwrap(), 1)
}
