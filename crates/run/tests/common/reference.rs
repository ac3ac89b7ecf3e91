//! Operations in float64, written down from their definitions, and how far the device may be from them.

use serde_json::{Map, Value};
use zellige_layout::StridedLayout;

/// Numbers of a tensor in row-major order.
#[derive(Debug, Clone)]
pub(crate) struct Nd {
    pub(crate) size: Vec<i64>,
    pub(crate) data: Vec<f64>,
}

/// What a result should be, and of each element by how much it may differ.
pub(crate) struct Expected {
    pub(crate) data: Vec<f64>,
    pub(crate) slack: Vec<f64>,
}

impl Nd {
    /// The elements that a view sees.
    pub(crate) fn seen(&self, map: &StridedLayout) -> Nd {
        let size = map.size().to_vec();
        let at = |c: &[i64]| usize::try_from(map.element_address(c).unwrap()).unwrap();
        let data = coordinates(&size).iter().map(|c| self.data[at(c)]).collect();
        Nd { size, data }
    }

    fn at(&self, c: &[i64]) -> f64 {
        // Broadcast: trailing dimensions meet, those of one element repeat.
        let lead = c.len() - self.size.len();
        let place = self
            .size
            .iter()
            .enumerate()
            .fold(0, |p, (d, n)| p * n + if *n == 1 { 0 } else { c[lead + d] });
        self.data[usize::try_from(place).unwrap()]
    }
}

/// All coordinates of a size, in row-major order.
fn coordinates(size: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new()];
    for n in size {
        all = all
            .into_iter()
            .flat_map(|head: Vec<i64>| (0..*n).map(move |i| [&head[..], &[i]].concat()))
            .collect();
    }
    all
}

/// A rounding to ten bits.
const ROUND: f64 = 1.0 / 256.0;

fn plain(data: Vec<f64>) -> Expected {
    let slack = data.iter().map(|x| x.abs() * ROUND + 1e-4).collect();
    Expected { data, slack }
}

fn exact(data: Vec<f64>) -> Expected {
    let slack = vec![0.0; data.len()];
    Expected { data, slack }
}

