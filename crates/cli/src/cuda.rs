//! `zellige cuda`

use crate::common::{IntList, LayoutArgs, parse_list, print_json, print_text};
use crate::exit_code::ExitCode;
use crate::moves::side_layout;
use crate::near_misses::parse_dtype;
use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};
use std::fmt::Write;
use zellige_cuda::analysis::{self, AccessTotals};
use zellige_cuda::{CudaProgram, Gpu, LaunchAlignment};
use zellige_movement::{MoveDtypes, MovePlan, PaddingFill, PaddingValue};
use zellige_notation::tirx::print_tirx;

#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  zellige cuda --from row-major --to column-major --shape 4096,4096 --dtype float16
  zellige cuda --from row-major --to spyre --shape 1000,1001 --dtype float16 --fill zero
  zellige cuda --from row-major --to 'S[(64,64):(1,64)]' --shape 64,64 --dtype float32 --to-dtype bfloat16 --source-only
  zellige cuda --from row-major --to column-major --shape 16383,16381 --dtype float16 --align 2 --json"
)]
pub(crate) struct CudaArgs {
    #[command(subcommand)]
    inside: Option<CudaCommand>,
    #[command(flatten)]
    kernel: Option<KernelArgs>,
}

#[derive(clap::Subcommand)]
enum CudaCommand {
    /// A conversion between two layouts of registers inside a thread block
    Convert(ConvertArgs),
}

#[derive(clap::Args)]
#[command(after_help = "\
The layouts are on laneid, warpid or wid_in_wg, tid, and m, whose coordinate is the number of a register. The
function takes and gives words of 32 bits with the elements of a thread in the order of its registers.

Examples:
  zellige cuda convert --from mma-m16n8k16-a --to mma-m16n8k16-a --dtype float16
  zellige cuda convert --from 'S[(32,4):(1@laneid,1)]' --to 'S[(8,4,4):(4@laneid,1,1@laneid)]' --shape 32,4 --dtype float32
  zellige cuda convert --from 'S[(32,4):(1@laneid,1)]' --to 'S[(8,4,4):(4@laneid,1,1@laneid)]' --shape 32,4 --dtype float32 --by shared")]
struct ConvertArgs {
    /// The layout that the threads hold, in any notation or a preset
    #[arg(long, value_name = "LAYOUT")]
    from: String,
    /// The layout that they need
    #[arg(long, value_name = "LAYOUT")]
    to: String,
    /// The shape of the tensor (default: that of the layouts)
    #[arg(long, value_parser = parse_list)]
    shape: Option<IntList>,
    /// The element type, by its PyTorch name
    #[arg(long)]
    dtype: String,
    /// Take this route instead of the cheapest: nothing, registers, shuffles or shared
    #[arg(long, value_name = "ROUTE")]
    by: Option<String>,
    /// Bytes of shared memory that may be used
    #[arg(long, value_name = "BYTES")]
    shared_bytes: Option<u32>,
    /// The name of the function
    #[arg(long, default_value = "convert_registers")]
    name: String,
    /// Print the function and nothing else
    #[arg(long, conflicts_with = "json")]
    source_only: bool,
    /// Write the answer of `zellige ask` as JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct KernelArgs {
    /// The layout of the source: row-major, column-major, spyre (sticks in the default order), or one in any notation
    #[arg(long, value_name = "LAYOUT")]
    from: String,
    /// The layout of the destination, written in the same way
    #[arg(long, value_name = "LAYOUT")]
    to: String,
    /// The shape of the tensor
    #[arg(long, value_parser = parse_list)]
    shape: IntList,
    /// The element type, by its PyTorch name
    #[arg(long)]
    dtype: String,
    /// The element type that is written, where it differs
    #[arg(long, value_name = "DTYPE")]
    to_dtype: Option<String>,
    /// What padding holds: leave, zero, sum, max, min or a number
    #[arg(long, default_value = "leave", allow_hyphen_values = true)]
    fill: String,
    /// Bytes that both addresses are multiples of: 1, 2, 4, 8 or 16
    #[arg(long, default_value_t = 16)]
    align: u64,
    /// Print the kernel and nothing else
    #[arg(long, conflicts_with = "json")]
    source_only: bool,
    /// Write JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run_cuda(args: &CudaArgs) -> Result<ExitCode> {
    match (&args.inside, &args.kernel) {
        (Some(CudaCommand::Convert(args)), _) => run_convert(args),
        (None, Some(args)) => run_kernel(args),
        (None, None) => Err(anyhow!(
            "`zellige cuda` needs --from, --to, --shape and --dtype, or `convert`; see `zellige cuda --help`"
        )),
    }
}

