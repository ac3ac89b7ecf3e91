//! The layout of a host tensor on the card, as a user writes it.

use crate::card::Card;
use crate::error::Result;
use crate::tensor::Tensor;
use crate::tensor::format::default_layout;
use crate::tensor::kept::KeptDtypes;
use crate::tensor::transfer::MoveTraffic;
use zellige_float::Dtype;
use zellige_layout::StridedLayout;
use zellige_stick::{LayoutRequest, StickLayout};

/// The layout for a host tensor that is stored as `dtype`; float32 and int64 are stored in half of their bits unless they
/// are kept. Without a request it is the default layout.
///
/// # Errors
/// Dtypes that the device does not store, and layouts that do not hold the tensor.
pub fn requested_layout(
    request: Option<&LayoutRequest>,
    host: &StridedLayout,
    dtype: Dtype,
    keep: KeptDtypes,
) -> Result<StickLayout> {
    let size = host.size();
    // A reversed host steps forward on the device, in row-major order.
    let forward = host.stride().iter().all(|s| *s >= 0);
    let own = if forward { Some(host.own_strides()?) } else { None };
    let default = default_layout(size, own.as_deref(), dtype, keep)?;
    let ordered = |order: &[i64]| {
        StickLayout::with_dim_order_in_format(size, own.as_deref(), default.device_dtype(), order)
    };
    Ok(match request {
        None => default,
        Some(LayoutRequest::Stick(dim)) => default.restickify_along(*dim)?,
        Some(LayoutRequest::Sparse) => ordered(&LayoutRequest::sparse_dim_order(size.len()))?,
        Some(LayoutRequest::Order(order)) => ordered(order)?,
        Some(LayoutRequest::Exactly(layout)) => layout.with_host(size, own.as_deref())?,
    })
}

impl Tensor {
    /// A tensor of `dtype` with the elements of a host tensor of the dtype `from`, as the request
    /// says.
    ///
    /// # Errors
    /// As [`Tensor::upload`]. Nothing is left behind.
    pub fn upload_as(
        card: &Card,
        bytes: &[u8],
        (host, from): (&StridedLayout, Dtype),
        dtype: Dtype,
        request: Option<&LayoutRequest>,
    ) -> Result<(Tensor, MoveTraffic)> {
        let layout = requested_layout(request, host, dtype, card.kept_dtypes())?;
        let tensor = Tensor::zeros(card, dtype, &layout)?;
        let moved = tensor.write_from(bytes, host, from)?;
        Ok((tensor, moved))
    }

    /// Bytes of its base that hold no element.
    ///
    /// # Errors
    /// None for a tensor that exists; the algebra checks its size anew.
    pub fn padding_bytes(&self) -> Result<u64> {
        let all = self.stick_layout().device_bytes()?.unsigned_abs();
        Ok(all.saturating_sub(self.base().valid_bytes()))
    }
}
