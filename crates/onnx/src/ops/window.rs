//! Convolutions and pooling.

use super::Table;
use crate::error::Result;
use crate::walk::Value;
use crate::node::Node;
use serde_json::{Value as Json, json};
use zellige_graph::{Operand, TensorId};

pub(super) const TABLE: Table = &[
    ("Conv", conv),
    ("MaxPool", max_pool),
    ("AveragePool", average_pool),
    ("GlobalAveragePool", |n| global(n, "mean")),
    ("GlobalMaxPool", |n| global(n, "amax")),
];

/// The windows of a node, one entry for each spatial dimension.
struct Windows {
    kernel: Vec<i64>,
    stride: Vec<i64>,
    dilation: Vec<i64>,
    before: Vec<i64>,
    after: Vec<i64>,
}

impl Windows {
    fn read(n: &mut Node<'_, '_>, spatial: &[i64], kernel: Vec<i64>) -> Result<Windows> {
        let rank = spatial.len();
        let stride = each(n, "strides", rank, 1, 1)?;
        let dilation = each(n, "dilations", rank, 1, 1)?;
        let pads = each(n, "pads", 2 * rank, 0, 0)?;
        let auto = n.word("auto_pad", "NOTSET")?;
        let (mut before, mut after) = (pads[..rank].to_vec(), pads[rank..].to_vec());
        match auto.as_str() {
            "NOTSET" | "" => {}
            "VALID" => (before, after) = (vec![0; rank], vec![0; rank]),
            "SAME_UPPER" | "SAME_LOWER" => {
                for d in 0..rank {
                    let steps = (spatial[d] + stride[d] - 1) / stride[d];
                    let reach = (kernel[d] - 1).saturating_mul(dilation[d]);
                    let left = (steps - 1).saturating_mul(stride[d]).saturating_add(1);
                    let total = left.saturating_add(reach).saturating_sub(spatial[d]).max(0);
                    let (small, large) = (total / 2, total - total / 2);
                    let lower = auto == "SAME_LOWER";
                    (before[d], after[d]) = if lower { (large, small) } else { (small, large) };
                }
            }
            other => {
                let message = format!(
                    "attribute `auto_pad` is `{other}`; accepted: NOTSET, VALID, SAME_UPPER, SAME_LOWER"
                );
                return Err(n.bad("bad_attribute", message));
            }
        }
        Ok(Windows { kernel, stride, dilation, before, after })
    }

    /// The operand padded with a number, and paddings of the operation left to do: those that are the
    /// same on both sides and at most `most` are its own.
    fn padded(
        &self,
        n: &mut Node<'_, '_>,
        x: TensorId,
        value: f64,
        most: impl Fn(usize) -> i64,
    ) -> Result<(TensorId, Vec<i64>)> {
        let rank = self.before.len();
        let own = |d: usize| self.before[d] == self.after[d] && self.before[d] <= most(d);
        if (0..rank).all(own) {
            return Ok((x, self.before.clone()));
        }
        let pairs = (0..rank).rev().flat_map(|d| [self.before[d], self.after[d]]);
        let pad =
            json!({"pad": pairs.collect::<Vec<i64>>(), "value": crate::literal::number(value)});
        let x = n.part("padded", "pad", &[Operand::Tensor(x)], pad)?;
        Ok((x, vec![0; rank]))
    }
}

/// A list of integers with one for each of `count`, none below `least`.
fn each(
    n: &mut Node<'_, '_>,
    name: &'static str,
    count: usize,
    least: i64,
    default: i64,
) -> Result<Vec<i64>> {
    let Some(list) = n.list(name)? else { return Ok(vec![default; count]) };
    let fits = |v: &i64| (least..=i64::from(i32::MAX)).contains(v);
    if list.len() != count || !list.iter().all(fits) {
        let shown = &list[..list.len().min(8)];
        let message =
            format!("attribute `{name}` is {shown:?}; accepted: {count} integers, {least} or more");
        return Err(n.bad("bad_attribute", message));
    }
    Ok(list)
}

/// The spatial extents of operand 0: one or two.
fn spatial(n: &Node<'_, '_>) -> Result<Vec<i64>> {
    let size = n.size(0)?;
    if !(3..=4).contains(&size.len()) {
        let message = format!(
            "{size:?} has {} dimensions; accepted: [batch, channels, width] and \
             [batch, channels, height, width]",
            size.len()
        );
        return Err(n.bad_operand(0, message));
    }
    Ok(size[2..].to_vec())
}

