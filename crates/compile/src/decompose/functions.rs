//! Operations that the card runs as one kernel and the form of its kernels has no function for: what they are made of.
//!
//! Programs keep these operations whole. Only who writes a program as the functions of the device
//! ([`emit`](crate::emit)) asks for their parts, which round their results as all parts do.

use super::recipe::{Given, Made, Parts, Recipe, Stop};
use serde_json::{Value, json};
use zellige_graph::GraphOperand;

/// The lowest number of float16: what lies around an image whose largest elements are asked for.
const LOWEST: f64 = -65504.0;
/// The most windows that become an operation each.
const MOST: i64 = 256;

/// How an operation becomes functions.
pub(crate) fn recipe(op: &str) -> Option<Recipe> {
    Some(match op {
        "add" => |p, g| scaled(p, g, "add"),
        "sub" => |p, g| scaled(p, g, "sub"),
        "rms_norm" => rms_norm,
        "layer_norm" => layer_norm,
        "group_norm" => group_norm,
        "batch_norm" => batch_norm,
        "conv1d" => |p, g| convolution(p, g, 1),
        "conv2d" => |p, g| convolution(p, g, 2),
        "max_pool2d" => max_pool,
        "avg_pool2d" => avg_pool,
        "adaptive_avg_pool2d" => adaptive_pool,
        _ => return None,
    })
}

