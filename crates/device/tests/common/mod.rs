//! Random tensors on a card, and results read back.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use zellige_device::RunOp;
use zellige_device::{Card, Tensor, host_format};
use zellige_float::Dtype;
use zellige_float::{Converter, Format};
use zellige_layout::StridedLayout;
use zellige_op::TensorOp;
use zellige_stick::StickLayout;

/// A card with the published figures.
pub fn card() -> Card {
    Card::builder().build().unwrap()
}

/// A small generator with a seed, the same everywhere.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap() % n.max(1)
    }

    pub fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    /// A number in -8 .. 8 with a few fraction bits, sometimes large, tiny or special.
    pub fn number(&mut self) -> f64 {
        let plain = (self.below(1 << 12) as f64 - 2048.0) / 256.0;
        match self.below(40) {
            0 => 0.0,
            1 => -0.0,
            2 => plain * 1000.0,
            3 => plain / 1000.0,
            _ => plain,
        }
    }

    /// A size of `rank` dimensions, some of them 1, at most two around a stick.
    pub fn size(&mut self, rank: usize) -> Vec<i64> {
        let mut long = 0;
        (0..rank)
            .map(|_| match self.below(5) {
                0 => 1,
                1 | 2 if long < 2 => {
                    long += 1;
                    60 + i64::try_from(self.below(80)).unwrap()
                }
                _ => 1 + i64::try_from(self.below(7)).unwrap(),
            })
            .collect()
    }

    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i + 1));
        }
    }
}

/// One value in a format, as a number again.
pub fn rounded(value: f64, format: Format) -> f64 {
    let mut code = [0u8; 8];
    let mut back = [0u8; 8];
    Converter::new(Format::F64, format).convert(&value.to_le_bytes(), &mut code, 1).unwrap();
    Converter::new(format, Format::F64).convert(&code, &mut back, 1).unwrap();
    f64::from_le_bytes(back)
}

/// An exact integer in an integer format: it wraps.
pub fn wrapped(value: f64, format: Format) -> f64 {
    #[allow(clippy::cast_possible_truncation, reason = "tests use small integers")]
    let whole = value as i64;
    let (mut code, mut back) = ([0u8; 8], [0u8; 8]);
    Converter::new(Format::I64, format).convert(&whole.to_le_bytes(), &mut code, 1).unwrap();
    Converter::new(format, Format::F64).convert(&code, &mut back, 1).unwrap();
    f64::from_le_bytes(back)
}

/// The bytes of numbers in a host dtype.
pub fn bytes_of(values: &[f64], dtype: Dtype) -> Vec<u8> {
    let format = host_format(dtype).unwrap();
    let from: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut to = vec![0; values.len() * format.byte_size()];
    Converter::new(Format::F64, format).convert(&from, &mut to, values.len()).unwrap();
    to
}

