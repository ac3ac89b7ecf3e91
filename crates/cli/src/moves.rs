//! `zellige move`

use crate::common::{List, parse_list, print};
use anyhow::{Context, Result, anyhow, bail};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use zellige_files::{Container, Kind, NewTensor, Order, Relayout, TensorInfo, Writer};
use zellige_layout::{AxisTable, Layout, Strided};
use zellige_movement::{Fill, Plan};
use zellige_notation::{Parsed, parse};

#[derive(clap::Args)]
#[command(after_help = "\
A layout is a text in TIRx, PyTorch or Spyre notation, or `row-major`, `column-major` or `spyre`
(the default device layout of the shape). The output holds the memory image of the destination: for
row-major the tensor itself, for a device layout an array of its device size, else a flat array.

Examples:
  zellige move weights.npy sticks.npy --to spyre
  zellige move sticks.npy back.npy --from spyre --shape 1024,256 --to row-major --verify
  zellige move model.safetensors out.npy --tensor layer.0.weight --to column-major")]
pub(crate) struct Args {
    /// A .npy, .npz or .safetensors file
    input: PathBuf,
    /// The file to write
    output: PathBuf,
    /// The layout of the input (default: as the file says)
    #[arg(long, value_name = "LAYOUT")]
    from: Option<String>,
    /// The layout of the output
    #[arg(long, value_name = "LAYOUT")]
    to: String,
    /// The logical shape (default: the shape of the input tensor)
    #[arg(long, value_parser = parse_list)]
    shape: Option<List>,
    /// Which tensor of the input (default: the only one)
    #[arg(long)]
    tensor: Option<String>,
    /// Threads at most
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Memory for buffers in MiB, about
    #[arg(long, default_value_t = 256)]
    memory: usize,
    /// Read the output back and compare every element with the input
    #[arg(long)]
    verify: bool,
    /// Write JSON instead of text
    #[arg(long)]
    json: bool,
}

/// A side of the move: its layout, and the shape of an array that holds its memory.
struct Side {
    layout: Layout,
    image: Vec<i64>,
}

fn side(text: &str, shape: &[i64], info: &TensorInfo) -> Result<Side> {
    let dense = |perm: fn(&[i64]) -> Vec<i64>| -> Result<Side> {
        Ok(Side {
            layout: Strided::new(shape, &perm(shape), 0)?.to_layout()?,
            image: shape.to_vec(),
        })
    };
    let flat = |layout: Layout| -> Result<Side> {
        let axis = layout.tile().axes().first().copied().unwrap_or(zellige_layout::Axis::M);
        let span = layout.padded().span(axis)?;
        Ok(Side { layout, image: vec![span] })
    };
    match text {
        "row-major" => dense(|s| strides(s, false)),
        "column-major" => {
            let side = dense(|s| strides(s, true))?;
            Ok(Side { image: vec![shape.iter().product()], ..side })
        }
        "spyre" => {
            let stick = zellige_layout::StickLayout::default(shape, info.dtype())?;
            Ok(Side { layout: stick.lower()?, image: stick.device_size().to_vec() })
        }
        text => {
            let parsed =
                parse(text, &AxisTable::new()).map_err(|d| anyhow!("{}", d.render(text, false)))?;
            let layout =
                parsed.layout(Some(shape)).map_err(|d| anyhow!("{}", d.render(text, false)))?;
            match &parsed {
                Parsed::Spyre(stick) => Ok(Side { layout, image: stick.device_size().to_vec() }),
                _ => flat(layout),
            }
        }
    }
}

/// Dense strides, last dimension fastest, or first.
fn strides(shape: &[i64], first_fastest: bool) -> Vec<i64> {
    let mut out = vec![1i64; shape.len()];
    let mut next = 1i64;
    let order: Vec<usize> =
        if first_fastest { (0..shape.len()).collect() } else { (0..shape.len()).rev().collect() };
    for d in order {
        out[d] = next;
        next = next.saturating_mul(shape[d].max(1));
    }
    out
}