/// The first result of an operation; none of one that is not written down here.
pub(crate) fn evaluate(
    op: &str,
    attributes: &Map<String, Value>,
    inputs: &[Nd],
    out: &[i64],
) -> Option<Expected> {
    let x = inputs.first()?;
    if let Some(f) = unary(op) {
        return Some(plain(x.data.iter().map(|v| f(*v)).collect()));
    }
    let each = |f: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
        let of = |c: &Vec<i64>| f(&inputs.iter().map(|t| t.at(c)).collect::<Vec<f64>>());
        coordinates(out).iter().map(of).collect()
    };
    // Numbers that float16 no longer tells apart are different in the device's format.
    let truth = |f: fn(f64, f64) -> bool| Expected {
        data: each(&|v| f64::from(u8::from(f(v[0], v[1])))),
        slack: each(&|v| f64::from(u8::from(v[0].abs().max(v[1].abs()) < 6.2e-5))),
    };
    if !attributes.is_empty() && matches!(op, "add" | "sub" | "div") {
        return None;
    }
    Some(match op {
        "add" => plain(each(&|v| v[0] + v[1])),
        "sub" => plain(each(&|v| v[0] - v[1])),
        "mul" => plain(each(&|v| v[0] * v[1])),
        "div" => plain(each(&|v| v[0] / v[1])),
        "maximum" => plain(each(&|v| v[0].max(v[1]))),
        "minimum" => plain(each(&|v| v[0].min(v[1]))),
        "hypot" => plain(each(&|v| v[0].hypot(v[1]))),
        "atan2" => plain(each(&|v| v[0].atan2(v[1]))),
        "eq" => truth(|a, b| a == b),
        "ne" => truth(|a, b| a != b),
        "lt" => truth(|a, b| a < b),
        "le" => truth(|a, b| a <= b),
        "gt" => truth(|a, b| a > b),
        "ge" => truth(|a, b| a >= b),
        "where" => exact(each(&|v| if v[0] != 0.0 { v[1] } else { v[2] })),
        "lerp" => {
            let data = each(&|v| v[0] + v[2] * (v[1] - v[0]));
            let size = each(&|v| v[0].abs() + (v[2] * (v[1] - v[0])).abs());
            slack(data, &size)
        }
        "addcmul" => {
            let value = attributes.get("value").and_then(Value::as_f64).unwrap_or(1.0);
            let data = each(&|v| v[0] + value * v[1] * v[2]);
            slack(data, &each(&|v| v[0].abs() + (value * v[1] * v[2]).abs()))
        }
        "sum" | "mean" | "amax" | "amin" | "prod" | "logsumexp" => {
            folded(op, x, &dims(attributes, x.size.len()))
        }
        "softmax" | "log_softmax" => {
            let d = dims(attributes, x.size.len());
            let sums = folded("logsumexp", x, &d);
            let keep: Vec<i64> = x
                .size
                .iter()
                .enumerate()
                .map(|(i, n)| if d.contains(&i) { 1 } else { *n })
                .collect();
            let sums = Nd { size: keep, data: sums.data };
            let log = |c: &Vec<i64>| x.at(c) - sums.at(c);
            let data: Vec<f64> = coordinates(&x.size)
                .iter()
                .map(|c| if op == "softmax" { log(c).exp() } else { log(c) })
                .collect();
            let size: Vec<f64> = data.iter().zip(&x.data).map(|(y, x)| y.abs() + x.abs()).collect();
            slack(data, &size)
        }
        "matmul" | "bmm" | "mm" if x.size.len() >= 2 && inputs[1].size.len() >= 2 => {
            product(x, &inputs[1], out, false, None)
        }
        "linear" if inputs[1].size.len() == 2 => product(x, &inputs[1], out, true, inputs.get(2)),
        "cat" => {
            let rank = out.len();
            let d = dims_or(attributes, rank, 0)[0];
            let data = coordinates(out).into_iter().map(|mut c| {
                let mut k = 0;
                while c[d] >= inputs[k].size[d] {
                    c[d] -= inputs[k].size[d];
                    k += 1;
                }
                inputs[k].at(&c)
            });
            exact(data.collect())
        }
        "flip" => {
            let d = dims_of(attributes.get("dims"), x.size.len());
            let data = coordinates(out).into_iter().map(|mut c| {
                d.iter().for_each(|d| c[*d] = x.size[*d] - 1 - c[*d]);
                x.at(&c)
            });
            exact(data.collect())
        }
        "embedding" | "index_select" => {
            let index = &inputs[1];
            let rank = index.size.len();
            let data = coordinates(out).into_iter().map(|c| {
                #[allow(clippy::cast_possible_truncation, reason = "an index")]
                let row = index.at(&c[..rank]) as i64;
                x.at(&[row, c[rank]])
            });
            exact(data.collect())
        }
        _ => return None,
    })
}

fn slack(data: Vec<f64>, size: &[f64]) -> Expected {
    let slack = size.iter().map(|s| s * ROUND + 1e-4).collect();
    Expected { data, slack }
}

fn unary(op: &str) -> Option<fn(f64) -> f64> {
    Some(match op {
        "abs" => f64::abs,
        "neg" => |x| -x,
        "square" => |x| x * x,
        "exp" => f64::exp,
        "exp2" => f64::exp2,
        "expm1" => f64::exp_m1,
        "log1p" => f64::ln_1p,
        "log2" => f64::log2,
        "sqrt" => f64::sqrt,
        "reciprocal" => f64::recip,
        "sin" => f64::sin,
        "cos" => f64::cos,
        "tanh" => f64::tanh,
        "atan" => f64::atan,
        "sinh" => f64::sinh,
        "floor" => f64::floor,
        "ceil" => f64::ceil,
        "trunc" => f64::trunc,
        "round" => f64::round_ties_even,
        "frac" => |x| x - x.trunc(),
        "sigmoid" => |x| 1.0 / (1.0 + (-x).exp()),
        "relu" => |x| x.max(0.0),
        "silu" => |x| x / (1.0 + (-x).exp()),
        "clone" | "identity" => |x| x,
        _ => return None,
    })
}