/// The last of several operations in a row: each has the result of the one before it as its first operand.
struct Chain(Vec<(&'static str, Vec<GraphOperand>)>);

impl Chain {
    fn then(&mut self, op: &'static str, other: Option<GraphOperand>) {
        self.0.push((op, other.into_iter().collect()));
    }

    fn finish(self, p: &mut Parts<'_>, first: GraphOperand) -> Made {
        let mut at = first;
        let count = self.0.len();
        for (k, (op, rest)) in self.0.into_iter().enumerate() {
            let operands: Vec<GraphOperand> = [at].into_iter().chain(rest).collect();
            if k + 1 == count {
                return Ok(vec![p.last(0, op, &operands, Value::Null)?]);
            }
            at = p.part(op, op, &operands, Value::Null)?;
        }
        Ok(vec![p.last(0, "clone", &[at], Value::Null)?])
    }
}

/// `a + alpha b`, or `a - alpha b`.
fn scaled(p: &mut Parts<'_>, g: &Given<'_>, op: &str) -> Made {
    if g.number("alpha", 1.0)? == 1.0 {
        return Err(Stop::Whole("it is one function"));
    }
    let by = g.constant_of("alpha")?;
    let scaled = p.part("scaled", "mul", &[g.operand(1), by], Value::Null)?;
    Ok(vec![p.last(0, op, &[g.operand(0), scaled], Value::Null)?])
}

/// The dimensions that a norm works along: the last ones.
fn normalized(g: &Given<'_>) -> Result<Vec<i64>, Stop> {
    let count = match g.attribute("normalized_shape") {
        Some(Value::Array(list)) => list.len(),
        Some(Value::Number(_)) => 1,
        _ => return Err(Stop::Whole("it has no shape")),
    };
    let count = i64::try_from(count).unwrap_or(0);
    Ok((-count..0).collect())
}

/// `1 / sqrt(mean(x^2) + eps)` along some dimensions.
fn inverse_root(
    p: &mut Parts<'_>,
    x: GraphOperand,
    dims: &[i64],
    eps: f64,
) -> Result<GraphOperand, Stop> {
    let square = p.part("square", "mul", &[x.clone(), x], Value::Null)?;
    let along = json!({"dim": dims, "keepdim": true});
    let mean = p.part("mean_square", "mean", &[square], along)?;
    let shifted = p.part("shifted", "add", &[mean, GraphOperand::Number(eps)], Value::Null)?;
    p.part("scale", "rsqrt", &[shifted], Value::Null)
}

fn rms_norm(p: &mut Parts<'_>, g: &Given<'_>) -> Made {
    g.floats_only()?;
    let (dims, eps) = (normalized(g)?, g.number("eps", 1e-5)?);
    let scale = inverse_root(p, g.operand(0), &dims, eps)?;
    let mut chain = Chain(vec![("mul", vec![scale])]);
    if g.count() > 1 {
        chain.then("mul", Some(g.operand(1)));
    }
    chain.finish(p, g.operand(0))
}

/// `x - mean(x)` along some dimensions.
fn centered(p: &mut Parts<'_>, x: GraphOperand, dims: &[i64]) -> Result<GraphOperand, Stop> {
    let along = json!({"dim": dims, "keepdim": true});
    let mean = p.part("mean", "mean", std::slice::from_ref(&x), along)?;
    p.part("centered", "sub", &[x, mean], Value::Null)
}

fn layer_norm(p: &mut Parts<'_>, g: &Given<'_>) -> Made {
    g.floats_only()?;
    let (dims, eps) = (normalized(g)?, g.number("eps", 1e-5)?);
    let centered = centered(p, g.operand(0), &dims)?;
    let scale = inverse_root(p, centered.clone(), &dims, eps)?;
    let mut chain = Chain(vec![("mul", vec![scale])]);
    for (k, op) in [(1, "mul"), (2, "add")] {
        if g.count() > k {
            chain.then(op, Some(g.operand(k)));
        }
    }
    chain.finish(p, centered)
}

/// A vector of channels beside tensors of these extents, whose dimension 1 are the channels.
fn per_channel(p: &mut Parts<'_>, x: GraphOperand, size: &[i64]) -> Result<GraphOperand, Stop> {
    let wide: Vec<i64> = (0..size.len()).map(|d| if d == 1 { size[1] } else { 1 }).collect();
    p.part("channels", "reshape", &[x], json!({ "size": wide }))
}

fn group_norm(p: &mut Parts<'_>, g: &Given<'_>) -> Made {
    g.floats_only()?;
    let (size, eps) = (g.size(0), g.number("eps", 1e-5)?);
    let groups = g.attribute("num_groups").and_then(Value::as_i64).unwrap_or(1);
    let grouped = p.part(
        "grouped",
        "reshape",
        &[g.operand(0)],
        json!({"size": [size[0], groups, size[1..].iter().product::<i64>() / groups.max(1)]}),
    )?;
    let centered = centered(p, grouped, &[-1])?;
    let scale = inverse_root(p, centered.clone(), &[-1], eps)?;
    let normal = p.part("normal", "mul", &[centered, scale], Value::Null)?;
    let mut at = p.part("ungrouped", "reshape", &[normal], json!({ "size": size }))?;
    let mut chain = Chain(Vec::new());
    for (k, op) in [(1, "mul"), (2, "add")] {
        if g.count() > k {
            let by = per_channel(p, g.operand(k), size)?;
            chain.then(op, Some(by));
        }
    }
    if chain.0.is_empty() {
        at = p.part("whole", "clone", &[at], Value::Null)?;
    }
    chain.finish(p, at)
}

fn batch_norm(p: &mut Parts<'_>, g: &Given<'_>) -> Made {
    g.floats_only()?;
    let (size, eps) = (g.size(0), g.number("eps", 1e-5)?);
    let shifted =
        p.part("shifted", "add", &[g.operand(2), GraphOperand::Number(eps)], Value::Null)?;
    let mut scale = p.part("scale", "rsqrt", &[shifted], Value::Null)?;
    if g.count() > 3 {
        scale = p.part("weighted", "mul", &[scale, g.operand(3)], Value::Null)?;
    }
    let (mean, scale) = (per_channel(p, g.operand(1), size)?, per_channel(p, scale, size)?);
    let mut chain = Chain(vec![("sub", vec![mean]), ("mul", vec![scale])]);
    if g.count() > 4 {
        let bias = per_channel(p, g.operand(4), size)?;
        chain.then("add", Some(bias));
    }
    chain.finish(p, g.operand(0))
}

/// One number for each dimension of an image.
fn each(g: &Given<'_>, name: &str, default: i64) -> [i64; 2] {
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
struct Windows {
    kernel: [i64; 2],
    stride: [i64; 2],
    padding: [i64; 2],
    dilation: [i64; 2],
    out: [i64; 2],
}

impl Windows {
    fn count(&self) -> i64 {
        self.kernel[0] * self.kernel[1]
    }

    /// The image with what lies around it.
    fn padded(&self, p: &mut Parts<'_>, x: GraphOperand, value: f64) -> Result<GraphOperand, Stop> {
        let [h, w] = self.padding;
        if [h, w] == [0, 0] {
            return Ok(x);
        }
        p.part("padded", "pad", &[x], json!({"pad": [w, w, h, h], "value": value}))
    }

    /// Element `(i, j)` of all windows, as an image of windows.
    fn element(
        &self,
        p: &mut Parts<'_>,
        x: &GraphOperand,
        at: [i64; 2],
    ) -> Result<GraphOperand, Stop> {
        let mut seen = x.clone();
        for (d, at) in at.into_iter().enumerate() {
            let start = at * self.dilation[d];
            let end = start + (self.out[d] - 1) * self.stride[d] + 1;
            let part = json!({"dim": d + 2, "start": start, "end": end, "step": self.stride[d]});
            seen = p.part("element", "slice", &[seen], part)?;
        }
        Ok(seen)
    }

    fn places(&self) -> impl Iterator<Item = [i64; 2]> + use<> {
        let [rows, columns] = self.kernel;
        (0..rows).flat_map(move |i| (0..columns).map(move |j| [i, j]))
    }
}

/// A product for every place of the kernel, and their sum: rows are the places of the image, and channels are summed.
fn convolution(p: &mut Parts<'_>, g: &Given<'_>, rank: usize) -> Made {
    g.floats_only()?;
    let (x, w, result) = (g.size(0), g.size(1), g.result());
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
        let [a, b] = each(g, name, default);
        if rank == 1 { [alone, a] } else { [a, b] }
    };
    let windows = Windows {
        kernel: [kernel[2], kernel[3]],
        stride: numbers("stride", 1, 1),
        padding: numbers("padding", 0, 0),
        dilation: numbers("dilation", 1, 1),
        out: [out[2], out[3]],
    };
    if windows.count() * groups > MOST {
        return Err(Stop::Whole("its windows have more than 256 places"));
    }
    if x.contains(&0) || result.contains(&0) {
        return Err(Stop::Whole("it has no elements"));
    }
    let mut x = g.operand(0);
    if wide.len() != g.size(0).len() {
        x = p.part("image", "reshape", &[x], json!({ "size": wide }))?;
    }
    let mut weight = g.operand(1);
    if rank == 1 {
        weight = p.part("kernel", "reshape", &[weight], json!({ "size": kernel }))?;
    }
    let x = windows.padded(p, x, 0.0)?;
    let (channels, made) = (wide[1] / groups, kernel[0] / groups);
    let places = windows.count();
    let rows = out[0] * out[2] * out[3];
    let mut parts = Vec::new();
    for k in 0..groups {
        let (mut own, mut filter) = (x.clone(), weight.clone());
        if groups > 1 {
            let of = |n: i64, d: i64| json!({"dim": d, "start": k * n, "end": (k + 1) * n});
            own = p.part("group", "slice", &[own], of(channels, 1))?;
            filter = p.part("filter", "slice", &[filter], of(made, 0))?;
        }
        let mut columns = Vec::new();
        for at in windows.places() {
            let seen = windows.element(p, &own, at)?;
            let last = p.part("last", "permute", &[seen], json!({"dims": [0, 2, 3, 1]}))?;
            columns.push(p.part("place", "unsqueeze", &[last], json!({"dim": 0}))?);
        }
        let columns = p.part("columns", "cat", &columns, json!({"dim": 0}))?;
        let size = json!({"size": [places, rows, channels]});
        let columns = p.part("rows", "reshape", &[columns], size)?;
        let turned = p.part("turned", "permute", &[filter], json!({"dims": [2, 3, 1, 0]}))?;
        let turned = p.part("filters", "clone", &[turned], Value::Null)?;
        let size = json!({"size": [places, channels, made]});
        let turned = p.part("matrices", "reshape", &[turned], size)?;
        let products = p.part("products", "bmm", &[columns, turned], Value::Null)?;
        parts.push(p.part("sum", "sum", &[products], json!({"dim": 0}))?);
    }
    let mut sum = match parts.len() {
        1 => parts.remove(0),
        _ => p.part("groups", "cat", &parts, json!({"dim": 1}))?,
    };
    if g.count() > 2 {
        sum = p.part("biased", "add", &[sum, g.operand(2)], Value::Null)?;
    }
    let size = json!({"size": [out[0], out[2], out[3], out[1]]});
    let image = p.part("images", "reshape", &[sum], size)?;
    let mut turned = p.part("first", "permute", &[image], json!({"dims": [0, 3, 1, 2]}))?;
    if out.len() != result.len() {
        turned = p.part("copied", "clone", &[turned], Value::Null)?;
        turned = p.part("result", "reshape", &[turned], json!({ "size": result }))?;
    }
    Ok(vec![p.last(0, "clone", &[turned], Value::Null)?])
}

/// The windows of a pooling of images, and whether there is a batch around them.
fn pooled(g: &Given<'_>) -> Result<(Windows, Vec<i64>), Stop> {
    g.floats_only()?;
    let (x, out) = (g.size(0), g.result());
    if x.contains(&0) || out.contains(&0) {
        return Err(Stop::Whole("it has no elements"));
    }
    if x.len() != 4 {
        return Err(Stop::Whole("its images have no batch"));
    }
    if g.flag("ceil_mode") {
        return Err(Stop::Whole("its last windows may leave the image"));
    }
    let kernel = each(g, "kernel_size", 1);
    let mut stride = each(g, "stride", 0);
    if stride == [0, 0] {
        stride = kernel;
    }
    let windows = Windows {
        kernel,
        stride,
        padding: each(g, "padding", 0),
        dilation: each(g, "dilation", 1),
        out: [out[2], out[3]],
    };
    if windows.count() > MOST {
        return Err(Stop::Whole("its windows have more than 256 places"));
    }
    Ok((windows, x.to_vec()))
}

/// One operation over the elements of all windows.
fn over_windows(
    p: &mut Parts<'_>,
    windows: &Windows,
    x: &GraphOperand,
    op: &str,
) -> Result<GraphOperand, Stop> {
    let mut sum: Option<GraphOperand> = None;
    for at in windows.places() {
        let seen = windows.element(p, x, at)?;
        sum = Some(match sum {
            None => seen,
            Some(sum) => p.part("so_far", op, &[sum, seen], Value::Null)?,
        });
    }
    sum.ok_or(Stop::Whole("its windows are empty"))
}

fn max_pool(p: &mut Parts<'_>, g: &Given<'_>) -> Made {
    let (windows, _) = pooled(g)?;
    let x = windows.padded(p, g.operand(0), LOWEST)?;
    let most = over_windows(p, &windows, &x, "maximum")?;
    Ok(vec![p.last(0, "clone", &[most], Value::Null)?])
}

fn avg_pool(p: &mut Parts<'_>, g: &Given<'_>) -> Made {
    let (windows, _) = pooled(g)?;
    let counts = g.attribute("count_include_pad").is_none_or(|v| v.as_bool() == Some(true));
    if windows.padding != [0, 0] && !counts {
        return Err(Stop::Whole("its windows at the border count fewer elements"));
    }
    let x = windows.padded(p, g.operand(0), 0.0)?;
    let sum = over_windows(p, &windows, &x, "add")?;
    #[allow(clippy::cast_precision_loss, reason = "at most 256")]
    let part = GraphOperand::Number(1.0 / windows.count() as f64);
    Ok(vec![p.last(0, "mul", &[sum, part], Value::Null)?])
}

/// The mean of every window; windows of one size are dimensions of a view.
fn adaptive_pool(p: &mut Parts<'_>, g: &Given<'_>) -> Made {
    g.floats_only()?;
    let (x, out) = (g.size(0), g.result());
    let lead = x.len() - 2;
    if x.contains(&0) || out.contains(&0) {
        return Err(Stop::Whole("it has no elements"));
    }
    let (from, to) = ([x[lead], x[lead + 1]], [out[lead], out[lead + 1]]);
    if from[0] % to[0] == 0 && from[1] % to[1] == 0 {
        let split = [to[0], from[0] / to[0], to[1], from[1] / to[1]];
        let size = [&x[..lead], &split].concat();
        let cut = p.part("windows", "reshape", &[g.operand(0)], json!({ "size": size }))?;
        return Ok(vec![p.last(0, "mean", &[cut], json!({"dim": [lead + 1, lead + 3]}))?]);
    }
    if to[0] * to[1] > MOST {
        return Err(Stop::Whole("it has more than 256 windows of different sizes"));
    }
    let window = |d: usize, i: i64| {
        let (n, m) = (from[d], to[d]);
        json!({"dim": lead + d, "start": i * n / m, "end": ((i + 1) * n + m - 1) / m})
    };
    let mut rows = Vec::new();
    for i in 0..to[0] {
        let band = p.part("band", "slice", &[g.operand(0)], window(0, i))?;
        let mut row = Vec::new();
        for j in 0..to[1] {
            let seen = p.part("window", "slice", std::slice::from_ref(&band), window(1, j))?;
            let along = json!({"dim": [lead, lead + 1], "keepdim": true});
            row.push(p.part("mean", "mean", &[seen], along)?);
        }
        rows.push(p.part("row", "cat", &row, json!({"dim": lead + 1}))?);
    }
    Ok(vec![p.last(0, "cat", &rows, json!({"dim": lead}))?])
}
