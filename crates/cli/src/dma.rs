//! `zellige dma`

use crate::common::{IntList, parse_list, print_json, print_text};
use crate::exit_code::ExitCode;
use crate::near_misses::parse_dtype;
use anyhow::{Result, anyhow, bail};
use clap::ValueEnum;
use serde_json::json;
use std::fmt::Write;
use zellige_layout::{AxisTable, StridedLayout};
use zellige_notation::parse;
use zellige_notation::spyre::print_with_given_host;
use zellige_stick::StickLayout;
use zellige_stick::{PlannedTransfer, TransferDirection};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DmaDirection {
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
  zellige dma --size 512,256 --dtype float16 --dim-order 1,0
  zellige dma --size 100,200,500 --dtype float16 --layout 'SpyreTensorLayout(device_size=[256, 8, 128, 64], \
    stride_map =[512, 64, 131072, 1], device_dtype=DataFormats.SEN169_FP16)'")]
pub(crate) struct DmaArgs {
    /// Size of the host tensor (default: the host_size of --layout)
    #[arg(long, value_parser = parse_list)]
    size: Option<IntList>,
    /// Strides of the host tensor in elements (default: the host_stride of --layout, else row-major)
    #[arg(long, value_parser = parse_list, allow_hyphen_values = true)]
    stride: Option<IntList>,
    /// First element of the host tensor
    #[arg(long, default_value_t = 0)]
    offset: i64,
    /// The element type, by its PyTorch name
    #[arg(long)]
    dtype: String,
    /// The device layout in Spyre notation (default: the default layout of the size); its stride_map is read
    /// in its host_stride where it has one
    #[arg(long, value_name = "LAYOUT", conflicts_with = "dim_order")]
    layout: Option<String>,
    /// The order of dimensions of the device layout; a trailing -1 is sparse
    #[arg(long, value_parser = parse_list, allow_hyphen_values = true)]
    dim_order: Option<IntList>,
    /// Which way
    #[arg(long, value_enum, default_value_t = DmaDirection::H2d)]
    direction: DmaDirection,
    /// Write JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run_dma(args: &DmaArgs) -> Result<ExitCode> {
    let given = args.layout.as_deref().map(read_stick_layout).transpose()?;
    let bound = given.as_ref().and_then(StickLayout::host);
    let size = match (&args.size, bound) {
        (Some(size), Some(host)) if size.0 != host.size() => {
            bail!("--size is {:?}, and the layout has host_size={:?}", size.0, host.size())
        }
        (Some(size), _) => &size.0[..],
        (None, Some(host)) => host.size(),
        (None, None) => {
            bail!("the size is missing: give --size, or a --layout with host_size=[..]")
        }
    };
    let stride = args.stride.as_ref().map(|l| l.0.clone());
    // A layout that was printed with its host tensor has the strides that its stride_map was made for.
    let stride = stride.or_else(|| bound.map(|h| h.stride().to_vec()));
    let host = match &stride {
        Some(stride) => StridedLayout::new(size, stride, args.offset)?,
        None => {
            StridedLayout::new(size, StridedLayout::new_contiguous(size)?.stride(), args.offset)?
        }
    };
    let dtype = parse_dtype(&args.dtype)?;
    let stick = match (&given, &args.dim_order) {
        (Some(stick), _) if bound.is_some() => stick.clone(),
        (Some(stick), _) => stick.with_host(size, stride.as_deref())?,
        (None, Some(order)) => {
            // Strides without the offset, because a device layout depends on the order of dimensions in the host
            // tensor and not on where that begins.
            StickLayout::with_dim_order(size, Some(&host.own_strides()?), dtype, &order.0)?
        }
        (None, None) => StickLayout::default_in_format(
            size,
            Some(&host.own_strides()?),
            zellige_stick::DataFormat::device_format_of(dtype)?,
        )?,
    };
    let direction = match args.direction {
        DmaDirection::H2d => TransferDirection::HostToDevice,
        DmaDirection::D2h => TransferDirection::DeviceToHost,
    };
    let transfer = PlannedTransfer::new(&host, &stick, dtype, direction)?;
    if args.json {
        let dci = transfer.build_descriptor("DCI-Tensor-0")?;
        print_json(
            &json!({"layout": print_with_given_host(&stick), "nests": transfer.named_nests(), "dci": dci})
                .to_string(),
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    print_text(&format!("{}\n{}", print_with_given_host(&stick), transfer_text(&transfer)?))?;
    Ok(ExitCode::SUCCESS)
}

fn read_stick_layout(text: &str) -> Result<StickLayout> {
    let parsed =
        parse(text, &AxisTable::new()).map_err(|d| anyhow!("{}", d.render(text, false)))?;
    match parsed.stick_layout() {
        Some(stick) => Ok(stick.clone()),
        None => bail!("--layout takes SpyreTensorLayout(..)"),
    }
}

/// Nests that a text lists; JSON has them all.
// A nest is printed in two lines, so a longer list is no longer read by a person.
const MOST_LINES: usize = 256;

/// The loop nests of a transfer with both sides named, then its descriptor.
pub(crate) fn transfer_text(transfer: &PlannedTransfer) -> Result<String> {
    let nests = transfer.named_nests();
    if nests.len() > MOST_LINES {
        return Ok(format!(
            "{}\n{} nests with one start each, which are not listed, and neither is the descriptor; \
             --json has them all\n",
            transfer.plan(),
            nests.len()
        ));
    }
    let mut text = format!("{}\n", transfer.plan());
    for nest in nests {
        let _ = writeln!(
            text,
            "ranges {:?}  host strides {:?} from {}  device strides {:?} from {}",
            nest.ranges,
            nest.host_strides,
            nest.host_offset,
            nest.device_strides,
            nest.device_offset
        );
        let _ = writeln!(
            text,
            "  (ranges, device strides, host strides) = {}",
            nest.print_as_documented()
        );
    }
    let dci = transfer.build_descriptor("DCI-Tensor-0")?;
    let _ = writeln!(text, "\n{}", serde_json::to_string_pretty(&dci)?);
    Ok(text)
}