/// The layout of an argument as text of the algebra, and its shape.
fn load_fragment(text: &str, shape: Option<IntList>) -> Result<(String, Vec<i64>)> {
    let loaded = LayoutArgs::from_text(text, shape).load_layout()?;
    Ok((print_tirx(&loaded.layout), loaded.shape))
}

fn run_convert(args: &ConvertArgs) -> Result<ExitCode> {
    let (from, shape) = load_fragment(&args.from, args.shape.clone()).context("--from")?;
    let (to, _) = load_fragment(&args.to, Some(IntList(shape.clone()))).context("--to")?;
    let mut request = json!({
        "op": "block_convert", "from": from, "to": to, "shape": shape, "dtype": args.dtype, "name": args.name,
    });
    if let Some(by) = &args.by {
        request["route"] = json!(by);
    }
    if let Some(bytes) = args.shared_bytes {
        request["shared_bytes"] = json!(bytes);
    }
    let answer: Value = serde_json::from_str(&zellige_ask::answer_line(&request.to_string()))?;
    if let Some(fault) = answer.get("error") {
        return Err(anyhow!("{}", fault["message"].as_str().unwrap_or("")));
    }
    let plan = &answer["ok"];
    let code = plan["code"].as_str().unwrap_or("");
    if args.json {
        print_json(&plan.to_string())?;
    } else if args.source_only {
        print_text(code)?;
    } else {
        print_text(&describe_conversion(plan, code))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn describe_conversion(plan: &Value, code: &str) -> String {
    let n = |field: &str| plan[field].as_u64().unwrap_or(0);
    let mut text = format!("{code}\nroute        {}\n", plan["route"].as_str().unwrap_or(""));
    let _ = writeln!(
        text,
        "threads      {}, {} registers become {}",
        n("threads"),
        plan["registers"][0],
        plan["registers"][1]
    );
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<12} {value}");
    };
    if n("shuffles") > 0 {
        row("shuffles", format!("{} of a thread, at least {}", n("shuffles"), n("least_shuffles")));
    }
    for (field, what) in [("selects", "by the lane"), ("permutes", "of bytes")] {
        if n(field) > 0 {
            row(field, format!("{} of a thread, {what}", n(field)));
        }
    }
    let shared = &plan["shared"];
    if shared.is_object() {
        row(
            "wavefronts",
            format!("{} of all warps, at least {}", n("wavefronts"), n("least_wavefronts")),
        );
        row("memory", format!("{} bytes, {} barrier", n("shared_bytes"), n("barriers")));
        row(
            "vectors",
            format!("{} elements written, {} read", shared["write_vector"], shared["read_vector"]),
        );
        row("addresses", shared["addressing"]["kind"].as_str().unwrap_or("").to_string());
    }
    row("least", plan["least_because"].as_str().unwrap_or("not proved").to_string());
    text
}

