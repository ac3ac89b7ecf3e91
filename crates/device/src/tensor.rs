//! Tensors on a card: a block, the layout that says where elements lie in it, and a view.

use crate::card::Card;
use crate::error::{DeviceError, Result};
use crate::format::{default_layout, host_format};
use crate::memory::Block;
use crate::sticks::Sticks;
use std::fmt;
use zellige_float::Format;
use zellige_layout::{Dtype, Layout, StickLayout, Strided};

/// A tensor in device memory. Clones and views share the memory, which goes back with the last one.
///
/// The layout is that of the *base*, bound to its size and own strides; a view is described in those
/// strides, so that transposes, slices and expansions never move data.
#[derive(Clone)]
pub struct Tensor {
    card: Card,
    block: Block,
    layout: StickLayout,
    view: Strided,
    dtype: Dtype,
    format: Format,
}

impl Tensor {
    /// A tensor of zeros in a layout that is bound to its host.
    ///
    /// # Errors
    /// An unbound layout, a format that does not hold the dtype, no room.
    pub fn zeros(card: &Card, dtype: Dtype, layout: &StickLayout) -> Result<Tensor> {
        let Some(view) = layout.host().cloned() else {
            return Err(DeviceError::BadOperand {
                op: "a tensor".into(),
                operand: None,
                reason: "its layout is bound to no size; bind it with `with_host`".into(),
            });
        };
        host_format(dtype)?;
        let format = card.mode().stored(layout.device_dtype(), dtype)?;
        if view.numel() > 0 {
            // The places of every element, checked before memory is taken.
            layout.lower()?;
        }
        let bytes = usize::try_from(layout.bytes()?).unwrap_or(usize::MAX);
        let block = card.memory().alloc(bytes)?;
        Ok(Tensor { card: card.clone(), block, layout: layout.clone(), view, dtype, format })
    }

    /// A tensor of zeros in the default layout of its size; float32 is stored in 16 bits unless the
    /// card keeps it.
    ///
    /// # Errors
    /// As [`Tensor::zeros`].
    pub fn empty(card: &Card, size: &[i64], dtype: Dtype) -> Result<Tensor> {
        Tensor::zeros(card, dtype, &default_layout(size, None, dtype, card.keeps_fp32())?)
    }

    /// The card it is on.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// Its memory.
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// The layout of the tensor that it is a view of.
    pub fn layout(&self) -> &StickLayout {
        &self.layout
    }

    /// Size, strides and offset, in the own strides of [`Tensor::layout`].
    pub fn view(&self) -> &Strided {
        &self.view
    }

    /// The extents.
    pub fn size(&self) -> &[i64] {
        self.view.size()
    }

    /// The number of elements.
    pub fn numel(&self) -> i64 {
        self.view.numel()
    }

    /// The dtype that PyTorch sees.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The format of stored elements.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether it is the whole of its block.
    pub fn is_base(&self) -> bool {
        self.layout.host() == Some(&self.view)
    }

    /// The tensor that it is a view of.
    #[must_use]
    pub fn base(&self) -> Tensor {
        let view = self.layout.host().cloned().unwrap_or_else(|| self.view.clone());
        Tensor { view, ..self.clone() }
    }

    /// Another view of the same memory: `f` makes it from this one.
    ///
    /// # Errors
    /// What `f` refuses, and views that leave the base.
    pub fn viewed(
        &self,
        f: impl FnOnce(&Strided) -> zellige_layout::Result<Strided>,
    ) -> Result<Tensor> {
        let view = f(&self.view)?;
        let base = self.layout.host().and_then(Strided::address_range);
        if let Some(range) = view.address_range()
            && base.is_none_or(|b| range.min < b.min || range.max > b.max)
        {
            return Err(DeviceError::BadOperand {
                op: "a view".into(),
                operand: None,
                reason: format!(
                    "it reaches elements {} to {} of a tensor that has {}",
                    range.min,
                    range.max,
                    base.map_or("none".into(), |b| format!("{} to {}", b.min, b.max)),
                ),
            });
        }
        Ok(Tensor { view, ..self.clone() })
    }

    /// The same bits under another dtype that is stored in the same format.
    ///
    /// # Errors
    /// Where the device stores the two in different formats.
    pub fn reinterpret(&self, dtype: Dtype) -> Result<Tensor> {
        let format = self.card.mode().stored(self.layout.device_dtype(), dtype)?;
        if format != self.format {
            return Err(DeviceError::Unstored { format: self.layout.device_dtype(), dtype });
        }
        Ok(Tensor { dtype, ..self.clone() })
    }

    /// The layout of its elements in the block, in the algebra.
    ///
    /// # Errors
    /// Views that form no layout.
    pub fn places(&self) -> Result<Layout> {
        if self.is_base() {
            return Ok(self.layout.lower()?);
        }
        Ok(self.layout.view_layout(&self.view)?)
    }

    /// Its form for kernels.
    ///
    /// # Errors
    /// [`DeviceError::Irregular`] where kernels cannot read it as it lies.
    pub fn sticks(&self) -> Result<Sticks> {
        let form = Sticks::of(&self.layout, &self.view, self.format)?;
        Ok(Sticks { truth: self.dtype == Dtype::Bool, ..form })
    }

    /// Bytes of its elements in device memory, without padding.
    pub fn valid_bytes(&self) -> u64 {
        self.numel().unsigned_abs() * self.format.size() as u64
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({:?}, {}, {:?}, {})", self.size(), self.dtype, self.block, self.layout)
    }
}
