//! Decompositions of operations that the card runs as one kernel, but for which SuperDSC has no function.
//!
//! Programs keep these operations whole. Only the emitter ([`emit`](crate::emit)), which writes a program as functions
//! of the device, uses their parts, which round their results as all parts do.

use super::recipe::{
    DecompositionRecipe, DecompositionRefusal, DecompositionResult, PartBuilder, RecipeInput,
};
use serde_json::Value;
use zellige_graph::{GraphOperand, OpCall};

/// The lowest number of float16: what surrounds an image before a maximum is taken over its windows.
const LOWEST_FLOAT16: f64 = -65504.0;
/// The most windows that become an operation each.
// Each position of a window is an operation of its own; without a limit a global pooling of a large image would be
// thousands of kernels.
const MAX_WINDOW_OPS: i64 = 256;

/// The decomposition of an operation into functions.
pub(crate) fn find_function_recipe(op: &str) -> Option<DecompositionRecipe> {
    Some(match op {
        "add" => |p, g| decompose_scaled_sum(p, g, "add"),
        "sub" => |p, g| decompose_scaled_sum(p, g, "sub"),
        "rms_norm" => decompose_rms_norm,
        "layer_norm" => decompose_layer_norm,
        "group_norm" => decompose_group_norm,
        "batch_norm" => decompose_batch_norm,
        "conv1d" => |p, g| decompose_convolution(p, g, 1),
        "conv2d" => |p, g| decompose_convolution(p, g, 2),
        "max_pool2d" => decompose_max_pool,
        "avg_pool2d" => decompose_avg_pool,
        "adaptive_avg_pool2d" => decompose_adaptive_pool,
        _ => return None,
    })
}