fn run_kernel(args: &KernelArgs) -> Result<ExitCode> {
    let shape = &args.shape.0;
    let from = parse_dtype(&args.dtype)?;
    let to = args.to_dtype.as_deref().map_or(Ok(from), parse_dtype)?;
    let dtypes = MoveDtypes::between(from, to)?;
    let (src, dst) = (side_layout(&args.from, shape, from)?, side_layout(&args.to, shape, to)?);
    let element = PaddingValue::parse(&args.fill)
        .context("--fill")?
        .element_for_dtype(to)
        .context("--fill")?;
    let fill = if element.is_some() { PaddingFill::Padding } else { PaddingFill::Leave };
    let plan = MovePlan::between(&src, &dst, shape, fill)?;
    let align = LaunchAlignment::new(args.align, args.align)?;
    // The one GPU whose figures were measured for the cost model; the kernels run on others too.
    let gpu = &Gpu::H200;
    let bytes = element.as_ref().map(|e| e.bytes.as_slice());
    let program = CudaProgram::new(&plan, dtypes, bytes, align, gpu)?;
    if args.source_only {
        print_text(program.source_text())?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.json {
        print_json(&program_json(&program, gpu)?)?;
    } else {
        print_text(&program_text(&program, gpu)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Seconds that a copy of as many bytes takes.
fn copy_seconds(program: &CudaProgram, gpu: &Gpu) -> f64 {
    let (read, written) = program.moved_bytes();
    // The bandwidth is that of a copy, which reads and writes, so both count.
    (read as f64 + written as f64) / gpu.bandwidth
}

/// Seconds that the cost model expects, the launches included.
fn expected_seconds(program: &CudaProgram, gpu: &Gpu) -> f64 {
    let parts: f64 = program.pieces().iter().map(|p| p.seconds).sum();
    // Launches of one stream follow one another, so each adds its whole time.
    parts + gpu.launch_seconds * program.launches().len() as f64
}

fn program_text(program: &CudaProgram, gpu: &Gpu) -> Result<String> {
    let mut text = format!("{}\n", program.source_text());
    for l in program.launches() {
        let _ = writeln!(text, "{}: {} blocks of {} threads", l.name, l.grid, l.block);
    }
    let (read, written) = program.moved_bytes();
    let _ = writeln!(
        text,
        "{read} bytes read, {written} written; {:.1} us at the speed of a copy on {} ({:.2} TB/s, {}), {:.1} us expected by \
         the cost model",
        copy_seconds(program, gpu) * 1e6,
        gpu.name,
        gpu.bandwidth / 1e12,
        gpu.source,
        expected_seconds(program, gpu) * 1e6
    );
    for (k, piece) in program.pieces().iter().enumerate() {
        // One block stands for all, because the blocks of a part differ in their addresses and not in their pattern
        // of accesses, but for those at an edge.
        let block = analysis::analyze_first_block(&piece.part, program.readable_range())
            .map_err(|e| anyhow!(e))?;
        let _ = writeln!(
            text,
            "\npart {k} ({}), {} blocks; its first block:",
            piece.kind, piece.part.blocks
        );
        for a in &block.accesses {
            let _ = writeln!(text, "  {}", a.summary_line());
        }
        text.push_str(&block.draw_first_warp());
    }
    Ok(text)
}

fn program_json(program: &CudaProgram, gpu: &Gpu) -> Result<String> {
    let access = |a: &AccessTotals| {
        json!({
            "space": format!("{:?}", a.space).to_lowercase(), "store": a.store, "bytes_per_lane": a.bytes,
            "count": a.count, "found": a.found, "least": a.least,
        })
    };
    let mut parts = Vec::new();
    for piece in program.pieces() {
        let block = analysis::analyze_first_block(&piece.part, program.readable_range())
            .map_err(|e| anyhow!(e))?;
        parts.push(json!({
            "kind": piece.kind, "blocks": piece.part.blocks, "shared_bytes": piece.part.shared,
            "accesses_of_first_block": block.accesses.iter().map(access).collect::<Vec<_>>(),
        }));
    }
    let launches = program.launches().iter();
    let launches = launches.map(|l| json!({"name": l.name, "grid": l.grid, "block": l.block}));
    let (read, written) = program.moved_bytes();
    Ok(json!({
        "source": program.source_text(), "launches": launches.collect::<Vec<_>>(),
        "bytes_read": read, "bytes_written": written, "gpu": gpu.name, "figures": gpu.source,
        "copy_seconds": copy_seconds(program, gpu), "expected_seconds": expected_seconds(program, gpu),
        "parts": parts,
    })
    .to_string())
}