fn conv(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(2, 3)?;
    let extents = spatial(n)?;
    let weight = n.size(1)?;
    if weight.len() != extents.len() + 2 {
        return Err(n.bad_operand(1, format!("{weight:?} beside {:?}", n.size(0)?)));
    }
    let kernel = weight[2..].to_vec();
    if let Some(said) = n.list("kernel_shape")?
        && said != kernel
    {
        let message =
            format!("attribute `kernel_shape` is {said:?}, and the weight has {kernel:?}");
        return Err(n.bad("bad_attribute", message));
    }
    let w = Windows::read(n, &extents, kernel)?;
    let groups = n.int("group", 1)?;
    let x = n.tensor(0)?;
    let (x, padding) = w.padded(n, x, 0.0, |_| i64::MAX)?;
    let mut operands = vec![Operand::Tensor(x)];
    for k in 1..n.inputs() {
        operands.push(Operand::Tensor(n.tensor(k)?));
    }
    let ours = if extents.len() == 1 { "conv1d" } else { "conv2d" };
    let attributes = json!({
        "stride": w.stride, "padding": padding, "dilation": w.dilation, "groups": groups,
    });
    Ok(vec![n.emit(ours, &operands, attributes)?])
}

/// The operand of a pooling in two spatial dimensions, and its windows there; whether one was added.
fn pooled(n: &mut Node<'_, '_>, value: f64) -> Result<(TensorId, Windows, Vec<i64>, bool)> {
    n.arity(1, 1)?;
    let extents = spatial(n)?;
    let rank = extents.len();
    let Some(kernel) = n.list("kernel_shape")? else {
        return Err(n.bad("bad_attribute", "attribute `kernel_shape` is missing"));
    };
    if kernel.len() != rank || kernel.iter().any(|k| *k < 1 || *k > i64::from(i32::MAX)) {
        let shown = &kernel[..kernel.len().min(8)];
        let message =
            format!("attribute `kernel_shape` is {shown:?}; accepted: {rank} integers, 1 or more");
        return Err(n.bad("bad_attribute", message));
    }
    let mut w = Windows::read(n, &extents, kernel)?;
    let x = n.tensor(0)?;
    let half: Vec<i64> = w.kernel.iter().map(|k| k / 2).collect();
    let (mut x, mut padding) = w.padded(n, x, value, |d| half[d])?;
    if rank == 1 {
        x = n.part("plane", "unsqueeze", &[Operand::Tensor(x)], json!({"dim": 2}))?;
        for (list, one) in
            [(&mut w.kernel, 1), (&mut w.stride, 1), (&mut w.dilation, 1), (&mut padding, 0)]
        {
            list.insert(0, one);
        }
    }
    Ok((x, w, padding, rank == 1))
}

fn pool(
    n: &mut Node<'_, '_>,
    op: &str,
    x: TensorId,
    attributes: Json,
    line: bool,
) -> Result<Vec<Value>> {
    if !line {
        return Ok(vec![n.emit(op, &[Operand::Tensor(x)], attributes)?]);
    }
    let y = n.part("pooled", op, &[Operand::Tensor(x)], attributes)?;
    Ok(vec![n.emit("squeeze", &[Operand::Tensor(y)], json!({"dim": 2}))?])
}

fn max_pool(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.int("storage_order", 0)?;
    let ceil = n.flag("ceil_mode", false)?;
    let (x, w, padding, line) = pooled(n, f64::NEG_INFINITY)?;
    let attributes = json!({
        "kernel_size": w.kernel, "stride": w.stride, "padding": padding,
        "dilation": w.dilation, "ceil_mode": ceil,
    });
    pool(n, "max_pool2d", x, attributes, line)
}

fn average_pool(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let ceil = n.flag("ceil_mode", false)?;
    let counted = n.flag("count_include_pad", false)?;
    let (x, w, padding, line) = pooled(n, 0.0)?;
    if w.dilation.iter().any(|d| *d != 1) {
        let message = format!("attribute `dilations` is {:?}; accepted: ones", w.dilation);
        return Err(n.bad("bad_attribute", message));
    }
    let explicit =
        w.before.iter().chain(&w.after).any(|p| *p != 0) && padding.iter().all(|p| *p == 0);
    if explicit && (!counted || ceil) {
        let message = format!(
            "pads {:?} before and {:?} after; accepted: the same on both sides, at most half of the \
             kernel, or others with count_include_pad = 1 and ceil_mode = 0",
            w.before, w.after
        );
        return Err(n.bad("bad_attribute", message));
    }
    let attributes = json!({
        "kernel_size": w.kernel, "stride": w.stride, "padding": padding,
        "ceil_mode": ceil, "count_include_pad": counted,
    });
    pool(n, "avg_pool2d", x, attributes, line)
}

fn global(n: &mut Node<'_, '_>, ours: &str) -> Result<Vec<Value>> {
    n.arity(1, 1)?;
    let (x, rank) = (n.tensor(0)?, n.size(0)?.len());
    if rank < 3 {
        return Err(n.bad_operand(0, format!("{rank} dimensions; accepted: 3 and more")));
    }
    let dims: Vec<usize> = (2..rank).collect();
    Ok(vec![n.emit(ours, &[Operand::Tensor(x)], json!({"dim": dims, "keepdim": true}))?])
}
