//! `zellige upload`

use crate::card::{self, CardArgs, parse_layout_request};
use crate::common::{IntList, parse_list, print_json, print_text};
use crate::dma;
use crate::exit_code::ExitCode;
use crate::near_misses::parse_dtype;
use crate::profile::warn_of_narrowing;
use crate::progress::ProgressLine;
use anyhow::{Context, Result};
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;
use zellige_device::{StreamId, host_format};
use zellige_files::{ContainerKind as FileKind, HostTensor, NewTensor, write_tensor_file};
use zellige_float::{ConversionLoss, conversion_losses};
use zellige_machine::WorkKind;
use zellige_notation::make_visible;
use zellige_stick::LayoutRequest;
use zellige_stick::{PlannedTransfer, TransferDirection};

#[derive(clap::Args)]
#[command(after_help = "\
Times are simulated: they follow from the hardware preset and the plan of the transfer.

Examples:
  zellige upload weights.npy
  zellige upload model.safetensors --tensor layer.0.weight --stick 0
  zellige upload x.npy --dtype float16 --mode ieee --download back.npy
  zellige upload x.npy --layout 'SpyreTensorLayout(device_size=[2, 5, 64], stride_map=[64, 100, 1], \
device_dtype=DataFormats.SEN169_FP16)'")]
pub(crate) struct UploadArgs {
    /// A .npy, .npz or .safetensors file
    file: PathBuf,
    /// Which tensor of the file (default: the only one)
    #[arg(long)]
    tensor: Option<String>,
    /// The device layout: default, stick=DIM, order=0,1 or Spyre notation
    #[arg(long, value_name = "LAYOUT", conflicts_with_all = ["dim_order", "stick"])]
    layout: Option<String>,
    /// The order of dimensions of the device layout; a trailing -1 is sparse
    #[arg(long, value_parser = parse_list, allow_hyphen_values = true, conflicts_with = "stick")]
    dim_order: Option<IntList>,
    /// The dimension that sticks run along
    #[arg(long, value_name = "DIM", allow_hyphen_values = true)]
    stick: Option<i64>,
    /// The dtype on the device, by its PyTorch name (default: that of the file)
    #[arg(long)]
    dtype: Option<String>,
    #[command(flatten)]
    card: CardArgs,
    /// Download the tensor again and write it to a file
    #[arg(long, value_name = "OUT")]
    download: Option<PathBuf>,
    /// Write JSON instead of text
    #[arg(long)]
    json: bool,
}

impl UploadArgs {
    fn wanted_layout(&self) -> Result<Option<LayoutRequest>> {
        Ok(match (&self.layout, &self.dim_order, self.stick) {
            (Some(text), ..) => parse_layout_request(text).context("--layout")?,
            (_, Some(order), _) => Some(LayoutRequest::Order(order.0.clone())),
            (_, _, Some(dim)) => Some(LayoutRequest::Stick(dim)),
            _ => None,
        })
    }
}

pub(crate) fn run_upload(args: &UploadArgs) -> Result<ExitCode> {
    let card = args.card.card_builder()?.build()?;
    let request = args.wanted_layout()?;
    let file = HostTensor::open(&args.file, args.tensor.as_deref())?;
    let (info, host) = (file.info(), file.strided_layout()?);
    let dtype = args.dtype.as_deref().map_or(Ok(info.dtype()), parse_dtype).context("--dtype")?;
    let progress = ProgressLine::for_steps(if args.download.is_some() { 3 } else { 1 });
    progress.begin_step("uploading");
    let name = make_visible(info.name());
    let (tensor, moved) = card::upload_tensor(&card, &file, dtype, request.as_ref())
        .with_context(|| format!("tensor `{name}`, {} {:?}", info.dtype(), info.shape()))?;
    // One core: the transfer engine does the work, whatever the number of cores.
    let work = moved.device_work(format!("upload {name}"), WorkKind::Upload, 1);
    let up = card.account_work(StreamId::DEFAULT, &work)?;
    let mut down = None;
    if let Some(path) = &args.download {
        progress.begin_step("downloading");
        let kind = FileKind::from_path(path)?;
        let (bytes, moved) = tensor.download_with_traffic(dtype)?;
        progress.begin_step("writing");
        let new = NewTensor::new(info.name(), dtype, tensor.size());
        write_tensor_file(path, &[(new, &bytes)], kind)?;
        let work = moved.device_work(format!("download {name}"), WorkKind::Download, 1);
        down = Some(card.account_work(StreamId::DEFAULT, &work)?);
    }
    progress.finish_bar();
    warn_of_narrowing([&*tensor]);
    let lost = conversion_losses(host_format(info.dtype())?, tensor.format());
    let lost: Vec<String> = lost.iter().map(ConversionLoss::to_string).collect();
    // An empty tensor has nothing to describe.
    let transfer = if tensor.numel() == 0 {
        None
    } else {
        Some(PlannedTransfer::new(
            &host,
            tensor.stick_layout(),
            info.dtype(),
            TransferDirection::HostToDevice,
        )?)
    };
    let (layout, bytes, padding) =
        (tensor.stick_layout(), tensor.stick_layout().device_bytes()?, tensor.padding_bytes()?);
    #[allow(clippy::cast_precision_loss, reason = "a share to one digit")]
    let share = if bytes == 0 { 0.0 } else { 100.0 * padding as f64 / bytes as f64 };
    let address = tensor.block().address();
    if args.json {
        // A transfer of too many nests has no descriptor; the rest of the answer is still of use.
        let dci = transfer.as_ref().map(|t| t.build_descriptor("DCI-Tensor-0").ok());
        let value = json!({
            "tensor": info.name(), "dtype": info.dtype().name(), "shape": info.shape(),
            "stride": host.stride(), "host_bytes": info.byte_len(),
            "device_dtype": dtype.name(), "format": tensor.format().arithmetic_format().name(),
            "layout": layout.to_string(), "sticks": layout.count_sticks(), "bytes": bytes,
            "address": address, "padding_bytes": padding, "padding_percent": share,
            "losses": lost, "upload": up.cost, "download": down.map(|d| d.cost),
            "nests": transfer.as_ref().map(PlannedTransfer::named_nests), "dci": dci,
        });
        print_json(&value.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!(
        "host      {} {} {:?}, strides {:?}, {} bytes\n\
         device    {layout}\n\
         stored    {} sticks, {bytes} bytes at {address:#x}, elements as {}\n\
         padding   {padding} bytes, {share:.1}%\n\
         upload    {}\n",
        name,
        info.dtype(),
        info.shape(),
        host.stride(),
        info.byte_len(),
        layout.count_sticks(),
        tensor.format().arithmetic_format(),
        up.cost,
    );
    if let Some(down) = &down {
        let _ = writeln!(text, "download  {}", down.cost);
    }
    if !lost.is_empty() {
        let _ = writeln!(text, "lossy     {}", lost.join("; "));
    }
    if let Some(transfer) = &transfer {
        let _ = write!(text, "\n{}", dma::transfer_text(transfer)?);
    }
    print_text(&text)?;
    Ok(ExitCode::SUCCESS)
}
