//! `zellige move`

mod move_side;

use crate::common::{IntList, parse_list, print_as};
use crate::exit_code::ExitCode;
use crate::near_misses::parse_dtype;
use crate::progress::ProgressLine;
use anyhow::{Context, Result, bail};
pub(crate) use move_side::side_layout;
use move_side::{MoveSide, parse_move_side};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;
use zellige_files::{
    Container, ContainerKind, ContainerWriter, DimensionOrder, FileMetadata, NewTensor, Relayout,
    StoredTensor, TensorInfo, VerifiedTensor,
};
use zellige_float::Dtype;
use zellige_float::{ConversionLoss, conversion_losses};
use zellige_movement::{FillElement, MoveDtypes, MovePlan, PaddingFill, PaddingValue};
use zellige_notation::make_visible;

#[derive(clap::Args)]
#[command(after_help = "\
A layout is a text in TIRx, PyTorch or Spyre notation, or `row-major`, `column-major` or `spyre`
(the default device layout of the shape). The output holds the memory image of the destination: for
row-major the tensor itself, for a device layout an array of its device size, else a flat array.

What holds no element (padding, gaps between strides, what lies in front of an offset) is filled with
a number, with `zero`, or with what is neutral for `sum` (zero), `max` (minus infinity, or the lowest
number) or `min`; `leave` writes nothing, which in a new file is zero.

Examples:
  zellige move weights.npy sticks.npy --to spyre
  zellige move sticks.npy back.npy --from spyre --shape 1024,256 --to row-major --verify
  zellige move scores.npy sticks.npy --to spyre --to-dtype float16 --fill max --verify
  zellige move model.safetensors out.npy --tensor layer.0.weight --to column-major
  zellige move model.safetensors half.safetensors --to row-major --to-dtype float16")]
pub(crate) struct MoveArgs {
    /// A .npy, .npz or .safetensors file
    input: PathBuf,
    /// The file to write
    output: PathBuf,
    /// The layout of the input (default: the one in the file's header)
    #[arg(long, value_name = "LAYOUT")]
    from: Option<String>,
    /// The layout of the output
    #[arg(long, value_name = "LAYOUT")]
    to: String,
    /// The logical shape (default: the shape of the input tensor)
    #[arg(long, value_parser = parse_list)]
    shape: Option<IntList>,
    /// Which tensor of the input, several times for several (default: all of them)
    #[arg(long)]
    tensor: Vec<String>,
    /// Convert the elements, by the PyTorch name of their new type
    #[arg(long, value_name = "DTYPE")]
    to_dtype: Option<String>,
    /// What padding and gaps hold: leave, zero, sum, max, min or a number
    #[arg(long, value_name = "FILL", default_value = "zero", allow_hyphen_values = true)]
    fill: String,
    /// Threads at most
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Memory for buffers in MiB, about; a larger compressed tensor is unpacked beside the output
    #[arg(long, default_value_t = 256)]
    memory: usize,
    /// Read the output back and compare every element and all padding with the input
    #[arg(long)]
    verify: bool,
    /// Write JSON instead of text, one line per tensor
    #[arg(long)]
    json: bool,
}

/// The move of one tensor: everything is known before anything is written.
struct MoveTask<'a> {
    info: &'a TensorInfo,
    shape: Vec<i64>,
    dtype: Dtype,
    from: MoveSide,
    to: MoveSide,
    plan: MovePlan,
    fill: Option<FillElement>,
    losses: Vec<ConversionLoss>,
}

impl<'a> MoveTask<'a> {
    fn new(args: &MoveArgs, info: &'a TensorInfo) -> Result<MoveTask<'a>> {
        let shape = args.shape.as_ref().map_or_else(|| info.shape().to_vec(), |l| l.0.clone());
        let dtype = args.to_dtype.as_deref().map_or(Ok(info.dtype()), parse_dtype);
        let dtype = dtype.context("--to-dtype")?;
        let losses = match MoveDtypes::between(info.dtype(), dtype).context("--to-dtype")? {
            MoveDtypes::Formats { from, to } => conversion_losses(from, to),
            MoveDtypes::Bytes(_) => Vec::new(),
        };
        let own = match info.dimension_order() {
            DimensionOrder::RowMajor => "row-major",
            DimensionOrder::ColumnMajor => "column-major",
        };
        let from = args.from.as_deref().unwrap_or(own);
        let from = parse_move_side(from, &shape, info.dtype()).context("--from")?;
        let to = parse_move_side(&args.to, &shape, dtype).context("--to")?;
        let padding = PaddingValue::parse(&args.fill).context("--fill")?;
        let fill = padding.element_for_dtype(dtype).context("--fill")?;
        // The fill is written slab by slab, around the elements.
        let plan = MovePlan::between(&from.layout, &to.layout, &shape, PaddingFill::Leave)?;
        // 128 bits, because a shape in a file may claim a product past 64 bits.
        let held: i128 = info.shape().iter().map(|n| i128::from(*n)).product();
        if i128::from(plan.src_len()) > held {
            bail!(
                "the layout --from reads {} elements, but tensor `{}` holds {held}",
                plan.src_len(),
                make_visible(info.name())
            );
        }
        Ok(MoveTask { info, shape, dtype, from, to, plan, fill, losses })
    }

    /// Whether the output holds more than elements.
    fn has_rest(&self) -> bool {
        let held: i128 = self.to.image.iter().map(|n| i128::from(*n)).product();
        let written: i128 = self.plan.nests().iter().map(|n| i128::from(n.element_count())).sum();
        written < held
    }

    fn make_relayout(&self, args: &MoveArgs) -> Relayout<'_> {
        Relayout {
            fill: self.fill.as_ref().map(|f| f.bytes.as_slice()),
            dtype: self.dtype,
            threads: args.threads.clamp(1, 256),
            memory: args.memory.max(1).saturating_mul(1 << 20),
        }
    }

