//! `zellige dma`

use crate::common::{List, parse_list, print, print_json};
use anyhow::{Result, anyhow, bail};
use clap::ValueEnum;
use serde_json::json;
use std::fmt::Write;
use std::process::ExitCode;
use zellige_float::Dtype;
use zellige_layout::{AxisTable, Strided};
use zellige_notation::parse;
use zellige_stick::StickLayout;
use zellige_stick::{Direction, Transfer};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Way {
    /// Host to device
    H2d,
    /// Device to host
    D2h,
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  zellige dma --size 1024,256 --dtype float16
  zellige dma --size 40,240 --dtype float16 --direction d2h --json
  zellige dma --size 40,60 --stride 120,1 --offset 60 --dtype float16
  zellige dma --size 512,256 --dtype float16 --dim-order 1,0")]
pub(crate) struct Args {
    /// Size of the host tensor
    #[arg(long, value_parser = parse_list)]
    size: List,
    /// Strides of the host tensor in elements (default: row-major)
    #[arg(long, value_parser = parse_list, allow_hyphen_values = true)]
    stride: Option<List>,
    /// First element of the host tensor
    #[arg(long, default_value_t = 0)]
    offset: i64,
    /// The element type, by its PyTorch name
    #[arg(long)]
    dtype: String,
    /// The device layout in Spyre notation (default: the default layout of the size)
    #[arg(long, value_name = "LAYOUT", conflicts_with = "dim_order")]
    layout: Option<String>,
    /// The order of dimensions of the device layout; a trailing -1 is sparse
    #[arg(long, value_parser = parse_list, allow_hyphen_values = true)]
    dim_order: Option<List>,
    /// Which way
    #[arg(long, value_enum, default_value_t = Way::H2d)]
    direction: Way,
    /// Write JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let size = &args.size.0;
    let stride = args.stride.as_ref().map(|l| l.0.clone());
    let host = match &stride {
        Some(stride) => Strided::new(size, stride, args.offset)?,
        None => Strided::new(size, Strided::contiguous(size)?.stride(), args.offset)?,
    };
    let dtype = Dtype::from_name(&args.dtype)?;
    let stick = match (&args.layout, &args.dim_order) {
        (Some(text), _) => {
            let parsed =
                parse(text, &AxisTable::new()).map_err(|d| anyhow!("{}", d.render(text, false)))?;
            let Some(stick) = parsed.stick() else { bail!("--layout takes SpyreTensorLayout(..)") };
            stick.with_host(size, stride.as_deref())?
        }
        (None, Some(order)) => {
            StickLayout::with_dim_order(size, Some(&host.own_strides()?), dtype, &order.0)?
        }
        (None, None) => StickLayout::default_in(
            size,
            Some(&host.own_strides()?),
            zellige_stick::DataFormat::on_device(dtype)?,
        )?,
    };
    let direction = match args.direction {
        Way::H2d => Direction::HostToDevice,
        Way::D2h => Direction::DeviceToHost,
    };
    let transfer = Transfer::new(&host, &stick, dtype, direction)?;
    if args.json {
        let dci = transfer.descriptor("DCI-Tensor-0")?;
        print_json(
            &json!({"layout": stick.to_string(), "nests": transfer.nests(), "dci": dci})
                .to_string(),
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    print(&format!("{stick}\n{}", text(&transfer)?))?;
    Ok(ExitCode::SUCCESS)
}

/// The loop nests of a transfer with both sides named, then its descriptor.
pub(crate) fn text(transfer: &Transfer) -> Result<String> {
    let mut text = format!("{}\n", transfer.plan());
    for nest in transfer.nests() {
        let _ = writeln!(
            text,
            "ranges {:?}  host strides {:?} from {}  device strides {:?} from {}",
            nest.ranges,
            nest.host_strides,
            nest.host_offset,
            nest.device_strides,
            nest.device_offset
        );
    }
    let dci = transfer.descriptor("DCI-Tensor-0")?;
    let _ = writeln!(text, "\n{}", serde_json::to_string_pretty(&dci)?);
    Ok(text)
}