fn dims_of(v: Option<&Value>, rank: usize) -> Vec<usize> {
    let list: Vec<i64> = match v {
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_i64).collect(),
        Some(v) => v.as_i64().into_iter().collect(),
        None => (0..i64::try_from(rank).unwrap()).collect(),
    };
    let rank = i64::try_from(rank).unwrap();
    list.iter().map(|d| usize::try_from(if *d < 0 { d + rank } else { *d }).unwrap()).collect()
}

fn dims(attributes: &Map<String, Value>, rank: usize) -> Vec<usize> {
    dims_of(attributes.get("dim"), rank)
}

fn dims_or(attributes: &Map<String, Value>, rank: usize, default: i64) -> Vec<usize> {
    dims_of(Some(attributes.get("dim").unwrap_or(&Value::from(default))), rank)
}

/// A reduction over dimensions; the slack grows with what was added up.
fn folded(op: &str, x: &Nd, dims: &[usize]) -> Expected {
    let kept: Vec<usize> = (0..x.size.len()).filter(|d| !dims.contains(d)).collect();
    let size: Vec<i64> = kept.iter().map(|d| x.size[*d]).collect();
    let count = usize::try_from(size.iter().product::<i64>()).unwrap();
    let mut groups: Vec<Vec<f64>> = vec![Vec::new(); count];
    for (c, v) in coordinates(&x.size).iter().zip(&x.data) {
        let place = kept.iter().fold(0, |p, d| p * x.size[*d] + c[*d]);
        groups[usize::try_from(place).unwrap()].push(*v);
    }
    let mut result = Expected { data: Vec::new(), slack: Vec::new() };
    for g in groups {
        let most = g.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = g.iter().sum();
        let all: f64 = g.iter().map(|v| v.abs()).sum();
        let n = g.len() as f64;
        let (value, size) = match op {
            "sum" => (sum, sum.abs() + all / 1000.0),
            "mean" => (sum / n, (sum.abs() + all / 1000.0) / n),
            "amax" => (most, most.abs()),
            "amin" => {
                let least = g.iter().copied().fold(f64::INFINITY, f64::min);
                (least, least.abs())
            }
            "prod" => {
                let p: f64 = g.iter().product();
                (p, p.abs())
            }
            _ => {
                let s: f64 = g.iter().map(|v| (v - most).exp()).sum();
                (most + s.ln(), most.abs() + s.ln().abs())
            }
        };
        result.data.push(value);
        result.slack.push(size * ROUND + 1e-4);
    }
    result
}

/// A batch of matrix products, the second matrix turned or not.
fn product(a: &Nd, b: &Nd, out: &[i64], turned: bool, bias: Option<&Nd>) -> Expected {
    let k = *a.size.last().unwrap();
    let mut result = Expected { data: Vec::new(), slack: Vec::new() };
    for c in coordinates(out) {
        let (batch, m, n) = (&c[..c.len() - 2], c[c.len() - 2], c[c.len() - 1]);
        let (mut sum, mut all) = (bias.map_or(0.0, |b| b.at(&c)), 0.0);
        for i in 0..k {
            // Trailing batches meet, as in every broadcast.
            let of = |t: &Nd, row: i64, column: i64| {
                let own = t.size.len() - 2;
                t.at(&[&batch[batch.len().saturating_sub(own)..], &[row, column]].concat())
            };
            let right = if turned { of(b, n, i) } else { of(b, i, n) };
            let term = of(a, m, i) * right;
            sum += term;
            all += term.abs();
        }
        result.data.push(sum);
        result.slack.push((sum.abs() + all / 1000.0) * ROUND + 1e-4);
    }
    result
}
