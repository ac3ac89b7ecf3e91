//! Rules for convolutions and pooling.

use super::RuleTable;
use super::unfold::{SpatialWindows, WindowPadding};
use crate::error::Result;
use crate::node::NodeLowering;
use crate::walk::ModelValue;
use zellige_graph::{GraphOperand, OpCall, TensorId};

pub(super) const TABLE: RuleTable = &[
    ("Conv", lower_conv),
    ("MaxPool", lower_max_pool),
    ("AveragePool", lower_average_pool),
    ("GlobalAveragePool", |n| lower_global_pool(n, "mean")),
    ("GlobalMaxPool", |n| lower_global_pool(n, "amax")),
    ("LpPool", lower_lp_pool),
    ("GlobalLpPool", lower_global_lp),
];

impl SpatialWindows {
    fn read_windows(
        n: &mut NodeLowering<'_, '_>,
        spatial: &[i64],
        kernel: Vec<i64>,
    ) -> Result<SpatialWindows> {
        let rank = spatial.len();
        let stride = ints_per_dim(n, "strides", rank, 1, 1)?;
        let dilation = ints_per_dim(n, "dilations", rank, 1, 1)?;
        let pads = ints_per_dim(n, "pads", 2 * rank, 0, 0)?;
        let auto = n.word_attribute("auto_pad", "NOTSET")?;
        let (mut before, mut after) = (pads[..rank].to_vec(), pads[rank..].to_vec());
        match auto.as_str() {
            "NOTSET" | "" => {}
            "VALID" => (before, after) = (vec![0; rank], vec![0; rank]),
            "SAME_UPPER" | "SAME_LOWER" => {
                for d in 0..rank {
                    // SAME pads so that the result has ceil(extent / stride) elements; an odd total
                    // puts the additional element at the end for SAME_UPPER and at the beginning
                    // for SAME_LOWER.
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
                return Err(n.refuse_node("bad_attribute", message));
            }
        }
        Ok(SpatialWindows { kernel, stride, dilation, before, after })
    }

    /// Pads the operand with a number and returns the paddings that the operation itself can do:
    /// those that are equal on both sides and at most `most`.
    fn pad_operand(
        &self,
        n: &mut NodeLowering<'_, '_>,
        x: TensorId,
        value: f64,
        most: impl Fn(usize) -> i64,
    ) -> Result<(TensorId, Vec<i64>)> {
        let rank = self.before.len();
        // The card's operations take one padding per dimension, as PyTorch's do, and its pools at
        // most half of a window; everything else is an operation of its own in front.
        let own = |d: usize| self.before[d] == self.after[d] && self.before[d] <= most(d);
        if (0..rank).all(own) {
            return Ok((x, self.before.clone()));
        }
        let pairs = (0..rank).rev().flat_map(|d| [self.before[d], self.after[d]]);
        let pad = OpCall::pad(pairs.collect::<Vec<i64>>(), value);
        let x = n.emit_part("padded", pad, &[GraphOperand::Tensor(x)])?;
        Ok((x, vec![0; rank]))
    }
}

/// Reads a list of `count` integers, none below `least`.
pub(super) fn ints_per_dim(
    n: &mut NodeLowering<'_, '_>,
    name: &'static str,
    count: usize,
    least: i64,
    default: i64,
) -> Result<Vec<i64>> {
    let Some(list) = n.ints_attribute(name)? else { return Ok(vec![default; count]) };
    let fits = |v: &i64| (least..=i64::from(i32::MAX)).contains(v);
    if list.len() != count || !list.iter().all(fits) {
        let shown = &list[..list.len().min(8)];
        let message =
            format!("attribute `{name}` is {shown:?}; accepted: {count} integers, {least} or more");
        return Err(n.refuse_node("bad_attribute", message));
    }
    Ok(list)
}

/// The spatial extents of operand 0.
pub(super) fn spatial_extents(n: &NodeLowering<'_, '_>) -> Result<Vec<i64>> {
    let size = n.operand_size(0)?;
    // The specification has no bound. Windows double the spatial dimensions, so that eight
    // dimensions become fourteen; PyTorch has convolutions of five at most.
    if size.len() < 3 || size.len() > 8 {
        let message = format!(
            "{size:?} has {} dimensions; accepted: [batch, channels, width], [batch, channels, height, \
             width] and up to four more",
            size.len()
        );
        return Err(n.refuse_operand(0, message));
    }
    Ok(size[2..].to_vec())
}

/// Adds a bias for each channel.
pub(super) fn add_bias(
    n: &mut NodeLowering<'_, '_>,
    y: TensorId,
    bias: Option<TensorId>,
) -> Result<TensorId> {
    let Some(bias) = bias else { return Ok(y) };
    let mut shape = vec![1; n.tensor_size(y).len()];
    shape[1] = n.tensor_size(bias).iter().product();
    let bias = n.emit_step(OpCall::reshape(shape), &[bias])?;
    n.emit_step("add", &[y, bias])
}

/// Reads the windows of a convolution with this kernel.
fn conv_windows(
    n: &mut NodeLowering<'_, '_>,
    extents: &[i64],
    weight: &[i64],
) -> Result<SpatialWindows> {
    if weight.len() != extents.len() + 2 {
        return Err(n.refuse_operand(1, format!("{weight:?} beside {:?}", n.operand_size(0)?)));
    }
    let kernel = weight[2..].to_vec();
    // The attribute repeats the shape of the weights; a difference means that one of the two is
    // wrong.
    if let Some(said) = n.ints_attribute("kernel_shape")?
        && said != kernel
    {
        let message =
            format!("attribute `kernel_shape` is {said:?}, and the weight has {kernel:?}");
        return Err(n.refuse_node("bad_attribute", message));
    }
    SpatialWindows::read_windows(n, extents, kernel)
}

/// A convolution of integers, whose sums are exact.
pub(super) fn convolve_integers(
    n: &mut NodeLowering<'_, '_>,
    x: TensorId,
    weight: TensorId,
    bias: Option<TensorId>,
) -> Result<TensorId> {
    let extents = spatial_extents(n)?;
    let size = n.tensor_size(weight);
    let w = conv_windows(n, &extents, &size)?;
    let groups = n.int_attribute("group", 1)?;
    let y = w.multiply_weights(n, x, weight, groups)?;
    add_bias(n, y, bias)
}

fn lower_conv(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(2, 3)?;
    let extents = spatial_extents(n)?;
    let weight = n.operand_size(1)?;
    let w = conv_windows(n, &extents, &weight)?;
    let groups = n.int_attribute("group", 1)?;
    let x = n.operand_tensor(0)?;
    if extents.len() > 2 {
        let weight = n.operand_tensor(1)?;
        let y = w.multiply_weights(n, x, weight, groups)?;
        let bias = if n.has_operand(2) { Some(n.operand_tensor(2)?) } else { None };
        let y = add_bias(n, y, bias)?;
        return Ok(vec![n.emit_result("identity", &[GraphOperand::Tensor(y)])?]);
    }
    let (x, padding) = w.pad_operand(n, x, 0.0, |_| i64::MAX)?;
    let mut operands = vec![GraphOperand::Tensor(x)];
    for k in 1..n.operand_count() {
        operands.push(GraphOperand::Tensor(n.operand_tensor(k)?));
    }
    let call = OpCall::new(if extents.len() == 1 { "conv1d" } else { "conv2d" })
        .with("stride", w.stride)
        .with("padding", padding)
        .with("dilation", w.dilation)
        .with("groups", groups);
    Ok(vec![n.emit_result(call, &operands)?])
}

/// Reads the windows of a pooling.
fn pool_windows(n: &mut NodeLowering<'_, '_>, extents: &[i64]) -> Result<SpatialWindows> {
    n.check_arity(1, 1)?;
    let rank = extents.len();
    let Some(kernel) = n.ints_attribute("kernel_shape")? else {
        return Err(n.refuse_node("bad_attribute", "attribute `kernel_shape` is missing"));
    };
    if kernel.len() != rank || kernel.iter().any(|k| *k < 1 || *k > i64::from(i32::MAX)) {
        let shown = &kernel[..kernel.len().min(8)];
        let message =
            format!("attribute `kernel_shape` is {shown:?}; accepted: {rank} integers, 1 or more");
        return Err(n.refuse_node("bad_attribute", message));
    }
    SpatialWindows::read_windows(n, extents, kernel)
}

/// Brings the operand of a pooling and its windows to two spatial dimensions; returns whether one
/// was added.
fn pooling_operand(
    n: &mut NodeLowering<'_, '_>,
    mut w: SpatialWindows,
    value: f64,
) -> Result<(TensorId, SpatialWindows, Vec<i64>, bool)> {
    let rank = w.kernel.len();
    let x = n.operand_tensor(0)?;
    let half: Vec<i64> = w.kernel.iter().map(|k| k / 2).collect();
    let (mut x, mut padding) = w.pad_operand(n, x, value, |d| half[d])?;
    if rank == 1 {
        x = n.emit_part("plane", OpCall::unsqueeze(2), &[GraphOperand::Tensor(x)])?;
        for (list, one) in
            [(&mut w.kernel, 1), (&mut w.stride, 1), (&mut w.dilation, 1), (&mut padding, 0)]
        {
            list.insert(0, one);
        }
    }
    Ok((x, w, padding, rank == 1))
}

fn emit_pool(
    n: &mut NodeLowering<'_, '_>,
    call: OpCall,
    x: TensorId,
    line: bool,
) -> Result<Vec<ModelValue>> {
    if !line {
        return Ok(vec![n.emit_result(call, &[GraphOperand::Tensor(x)])?]);
    }
    let y = n.emit_part("pooled", call, &[GraphOperand::Tensor(x)])?;
    Ok(vec![n.emit_result(OpCall::squeeze(2), &[GraphOperand::Tensor(y)])?])
}

fn lower_max_pool(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    // It changes only the optional second result, the indices, which is refused if the node names
    // it.
    n.int_attribute("storage_order", 0)?;
    let ceil = n.flag_attribute("ceil_mode", false)?;
    let extents = spatial_extents(n)?;
    let w = pool_windows(n, &extents)?;
    let dtype = n.operand_dtype(0)?;
    let float = crate::literal::is_float(dtype);
    // The card's pool is for floats in two dimensions. Others take the maximum over windows as
    // views.
    if extents.len() > 2 || !float {
        let lowest = match crate::carried::integer_range(dtype) {
            Some((low, _)) => WindowPadding::Whole(low),
            None => WindowPadding::NegativeInfinity,
        };
        let x = n.operand_tensor(0)?;
        let windows = w.unfold_windows(n, x, lowest, ceil)?;
        let call = OpCall::new("amax").with("dim", w.window_dims());
        return Ok(vec![n.emit_result_as(dtype, call, &[GraphOperand::Tensor(windows)])?]);
    }
    // Padding of a maximum must never win, so it is minus infinity.
    let (x, w, padding, line) = pooling_operand(n, w, f64::NEG_INFINITY)?;
    let call = OpCall::new("max_pool2d")
        .with("kernel_size", w.kernel)
        .with("stride", w.stride)
        .with("padding", padding)
        .with("dilation", w.dilation)
        .with("ceil_mode", ceil);
    emit_pool(n, call, x, line)
}

fn lower_average_pool(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    let ceil = n.flag_attribute("ceil_mode", false)?;
    let counted = n.flag_attribute("count_include_pad", false)?;
    let extents = spatial_extents(n)?;
    let w = pool_windows(n, &extents)?;
    let rank = extents.len();
    let plain = rank < 3
        // PyTorch's average pool has no dilation, and neither has the card's.
        && w.dilation.iter().all(|d| *d == 1)
        && (0..rank).all(|d| w.before[d] == w.after[d] && w.before[d] <= w.kernel[d] / 2);
    if !plain {
        return emit_counted_average(n, &w, &extents, ceil, counted);
    }
    let (x, w, padding, line) = pooling_operand(n, w, 0.0)?;
    let call = OpCall::new("avg_pool2d")
        .with("kernel_size", w.kernel)
        .with("stride", w.stride)
        .with("padding", padding)
        .with("ceil_mode", ceil)
        .with("count_include_pad", counted);
    emit_pool(n, call, x, line)
}

/// The sum of every window divided by the number of its counted elements.
fn emit_counted_average(
    n: &mut NodeLowering<'_, '_>,
    w: &SpatialWindows,
    extents: &[i64],
    ceil: bool,
    counted: bool,
) -> Result<Vec<ModelValue>> {
    let (x, dtype) = (n.operand_tensor(0)?, n.operand_dtype(0)?);
    let windows = w.unfold_windows(n, x, WindowPadding::Whole(0), ceil)?;
    let sums = n.emit_step(OpCall::new("sum").with("dim", w.window_dims()), &[windows])?;
    let mut counts = vec![1.0];
    let mut shape = Vec::new();
    for (d, extent) in extents.iter().enumerate() {
        let windows = w.window_count(d, *extent, ceil);
        // `count_include_pad` counts the padding that the node asks for, but not what `ceil_mode`
        // adds behind it.
        let there = if counted { -w.before[d]..extent + w.after[d] } else { 0..*extent };
        let own: Vec<f64> = (0..windows)
            .map(|i| i * w.stride[d] - w.before[d])
            .map(|at| {
                (0..w.kernel[d]).filter(|k| there.contains(&(at + k * w.dilation[d]))).count()
            })
            .map(|count| count as f64)
            .collect();
        counts = counts.iter().flat_map(|c| own.iter().map(move |o| c * o)).collect();
        shape.push(windows);
    }
    let counts = n.emit_numbers(&shape, counts, dtype, "counts")?;
    Ok(vec![n.emit_result("div", &[GraphOperand::Tensor(sums), GraphOperand::Tensor(counts)])?])
}

/// The p-norm of every window.
fn lower_lp_pool(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    let ceil = n.flag_attribute("ceil_mode", false)?;
    let p = n.int_attribute("p", 2)?;
    let extents = spatial_extents(n)?;
    let w = pool_windows(n, &extents)?;
    let x = n.operand_tensor(0)?;
    let windows = w.unfold_windows(n, x, WindowPadding::Whole(0), ceil)?;
    // The elements of a window are flattened into one dimension, along which the norm is computed.
    let size = n.tensor_size(windows);
    let rank = extents.len();
    let inner: i64 = size[rank + 2..].iter().product();
    let lines = [&size[..rank + 2], &[inner]].concat();
    let lines = n.emit_step(OpCall::reshape(lines), &[windows])?;
    let norm = OpCall::new("norm").with("p", p).with("dim", rank + 2);
    Ok(vec![n.emit_result(norm, &[GraphOperand::Tensor(lines)])?])
}

fn lower_global_lp(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 1)?;
    let (p, size) = (n.int_attribute("p", 2)?, n.operand_size(0)?);
    if size.len() < 3 {
        return Err(n.refuse_operand(0, format!("{} dimensions; accepted: 3 and more", size.len())));
    }
    let x = n.operand_tensor(0)?;
    let inner: i64 = size[2..].iter().product();
    let lines = n.emit_step(OpCall::reshape([size[0], size[1], inner]), &[x])?;
    let norm = n.emit_step(OpCall::new("norm").with("p", p).with("dim", 2), &[lines])?;
    let shape: Vec<i64> = (0..size.len()).map(|d| if d < 2 { size[d] } else { 1 }).collect();
    Ok(vec![n.emit_result(OpCall::reshape(shape), &[GraphOperand::Tensor(norm)])?])
}

fn lower_global_pool(n: &mut NodeLowering<'_, '_>, ours: &'static str) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 1)?;
    let (x, rank) = (n.operand_tensor(0)?, n.operand_size(0)?.len());
    if rank < 3 {
        return Err(n.refuse_operand(0, format!("{rank} dimensions; accepted: 3 and more")));
    }
    let dims: Vec<usize> = (2..rank).collect();
    Ok(vec![n.emit_result(OpCall::reduce(ours, dims, true), &[GraphOperand::Tensor(x)])?])
}
