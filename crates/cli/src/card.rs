//! The simulated card that a subcommand works on, from the words of the command line.

use crate::profile::ProfileArgs;
use anyhow::{Context, Result, anyhow, bail};
use zellige_device::{Card, CardBuilder, MoveTraffic, Tensor, requested_layout};
use zellige_files::HostTensor;
use zellige_float::Dtype;
use zellige_layout::AxisTable;
use zellige_machine::{Hardware, parse_sencores};
use zellige_notation::{make_visible, parse};
use zellige_run::{NumberLoss, NumberLossKind};
use zellige_stick::LayoutRequest;

/// Which card, and how it stores floats.
#[derive(clap::Args)]
pub(crate) struct CardArgs {
    /// The hardware: card, card-2026-05, card-2026-09, ktir, or a preset of your own
    #[arg(long, default_value = "card", value_name = "NAME|FILE.toml")]
    hardware: String,
    /// How 16-bit floats are stored: dl16 as on the card, ieee to keep the bits of the host
    #[arg(long, default_value = "dl16")]
    mode: String,
    #[command(flatten)]
    profile: ProfileArgs,
}

/// How the work is divided.
#[derive(clap::Args)]
pub(crate) struct WorkArgs {
    /// Cores that work is divided over (default: SENCORES, else all)
    #[arg(long)]
    cores: Option<usize>,
}

impl CardArgs {
    pub(crate) fn card_builder(&self) -> Result<CardBuilder> {
        let hardware = Hardware::load_named(&self.hardware).context("--hardware")?;
        let mode = self.mode.parse().context("--mode")?;
        let (profile, keep) = (self.profile.card_profile()?, self.profile.kept_dtypes()?);
        Ok(Card::builder().hardware(hardware).float_mode(mode).profile(profile).keep_dtypes(keep))
    }
}

impl WorkArgs {
    pub(crate) fn configure_card(&self, builder: CardBuilder) -> Result<CardBuilder> {
        let cores = match (self.cores, std::env::var_os("SENCORES")) {
            // The flag wins over the variable: it is the more particular of the two.
            (Some(cores), _) => cores,
            (None, Some(value)) => parse_sencores(&value.to_string_lossy())?,
            (None, None) => return Ok(builder),
        };
        Ok(builder.core_count(cores))
    }
}

/// A device layout: `default` (no request), `stick=DIM`, `sparse`, `order=0,1` or Spyre notation.
pub(crate) fn parse_layout_request(text: &str) -> Result<Option<LayoutRequest>> {
    if text == "default" {
        return Ok(None);
    }
    if text == "sparse" {
        return Ok(Some(LayoutRequest::Sparse));
    }
    if let Some(dim) = text.strip_prefix("stick=") {
        let dim = dim.parse().map_err(|_| anyhow!("`{dim}` is no dimension; write stick=1"))?;
        return Ok(Some(LayoutRequest::Stick(dim)));
    }
    if let Some(order) = text.strip_prefix("order=") {
        let order = crate::common::parse_list(order).map_err(|e| anyhow!(e))?;
        return Ok(Some(LayoutRequest::Order(order.0)));
    }
    let parsed = parse(text, &AxisTable::new()).map_err(|d| {
        anyhow!(
            "{}\naccepted: default, stick=DIM, order=0,1 or SpyreTensorLayout(..)",
            d.render(text, false)
        )
    })?;
    let Some(layout) = parsed.stick_layout() else {
        bail!("a device layout is default, stick=DIM, order=0,1 or SpyreTensorLayout(..)");
    };
    Ok(Some(LayoutRequest::Exactly(layout.clone())))
}

/// A tensor of a file on the card; numbers that are past its format there are warned about. Its room is taken
/// before the file is read: what does not fit on the card is not brought into memory.
pub(crate) fn upload_tensor(
    card: &Card,
    file: &HostTensor,
    dtype: Dtype,
    request: Option<&LayoutRequest>,
) -> Result<(Tensor, MoveTraffic)> {
    let host = file.strided_layout()?;
    let layout = requested_layout(request, &host, dtype, card.kept_dtypes())?;
    // Zeroed rather than uninitialised, because padding that no element covers is moved and shown too.
    let tensor = Tensor::zeros(card, dtype, &layout)?;
    let (bytes, from) = (file.read_bytes()?, file.info().dtype());
    // The conversion to the card's format is a part of the move, so that the elements are read once.
    let moved = tensor.write_from(&bytes, &host, from)?;
    if let Some(past) = tensor.find_out_of_range(&bytes, &host, from)? {
        let kind = NumberLossKind::Past { value: past.value };
        let tensor = make_visible(file.info().name()).into_owned();
        let loss = NumberLoss { tensor, count: past.count, first: past.first, kind };
        eprintln!("warning: {loss}");
    }
    Ok((tensor, moved))
}
