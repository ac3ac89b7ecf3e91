//! Where a host tensor is to lie on the card, as people say it.

use crate::card::Card;
use crate::error::Result;
use crate::tensor::Tensor;
use crate::tensor::format::default_layout;
use crate::tensor::laid::Kept;
use crate::tensor::transfer::Moved;
use zellige_layout::{Dtype, StickLayout, Strided};

/// A device layout before its tensor is known.
#[derive(Debug, Clone, Default)]
pub enum LayoutChoice {
    /// The default layout of the tensor.
    #[default]
    Default,
    /// Dimensions in this order, the last one in sticks; a trailing -1 is sparse.
    DimOrder(Vec<i64>),
    /// The default layout with its sticks along this dimension.
    Stick(i64),
    /// Exactly this one.
    Explicit(StickLayout),
}

impl LayoutChoice {
    /// The layout for a host tensor that is stored as `dtype`; float32 and int64 are stored in
    /// half of their bits unless they are kept.
    ///
    /// # Errors
    /// Dtypes that the device does not store, and layouts that do not hold the tensor.
    pub fn bind(&self, host: &Strided, dtype: Dtype, keep: Kept) -> Result<StickLayout> {
        let size = host.size();
        // A reversed host steps forward on the device, in row-major order.
        let forward = host.stride().iter().all(|s| *s >= 0);
        let own = if forward { Some(host.own_strides()?) } else { None };
        let default = || default_layout(size, own.as_deref(), dtype, keep);
        Ok(match self {
            LayoutChoice::Default => default()?,
            LayoutChoice::Stick(dim) => default()?.restickified(*dim)?,
            LayoutChoice::DimOrder(order) => {
                let format = default()?.device_dtype();
                StickLayout::with_dim_order_in(size, own.as_deref(), format, order)?
            }
            LayoutChoice::Explicit(layout) => layout.with_host(size, own.as_deref())?,
        })
    }
}

impl Tensor {
    /// A tensor of `dtype` with the elements of a host tensor of the dtype `from`, where `choice`
    /// says.
    ///
    /// # Errors
    /// As [`Tensor::upload`]. Nothing is left behind.
    pub fn upload_as(
        card: &Card,
        bytes: &[u8],
        (host, from): (&Strided, Dtype),
        dtype: Dtype,
        choice: &LayoutChoice,
    ) -> Result<(Tensor, Moved)> {
        let layout = choice.bind(host, dtype, card.keeps())?;
        let tensor = Tensor::zeros(card, dtype, &layout)?;
        let moved = tensor.write_from(bytes, host, from)?;
        Ok((tensor, moved))
    }

    /// Bytes of its base that hold no element.
    ///
    /// # Errors
    /// None for a tensor that exists; the algebra checks its size anew.
    pub fn padding_bytes(&self) -> Result<u64> {
        let all = self.layout().bytes()?.unsigned_abs();
        Ok(all.saturating_sub(self.base().valid_bytes()))
    }
}