/// The elements of a tensor in row-major order.
pub fn read(t: &Tensor) -> Vec<f64> {
    let bytes = t.download(Dtype::Float64).unwrap();
    bytes.chunks(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect()
}

/// Its elements as kernels compute with them: 16 bits have a number in the place of an infinity.
#[allow(dead_code, reason = "not every test has infinities")]
pub fn numbers(t: &Tensor) -> Vec<f64> {
    let stands = t.format() != t.format().arithmetic_format();
    let number =
        |x: f64| if stands && x.is_infinite() { 4_286_578_688.0f64.copysign(x) } else { x };
    read(t).into_iter().map(number).collect()
}

/// A tensor with these elements in a random layout: any order of dimensions, any stick dimension,
/// sparse, or a view of a larger tensor.
pub fn tensor(rng: &mut Rng, card: &Card, size: &[i64], dtype: Dtype, values: &[f64]) -> Tensor {
    let rank = size.len();
    let mut order: Vec<i64> = (0..i64::try_from(rank).unwrap()).collect();
    rng.shuffle(&mut order);
    if rng.chance(6) && rank > 0 {
        order.push(-1);
    }
    // Padding in front and behind, along some dimension, of which the tensor is a slice.
    let wide = (rank > 0 && rng.chance(3)).then(|| rng.below(rank));
    let pad = i64::try_from(rng.below(70)).unwrap();
    let mut outer = size.to_vec();
    if let Some(d) = wide {
        outer[d] += 2 * pad;
    }
    let layout = StickLayout::with_dim_order(&outer, None, dtype, &order).unwrap();
    let base = Tensor::zeros(card, dtype, &layout).unwrap();
    base.fill(f64::NAN).unwrap();
    let t = match wide {
        None => base,
        Some(d) => {
            let d = i64::try_from(d).unwrap();
            let at = size[usize::try_from(d).unwrap()] + pad;
            base.view_with(|v| v.slice_dim(d, Some(pad), Some(at), 1)).unwrap()
        }
    };
    t.write_from(&bytes_of(values, dtype), &StridedLayout::new_contiguous(size).unwrap(), dtype)
        .unwrap();
    t
}

/// Random numbers that a host tensor of the dtype holds.
pub fn values(rng: &mut Rng, n: i64, dtype: Dtype) -> Vec<f64> {
    let host = host_format(dtype).unwrap();
    let float = host.is_float();
    (0..n)
        .map(|_| {
            let v = rounded(rng.number(), if float { host } else { Format::F32 });
            match dtype {
                Dtype::Bool => f64::from(u8::from(v > 0.0)),
                Dtype::Uint8 => (v.abs() * 10.0).trunc() % 256.0,
                _ if float => v,
                _ => v.trunc() % 100.0,
            }
        })
        .collect()
}

/// Random tensor: its elements as the device holds them.
pub fn random(rng: &mut Rng, card: &Card, size: &[i64], dtype: Dtype) -> (Tensor, Vec<f64>) {
    let values = values(rng, size.iter().product(), dtype);
    let t = tensor(rng, card, size, dtype, &values);
    let held = read(&t);
    (t, held)
}

/// Runs an operation.
pub fn run(
    card: &Card,
    op: &str,
    attributes: &serde_json::Value,
    inputs: &[Tensor],
) -> Vec<Tensor> {
    let op = TensorOp::new(op, attributes).unwrap();
    op.run_op(card, inputs).unwrap_or_else(|e| panic!("{op:?} of {inputs:?}: {e}")).outputs
}

/// Whether a stored number is the wanted one rounded, give or take `slack` relative error before the
/// rounding.
pub fn close(got: f64, want: f64, format: Format, slack: f64) -> bool {
    if want.is_nan() {
        return got.is_nan();
    }
    let margin = want.abs() * slack;
    let (low, high) = (rounded(want - margin, format), rounded(want + margin, format));
    let same = |x: f64| got == x || (got.is_nan() && x.is_nan());
    same(rounded(want, format)) || same(low) || same(high) || (low <= got && got <= high)
}

/// Checks that a tensor holds exactly these numbers.
#[track_caller]
pub fn holds(t: &Tensor, want: &[f64]) {
    let got = read(t);
    assert_eq!(got.len(), want.len());
    let differ = |(_, (g, w)): &(usize, (&f64, &f64))| g != w && !(g.is_nan() && w.is_nan());
    if let Some((i, (g, w))) = got.iter().zip(want).enumerate().find(differ) {
        panic!("element {i} is {g}, not {w}: {t:?}, {:?}", t.view());
    }
}

/// Checks all elements of a result.
pub fn check(t: &Tensor, want: &[f64], slack: f64, what: &str) {
    let got = read(t);
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        if !t.format().is_float() {
            assert_eq!(*g, wrapped(*w, t.format()), "{what}: element {i}; {t:?}");
            continue;
        }
        assert!(close(*g, *w, t.format(), slack), "{what}: element {i} is {g}, not {w}; {t:?}");
    }
}

/// The row-major index of an element of `size` in a tensor of `small` that is broadcast to it.
pub fn broadcast_index(flat: usize, size: &[i64], small: &[i64]) -> usize {
    let mut rest = flat;
    let mut index = 0;
    let mut stride = 1;
    for (k, n) in size.iter().rev().enumerate() {
        let n = usize::try_from(*n).unwrap();
        let c = rest % n;
        rest /= n;
        if let Some(m) = small.len().checked_sub(k + 1).map(|d| small[d]) {
            let m = usize::try_from(m).unwrap();
            if m != 1 {
                index += c * stride;
            }
            stride *= m;
        }
    }
    index
}
