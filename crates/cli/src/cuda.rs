//! `zellige cuda`

use crate::common::{IntList, parse_list, print_json, print_text};
use crate::exit_code::ExitCode;
use crate::moves::side_layout;
use crate::near_misses::parse_dtype;
use anyhow::{Context, Result, anyhow};
use serde_json::json;
use std::fmt::Write;
use zellige_cuda::analysis::{self, AccessTotals};
use zellige_cuda::{CudaProgram, Gpu, LaunchAlignment};
use zellige_movement::{MoveDtypes, MovePlan, PaddingFill, PaddingValue};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  zellige cuda --from row-major --to column-major --shape 4096,4096 --dtype float16
  zellige cuda --from row-major --to spyre --shape 1000,1001 --dtype float16 --fill zero
  zellige cuda --from row-major --to 'S[(64,64):(1,64)]' --shape 64,64 --dtype float32 --to-dtype bfloat16 --source-only
  zellige cuda --from row-major --to column-major --shape 16383,16381 --dtype float16 --align 2 --json")]
pub(crate) struct CudaArgs {
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