fn pick<'a>(container: &'a Container, name: Option<&str>) -> Result<&'a TensorInfo> {
    Ok(match name {
        Some(name) => container.tensor(name)?,
        None => container.only()?,
    })
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let started = Instant::now();
    let container = Container::open(&args.input)?;
    let info = pick(&container, args.tensor.as_deref())?;
    let shape = args.shape.as_ref().map_or_else(|| info.shape().to_vec(), |l| l.0.clone());
    let own = match info.order() {
        Order::RowMajor => "row-major",
        Order::ColumnMajor => "column-major",
    };
    let from = side(args.from.as_deref().unwrap_or(own), &shape, info).context("--from")?;
    let to = side(&args.to, &shape, info).context("--to")?;
    let held: i128 = info.shape().iter().map(|n| i128::from(*n)).product();
    let plan = Plan::between(&from.layout, &to.layout, &shape, Fill::Padding)?;
    if i128::from(plan.src_len()) > held {
        bail!(
            "the layout --from reads {} elements, but tensor `{}` holds {held}",
            plan.src_len(),
            info.name()
        );
    }
    if same_file(&args.input, &args.output) {
        bail!("the input and the output are the same file");
    }
    let kind = Kind::from_path(&args.output)?;
    let writer = Writer::create(
        &args.output,
        &[NewTensor::new(info.name(), info.dtype(), to.image.clone())],
        kind,
    )?;
    let bar = bar(info.bytes());
    let relayout = Relayout {
        fill: None,
        threads: args.threads.clamp(1, 256),
        memory: args.memory.max(1).saturating_mul(1 << 20),
    };
    relayout.run(&container, info, &plan, &writer, 0, |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    })?;
    writer.finish()?;
    bar.finish_and_clear();
    if args.verify {
        verify(args, &container, info, &from, &to, &shape)?;
    }
    let (bytes, seconds) = (info.bytes(), started.elapsed().as_secs_f64());
    if args.json {
        let value = json!({
            "tensor": info.name(), "dtype": info.dtype().name(), "shape": shape, "image": to.image,
            "bytes": bytes, "seconds": seconds, "verified": args.verify, "nests": plan.nests().len(),
        });
        print(&value.to_string())?;
    } else {
        let checked = if args.verify { ", read back and equal" } else { "" };
        print(&format!(
            "{}: {} {shape:?} -> {:?}, {bytes} bytes in {seconds:.2} s{checked}",
            info.name(),
            info.dtype().name(),
            to.image
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Both files, moved to the row-major tensor they mean, compared part by part.
fn verify(
    args: &Args,
    container: &Container,
    info: &TensorInfo,
    from: &Side,
    to: &Side,
    shape: &[i64],
) -> Result<()> {
    let written = Container::open(&args.output)?;
    let copy = written.only()?;
    let flat = Strided::contiguous(shape)?.to_layout()?;
    let size = usize::try_from(flat.size())?;
    let width = usize::try_from(info.dtype().bits() / 8)?;
    let part = ((args.memory.max(1) << 20) / 4 / width).max(1);
    let plans = [
        (container, info, Plan::between(&from.layout, &flat, shape, Fill::Leave)?),
        (&written, copy, Plan::between(&to.layout, &flat, shape, Fill::Leave)?),
    ];
    let mut at = 0;
    while at < size {
        let end = (at + part).min(size);
        let mut sides = Vec::new();
        for (file, tensor, plan) in &plans {
            let clip = plan.clip(i64::try_from(at)?, i64::try_from(end)?);
            let (low, high) = clip.src_window();
            let clip = clip.with_source_at(low)?;
            let mut bytes = vec![0u8; usize::try_from(high - low)? * width];
            if tensor.data_offset().is_some() {
                file.source(tensor)?.read_at(&mut bytes, u64::try_from(low)? * width as u64)?;
            } else {
                let mut whole = vec![0u8; usize::try_from(tensor.bytes())?];
                file.reader(tensor)?.fill(&mut whole)?;
                let start = usize::try_from(low)? * width;
                let end = start + bytes.len();
                bytes.copy_from_slice(&whole[start..end]);
            }
            tensor.swap(&mut bytes);
            let mut out = vec![0u8; (end - at) * width];
            zellige_movement::Mover::new(&clip, width)?.run(&bytes, &mut out, None, 1)?;
            sides.push(out);
        }
        if let Some(i) = (0..sides[0].len()).find(|i| sides[0][*i] != sides[1][*i]) {
            let index = i64::try_from(at + i / width)?;
            bail!(
                "verify: element {:?} differs in {}",
                zellige_layout::unflatten(shape, index),
                args.output.display()
            );
        }
        at = end;
    }
    Ok(())
}

/// A bar that appears when the move takes longer than a second, on a terminal.
fn bar(bytes: u64) -> ProgressBar {
    let bar = ProgressBar::new(bytes);
    let style =
        ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.set_draw_target(indicatif::ProgressDrawTarget::stderr_with_hz(4));
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

fn same_file(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}