    /// What was done, in one line, and what the conversion can change in another.
    fn outcome_text(&self, seconds: f64, verified: Option<VerifiedTensor>) -> String {
        let (from, to) = (self.info.dtype(), self.dtype);
        let arrow = if from == to { String::new() } else { format!("{to} ") };
        let checked = if verified.is_some() { ", read back and equal" } else { "" };
        let mut text = format!(
            "{}: {from} {:?} -> {arrow}{:?}, {} bytes in {seconds:.2} s{checked}",
            make_visible(self.info.name()),
            self.shape,
            self.to.image,
            self.info.byte_len(),
        );
        if let Some(fill) = self.fill.as_ref().filter(|f| f.value != 0.0)
            && self.has_rest()
        {
            text.push_str(&format!(", padding is {}", fill.value));
        }
        if !self.losses.is_empty() {
            let losses =
                self.losses.iter().map(ConversionLoss::to_string).collect::<Vec<_>>().join("; ");
            text.push_str(&format!("\nlossy: {losses}"));
            if let Some(v) = verified {
                text.push_str(&format!("; {} of {} elements changed", v.changed, v.elements));
            }
        } else if from != to {
            text.push_str(&format!("\nexact: {to} holds every {from}"));
        }
        text
    }

    fn outcome_json(&self, seconds: f64, verified: Option<VerifiedTensor>) -> String {
        let mut value = json!({
            "tensor": self.info.name(), "dtype": self.info.dtype().name(),
            "to_dtype": self.dtype.name(), "shape": self.shape, "image": self.to.image,
            "bytes": self.info.byte_len(), "seconds": seconds, "verified": verified.is_some(),
            "nests": self.plan.nests().len(),
            "losses": self.losses.iter().map(ConversionLoss::to_string).collect::<Vec<_>>(),
        });
        if let Some(v) = verified {
            value["changed"] = v.changed.into();
        }
        value.to_string()
    }
}

/// The tensors of these names, or all of them.
fn pick_tensors<'a>(container: &'a Container, names: &[String]) -> Result<Vec<&'a TensorInfo>> {
    if names.is_empty() {
        if container.tensors().len() + container.refused_entries().len() < 2 {
            return Ok(vec![container.only_tensor()?]);
        }
        if let Some((name, reason)) = container.refused_entries().first() {
            return Err(reason.clone()).with_context(|| {
                format!("`{}` is not moved; name the others with --tensor", make_visible(name))
            });
        }
        return Ok(container.tensors().iter().collect());
    }
    Ok(names.iter().map(|name| container.find_tensor(name)).collect::<Result<_, _>>()?)
}

pub(crate) fn run_move(args: &MoveArgs) -> Result<ExitCode> {
    zellige_calls::record_call!();
    let started = Instant::now();
    let container = Container::open(&args.input)?;
    let picked = pick_tensors(&container, &args.tensor)?;
    let several = picked.len() > 1;
    let task = |info| {
        let task = MoveTask::new(args, info);
        if several {
            task.with_context(|| format!("tensor `{}`", make_visible(info.name())))
        } else {
            task
        }
    };
    // All plans are made before the first byte is written: a refused tensor must not leave a file with the ones
    // before it.
    let tasks = picked.into_iter().map(task).collect::<Result<Vec<_>>>()?;
    // The output replaces the file of its name at the end, and by then the input could not be compared with it any
    // more.
    if is_same_file(&args.input, &args.output) {
        bail!("the input and the output are the same file");
    }
    let kind = ContainerKind::from_path(&args.output)?;
    let tensors: Vec<NewTensor> =
        tasks.iter().map(|t| NewTensor::new(t.info.name(), t.dtype, t.to.image.clone())).collect();
    let none = FileMetadata::new();
    let metadata = if kind == ContainerKind::Safetensors { container.metadata() } else { &none };
    let writer = ContainerWriter::create_with_metadata(&args.output, &tensors, kind, metadata)?;
    let bar = ProgressLine::for_bytes(writer.tensors().iter().map(TensorInfo::byte_len).sum());
    let mut written = 0;
    for (index, task) in tasks.iter().enumerate() {
        let advance = |done, _| bar.advance_to(written + done);
        task.make_relayout(args)
            .move_tensor(&container, task.info, &task.plan, &writer, index, advance)?;
        written += writer.tensors()[index].byte_len();
    }
    // Until here the output has no name, so that an error leaves what was there before.
    writer.finish_and_settle()?;
    bar.finish_bar();
    // Opened by its name, so that what is compared is what another program would read.
    let back = if args.verify { Some(Container::open(&args.output)?) } else { None };
    for (index, task) in tasks.iter().enumerate() {
        let verified = match &back {
            None => None,
            Some(file) => {
                let info = if several {
                    file.find_tensor(&tensors[index].name)?
                } else {
                    file.only_tensor()?
                };
                let source =
                    StoredTensor { file: &container, info: task.info, layout: &task.from.layout };
                let copy = StoredTensor { file, info, layout: &task.to.layout };
                Some(task.make_relayout(args).verify_written(source, copy, &task.shape)?)
            }
        };
        let seconds = started.elapsed().as_secs_f64();
        let report = if args.json { MoveTask::outcome_json } else { MoveTask::outcome_text };
        print_as(args.json, &report(task, seconds, verified))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        // Resolved, because a link or another spelling of the path is the same file.
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}