/// Operations one after the other, each with the result of the one before it as its first operand.
struct DecompositionChain(Vec<(&'static str, Vec<GraphOperand>)>);

impl DecompositionChain {
    fn push_op(&mut self, op: &'static str, other: Option<GraphOperand>) {
        self.0.push((op, other.into_iter().collect()));
    }

    fn finish_chain(self, p: &mut PartBuilder<'_>, first: GraphOperand) -> DecompositionResult {
        let mut at = first;
        let count = self.0.len();
        for (k, (op, rest)) in self.0.into_iter().enumerate() {
            let operands: Vec<GraphOperand> = [at].into_iter().chain(rest).collect();
            if k + 1 == count {
                return Ok(vec![p.add_result(0, op, &operands)?]);
            }
            at = p.add_part(op, op, &operands)?;
        }
        Ok(vec![p.add_result(0, "clone", &[at])?])
    }
}

/// `a + alpha b`, or `a - alpha b`.
fn decompose_scaled_sum(
    p: &mut PartBuilder<'_>,
    g: &RecipeInput<'_>,
    op: &'static str,
) -> DecompositionResult {
    if g.number_attribute("alpha", 1.0)? == 1.0 {
        return Err(DecompositionRefusal::Whole("it is one function"));
    }
    let by = g.attribute_operand("alpha")?;
    let scaled = p.add_part("scaled", "mul", &[g.operand(1), by])?;
    Ok(vec![p.add_result(0, op, &[g.operand(0), scaled])?])
}

/// The dimensions that a norm works along: the last ones.
fn normalized_dims(g: &RecipeInput<'_>) -> Result<Vec<i64>, DecompositionRefusal> {
    let count = match g.attribute("normalized_shape") {
        Some(Value::Array(list)) => list.len(),
        Some(Value::Number(_)) => 1,
        _ => return Err(DecompositionRefusal::Whole("it has no shape")),
    };
    let count = i64::try_from(count).unwrap_or(0);
    Ok((-count..0).collect())
}

/// `1 / sqrt(mean(x^2) + eps)` along some dimensions.
fn add_inverse_root(
    p: &mut PartBuilder<'_>,
    x: GraphOperand,
    dims: &[i64],
    eps: f64,
) -> Result<GraphOperand, DecompositionRefusal> {
    let square = p.add_part("square", "mul", &[x.clone(), x])?;
    let along = OpCall::reduce("mean", dims.iter().copied(), true);
    let mean = p.add_part("mean_square", along, &[square])?;
    let shifted = p.add_part("shifted", "add", &[mean, GraphOperand::Number(eps)])?;
    p.add_part("scale", "rsqrt", &[shifted])
}

fn decompose_rms_norm(p: &mut PartBuilder<'_>, g: &RecipeInput<'_>) -> DecompositionResult {
    g.require_floats()?;
    let (dims, eps) = (normalized_dims(g)?, g.number_attribute("eps", 1e-5)?);
    let scale = add_inverse_root(p, g.operand(0), &dims, eps)?;
    let mut chain = DecompositionChain(vec![("mul", vec![scale])]);
    if g.operand_count() > 1 {
        chain.push_op("mul", Some(g.operand(1)));
    }
    chain.finish_chain(p, g.operand(0))
}

/// `x - mean(x)` along some dimensions.
fn subtract_mean(
    p: &mut PartBuilder<'_>,
    x: GraphOperand,
    dims: &[i64],
) -> Result<GraphOperand, DecompositionRefusal> {
    let along = OpCall::reduce("mean", dims.iter().copied(), true);
    let mean = p.add_part("mean", along, std::slice::from_ref(&x))?;
    p.add_part("centered", "sub", &[x, mean])
}

fn decompose_layer_norm(p: &mut PartBuilder<'_>, g: &RecipeInput<'_>) -> DecompositionResult {
    g.require_floats()?;
    let (dims, eps) = (normalized_dims(g)?, g.number_attribute("eps", 1e-5)?);
    let centered = subtract_mean(p, g.operand(0), &dims)?;
    let scale = add_inverse_root(p, centered.clone(), &dims, eps)?;
    let mut chain = DecompositionChain(vec![("mul", vec![scale])]);
    for (k, op) in [(1, "mul"), (2, "add")] {
        if g.operand_count() > k {
            chain.push_op(op, Some(g.operand(k)));
        }
    }
    chain.finish_chain(p, centered)
}

/// A vector of channels beside tensors of these extents, whose dimension 1 are the channels.
fn reshape_per_channel(
    p: &mut PartBuilder<'_>,
    x: GraphOperand,
    size: &[i64],
) -> Result<GraphOperand, DecompositionRefusal> {
    let wide: Vec<i64> = (0..size.len()).map(|d| if d == 1 { size[1] } else { 1 }).collect();
    p.add_part("channels", OpCall::reshape(wide), &[x])
}

fn decompose_group_norm(p: &mut PartBuilder<'_>, g: &RecipeInput<'_>) -> DecompositionResult {
    g.require_floats()?;
    let (size, eps) = (g.operand_size(0), g.number_attribute("eps", 1e-5)?);
    let groups = g.attribute("num_groups").and_then(Value::as_i64).unwrap_or(1);
    let grouped = p.add_part(
        "grouped",
        OpCall::reshape([size[0], groups, size[1..].iter().product::<i64>() / groups.max(1)]),
        &[g.operand(0)],
    )?;
    let centered = subtract_mean(p, grouped, &[-1])?;
    let scale = add_inverse_root(p, centered.clone(), &[-1], eps)?;
    let normal = p.add_part("normal", "mul", &[centered, scale])?;
    let mut at = p.add_part("ungrouped", OpCall::reshape(size), &[normal])?;
    let mut chain = DecompositionChain(Vec::new());
    for (k, op) in [(1, "mul"), (2, "add")] {
        if g.operand_count() > k {
            let by = reshape_per_channel(p, g.operand(k), size)?;
            chain.push_op(op, Some(by));
        }
    }
    // The last reshape would be the result, and a view has no memory of its own.
    if chain.0.is_empty() {
        at = p.add_part("whole", "clone", &[at])?;
    }
    chain.finish_chain(p, at)
}

fn decompose_batch_norm(p: &mut PartBuilder<'_>, g: &RecipeInput<'_>) -> DecompositionResult {
    g.require_floats()?;
    let (size, eps) = (g.operand_size(0), g.number_attribute("eps", 1e-5)?);
    let shifted = p.add_part("shifted", "add", &[g.operand(2), GraphOperand::Number(eps)])?;
    let mut scale = p.add_part("scale", "rsqrt", &[shifted])?;
    if g.operand_count() > 3 {
        scale = p.add_part("weighted", "mul", &[scale, g.operand(3)])?;
    }
    let (mean, scale) =
        (reshape_per_channel(p, g.operand(1), size)?, reshape_per_channel(p, scale, size)?);
    let mut chain = DecompositionChain(vec![("sub", vec![mean]), ("mul", vec![scale])]);
    if g.operand_count() > 4 {
        let bias = reshape_per_channel(p, g.operand(4), size)?;
        chain.push_op("add", Some(bias));
    }
    chain.finish_chain(p, g.operand(0))
}

/// One number for each dimension of an image.
fn image_pair_attribute(g: &RecipeInput<'_>, name: &str, default: i64) -> [i64; 2] {
    match g.attribute(name) {
        Some(Value::Array(list)) => {
            let at = |k: usize| list.get(k.min(list.len().saturating_sub(1)));
            [0, 1].map(|k| at(k).and_then(Value::as_i64).unwrap_or(default))
        }
        Some(n) => [n.as_i64().unwrap_or(default); 2],
        None => [default; 2],
    }
}

/// Windows over an image `[n, c, h, w]`.
struct SlidingImageWindows {
    kernel: [i64; 2],
    stride: [i64; 2],
    padding: [i64; 2],
    dilation: [i64; 2],
    out: [i64; 2],
}

impl SlidingImageWindows {
    fn count_positions(&self) -> i64 {
        self.kernel[0] * self.kernel[1]
    }

    /// The image with its border.
    fn pad_image(
        &self,
        p: &mut PartBuilder<'_>,
        x: GraphOperand,
        value: f64,
    ) -> Result<GraphOperand, DecompositionRefusal> {
        let [h, w] = self.padding;
        if [h, w] == [0, 0] {
            return Ok(x);
        }
        p.add_part("padded", OpCall::pad([w, w, h, h], value), &[x])
    }

    /// Element `(i, j)` of all windows, as an image of windows.
    fn slice_window_element(
        &self,
        p: &mut PartBuilder<'_>,
        x: &GraphOperand,
        at: [i64; 2],
    ) -> Result<GraphOperand, DecompositionRefusal> {
        let mut seen = x.clone();
        for (d, at) in at.into_iter().enumerate() {
            let start = at * self.dilation[d];
            let end = start + (self.out[d] - 1) * self.stride[d] + 1;
            let part = OpCall::slice_by(d + 2, start, end, self.stride[d]);
            seen = p.add_part("element", part, &[seen])?;
        }
        Ok(seen)
    }

    fn kernel_positions(&self) -> impl Iterator<Item = [i64; 2]> + use<> {
        let [rows, columns] = self.kernel;
        (0..rows).flat_map(move |i| (0..columns).map(move |j| [i, j]))
    }
}

/// A matrix product for every position of the kernel window, and their sum: rows are the positions of the image, and
/// channels are summed.
fn decompose_convolution(
    p: &mut PartBuilder<'_>,
    g: &RecipeInput<'_>,
    rank: usize,
) -> DecompositionResult {
    g.require_floats()?;
    let (x, w, result) = (g.operand_size(0), g.operand_size(1), g.result_size());
    let groups = g.attribute("groups").and_then(Value::as_i64).unwrap_or(1);
    let batched = x.len() == rank + 2;
    // One spatial dimension is an image of one row.
    let image = |size: &[i64]| match rank {
        1 => vec![size[0], size[1], 1, size[2]],
        _ => size.to_vec(),
    };
    let with_batch = |size: &[i64]| match batched {
        true => image(size),
        false => image(&[&[1], size].concat()),
    };
    let (wide, out, kernel) = (with_batch(x), with_batch(result), image(w));
    let numbers = |name: &str, default: i64, alone: i64| {
        let [a, b] = image_pair_attribute(g, name, default);
        if rank == 1 { [alone, a] } else { [a, b] }
    };
    let windows = SlidingImageWindows {
        kernel: [kernel[2], kernel[3]],
        stride: numbers("stride", 1, 1),
        padding: numbers("padding", 0, 0),
        dilation: numbers("dilation", 1, 1),
        out: [out[2], out[3]],
    };
    if windows.count_positions() * groups > MAX_WINDOW_OPS {
        return Err(DecompositionRefusal::Whole("its windows have more than 256 places"));
    }
    if x.contains(&0) || result.contains(&0) {
        return Err(DecompositionRefusal::Whole("it has no elements"));
    }
    let mut x = g.operand(0);
    if wide.len() != g.operand_size(0).len() {
        x = p.add_part("image", OpCall::reshape(&wide), &[x])?;
    }
    let mut weight = g.operand(1);
    if rank == 1 {
        weight = p.add_part("kernel", OpCall::reshape(&kernel), &[weight])?;
    }
    let x = windows.pad_image(p, x, 0.0)?;
    let (channels, made) = (wide[1] / groups, kernel[0] / groups);
    let places = windows.count_positions();
    let rows = out[0] * out[2] * out[3];
    let mut parts = Vec::new();
    for k in 0..groups {
        let (mut own, mut filter) = (x.clone(), weight.clone());
        if groups > 1 {
            let group = |n: i64, d: i64| OpCall::slice(d, k * n, (k + 1) * n);
            own = p.add_part("group", group(channels, 1), &[own])?;
            filter = p.add_part("filter", group(made, 0), &[filter])?;
        }
        let mut columns = Vec::new();
        for at in windows.kernel_positions() {
            let seen = windows.slice_window_element(p, &own, at)?;
            let last = p.add_part("last", OpCall::permute([0, 2, 3, 1]), &[seen])?;
            columns.push(p.add_part("place", OpCall::unsqueeze(0), &[last])?);
        }
        let columns = p.add_part("columns", OpCall::cat(0), &columns)?;
        let size = [places, rows, channels];
        let columns = p.add_part("rows", OpCall::reshape(size), &[columns])?;
        let turned = p.add_part("turned", OpCall::permute([2, 3, 1, 0]), &[filter])?;
        // A view of the transposed filters could not be reshaped into matrices: the elements have to be in row-major
        // order.
        let turned = p.add_part("filters", "clone", &[turned])?;
        let size = [places, channels, made];
        let turned = p.add_part("matrices", OpCall::reshape(size), &[turned])?;
        let products = p.add_part("products", "bmm", &[columns, turned])?;
        parts.push(p.add_part("sum", OpCall::new("sum").with("dim", 0), &[products])?);
    }
    let mut sum = match parts.len() {
        1 => parts.remove(0),
        _ => p.add_part("groups", OpCall::cat(1), &parts)?,
    };
    if g.operand_count() > 2 {
        sum = p.add_part("biased", "add", &[sum, g.operand(2)])?;
    }
    let size = [out[0], out[2], out[3], out[1]];
    let image = p.add_part("images", OpCall::reshape(size), &[sum])?;
    let mut turned = p.add_part("first", OpCall::permute([0, 3, 1, 2]), &[image])?;
    if out.len() != result.len() {
        turned = p.add_part("copied", "clone", &[turned])?;
        turned = p.add_part("result", OpCall::reshape(result), &[turned])?;
    }
    Ok(vec![p.add_result(0, "clone", &[turned])?])
}

/// The windows of a pooling of images, and whether there is a batch around them.
fn find_pooling_windows(
    g: &RecipeInput<'_>,
) -> Result<(SlidingImageWindows, Vec<i64>), DecompositionRefusal> {
    g.require_floats()?;
    let (x, out) = (g.operand_size(0), g.result_size());
    if x.contains(&0) || out.contains(&0) {
        return Err(DecompositionRefusal::Whole("it has no elements"));
    }
    if x.len() != 4 {
        return Err(DecompositionRefusal::Whole("its images have no batch"));
    }
    if g.flag_attribute("ceil_mode") {
        return Err(DecompositionRefusal::Whole("its last windows may leave the image"));
    }
    let kernel = image_pair_attribute(g, "kernel_size", 1);
    let mut stride = image_pair_attribute(g, "stride", 0);
    if stride == [0, 0] {
        stride = kernel;
    }
    let windows = SlidingImageWindows {
        kernel,
        stride,
        padding: image_pair_attribute(g, "padding", 0),
        dilation: image_pair_attribute(g, "dilation", 1),
        out: [out[2], out[3]],
    };
    if windows.count_positions() > MAX_WINDOW_OPS {
        return Err(DecompositionRefusal::Whole("its windows have more than 256 places"));
    }
    Ok((windows, x.to_vec()))
}

/// One operation over the elements of all windows.
fn fold_windows(
    p: &mut PartBuilder<'_>,
    windows: &SlidingImageWindows,
    x: &GraphOperand,
    op: &'static str,
) -> Result<GraphOperand, DecompositionRefusal> {
    let mut sum: Option<GraphOperand> = None;
    for at in windows.kernel_positions() {
        let seen = windows.slice_window_element(p, x, at)?;
        sum = Some(match sum {
            None => seen,
            Some(sum) => p.add_part("so_far", op, &[sum, seen])?,
        });
    }
    sum.ok_or(DecompositionRefusal::Whole("its windows are empty"))
}

fn decompose_max_pool(p: &mut PartBuilder<'_>, g: &RecipeInput<'_>) -> DecompositionResult {
    let (windows, _) = find_pooling_windows(g)?;
    let x = windows.pad_image(p, g.operand(0), LOWEST_FLOAT16)?;
    // The border is the lowest number, so that it is never the maximum of a window with an element of the image.
    let most = fold_windows(p, &windows, &x, "maximum")?;
    Ok(vec![p.add_result(0, "clone", &[most])?])
}

fn decompose_avg_pool(p: &mut PartBuilder<'_>, g: &RecipeInput<'_>) -> DecompositionResult {
    let (windows, _) = find_pooling_windows(g)?;
    let counts = g.attribute("count_include_pad").is_none_or(|v| v.as_bool() == Some(true));
    if windows.padding != [0, 0] && !counts {
        return Err(DecompositionRefusal::Whole("its windows at the border count fewer elements"));
    }
    let x = windows.pad_image(p, g.operand(0), 0.0)?;
    let sum = fold_windows(p, &windows, &x, "add")?;
    #[allow(clippy::cast_precision_loss, reason = "at most 256")]
    let part = GraphOperand::Number(1.0 / windows.count_positions() as f64);
    Ok(vec![p.add_result(0, "mul", &[sum, part])?])
}

/// The mean of every window; windows of one size are dimensions of a view.
fn decompose_adaptive_pool(p: &mut PartBuilder<'_>, g: &RecipeInput<'_>) -> DecompositionResult {
    g.require_floats()?;
    let (x, out) = (g.operand_size(0), g.result_size());
    let lead = x.len() - 2;
    if x.contains(&0) || out.contains(&0) {
        return Err(DecompositionRefusal::Whole("it has no elements"));
    }
    let (from, to) = ([x[lead], x[lead + 1]], [out[lead], out[lead + 1]]);
    // Windows of one size are dimensions of a view, so that the whole pooling is a single mean.
    if from[0] % to[0] == 0 && from[1] % to[1] == 0 {
        let split = [to[0], from[0] / to[0], to[1], from[1] / to[1]];
        let size = [&x[..lead], &split].concat();
        let cut = p.add_part("windows", OpCall::reshape(size), &[g.operand(0)])?;
        return Ok(vec![p.add_result(
            0,
            OpCall::new("mean").with("dim", [lead + 1, lead + 3]),
            &[cut],
        )?]);
    }
    if to[0] * to[1] > MAX_WINDOW_OPS {
        return Err(DecompositionRefusal::Whole("it has more than 256 windows of different sizes"));
    }
    let window = |d: usize, i: i64| {
        let (n, m) = (from[d], to[d]);
        OpCall::slice(lead + d, i * n / m, ((i + 1) * n + m - 1) / m)
    };
    let mut rows = Vec::new();
    for i in 0..to[0] {
        let band = p.add_part("band", window(0, i), &[g.operand(0)])?;
        let mut row = Vec::new();
        for j in 0..to[1] {
            let seen = p.add_part("window", window(1, j), std::slice::from_ref(&band))?;
            let along = OpCall::reduce("mean", [lead, lead + 1], true);
            row.push(p.add_part("mean", along, &[seen])?);
        }
        rows.push(p.add_part("row", OpCall::cat(lead + 1), &row)?);
    }
    Ok(vec![p.add_result(0, OpCall::cat(lead), &rows)?])
}
