//! The layout of a tensor that may have no memory yet.
//!
//! Everything that decides how an operation runs (which operands have to be moved, which layouts results have,
//! what it costs) is decided on this; memory comes last, so that a plan needs none.

use crate::card::mode::FloatMode;
use crate::error::refuse_operand;
use crate::error::{DeviceError, Result};
use crate::tensor::format::host_format;
use crate::tensor::kept::KeptDtypes;
use crate::tensor::sticks::StickForm;
use zellige_float::Dtype;
use zellige_float::Format;
use zellige_layout::{Layout, StridedLayout};
use zellige_op::TensorType;
use zellige_stick::{DataFormat, StickLayout};

/// What decides how tensors are stored by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct StoragePolicy {
    /// How 16-bit floats are encoded.
    pub mode: FloatMode,
    /// Which dtypes are stored with all their bits.
    pub keep: KeptDtypes,
}

/// The layout of a base, a view of it in the base's own strides, and what the elements are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TensorLayout {
    layout: StickLayout,
    view: StridedLayout,
    dtype: Dtype,
    format: Format,
    storage: StoragePolicy,
}

impl TensorLayout {
    /// A whole tensor in a layout that is bound to its host.
    ///
    /// # Errors
    /// An unbound layout, one that does not hold its tensor, a format that does not hold the dtype.
    pub fn new(storage: StoragePolicy, dtype: Dtype, layout: &StickLayout) -> Result<TensorLayout> {
        let Some(view) = layout.host().cloned() else {
            return Err(refuse_operand(
                "a tensor",
                None,
                "its layout is bound to no size; bind it with `with_host`",
            ));
        };
        host_format(dtype)?;
        let format = storage.mode.stored_format(layout.device_dtype(), dtype)?;
        if view.numel() > 0 {
            layout.lower_to_layout()?;
        }
        Ok(TensorLayout { layout: layout.clone(), view, dtype, format, storage })
    }

    /// The policy by which it is stored.
    pub fn storage_policy(&self) -> StoragePolicy {
        self.storage
    }

    /// The layout of the tensor that it is a view of.
    pub fn stick_layout(&self) -> &StickLayout {
        &self.layout
    }

    /// Size, strides and offset, in the strides of [`TensorLayout::stick_layout`].
    pub fn view(&self) -> &StridedLayout {
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

    /// Its extents and its dtype.
    pub fn tensor_type(&self) -> TensorType {
        TensorType { size: self.size().to_vec(), dtype: self.dtype }
    }

    /// The dtype that PyTorch sees.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The format of stored elements.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether it is the whole of its base.
    pub fn is_base(&self) -> bool {
        self.layout.host() == Some(&self.view)
    }

    /// The tensor that it is a view of.
    #[must_use]
    pub fn base_layout(&self) -> TensorLayout {
        let view = self.layout.host().cloned().unwrap_or_else(|| self.view.clone());
        TensorLayout { view, ..self.clone() }
    }

    /// Another view of the same base: `f` makes it from this one.
    ///
    /// # Errors
    /// What `f` refuses, and views that leave the base.
    pub fn view_layout(
        &self,
        f: impl FnOnce(&StridedLayout) -> zellige_layout::Result<StridedLayout>,
    ) -> Result<TensorLayout> {
        let view = f(&self.view)?;
        self.check_view_range(&view)?;
        Ok(TensorLayout { view, ..self.clone() })
    }

    /// Whether a layout is another view of the same base.
    ///
    /// # Errors
    /// Layouts of another base, and views that leave the base.
    pub(crate) fn check_view(&self, view: &TensorLayout) -> Result<()> {
        let same = self.layout == view.layout
            && self.layout.host() == view.layout.host()
            && (self.dtype, self.format, self.storage) == (view.dtype, view.format, view.storage);
        if !same {
            return Err(refuse_operand(
                "a view",
                None,
                "its layout describes the memory of another tensor",
            ));
        }
        self.check_view_range(&view.view)
    }

    /// Refuses a view of elements that the base does not have.
    fn check_view_range(&self, view: &StridedLayout) -> Result<()> {
        let base = self.layout.host().and_then(StridedLayout::address_range);
        if let Some(range) = view.address_range()
            && base.is_none_or(|b| range.min < b.min || range.max > b.max)
        {
            return Err(refuse_operand(
                "a view",
                None,
                format!(
                    "it reaches elements {} to {} of a tensor that has {}",
                    range.min,
                    range.max,
                    base.map_or("none".into(), |b| format!("{} to {}", b.min, b.max)),
                ),
            ));
        }
        Ok(())
    }

    /// The same bits under another dtype of the same width.
    ///
    /// # Errors
    /// Where the device stores one of the two in other bits than the host has for it.
    pub fn reinterpreted_as(&self, dtype: Dtype) -> Result<TensorLayout> {
        let format = if dtype == Dtype::Int64 || dtype == Dtype::Float32 {
            KeptDtypes::ALL.default_format(dtype)?
        } else {
            DataFormat::device_format_of(dtype)?
        };
        let stored = self.storage.mode.stored_format(format, dtype)?;
        let same_bits = host_format(self.dtype)? == self.format && host_format(dtype)? == stored;
        let same_width = self.dtype.bits() == dtype.bits();
        let sticks = format.elems_per_stick() == self.layout.device_dtype().elems_per_stick();
        if !(same_bits && same_width && sticks) {
            return Err(DeviceError::Unstored { format: self.layout.device_dtype(), dtype });
        }
        let layout = self.layout.with_device_format(format, None)?;
        Ok(TensorLayout { dtype, format: stored, layout, ..self.clone() })
    }

    /// The layout of its elements in the block, in the algebra.
    ///
    /// # Errors
    /// Views that form no layout.
    pub fn element_layout(&self) -> Result<Layout> {
        if self.is_base() {
            return Ok(self.layout.lower_to_layout()?);
        }
        Ok(self.layout.lower_view(&self.view)?)
    }

    /// Its form for kernels.
    ///
    /// # Errors
    /// [`DeviceError::Irregular`] where kernels cannot read it in its layout.
    pub fn stick_form(&self) -> Result<StickForm> {
        let form = StickForm::from_layout(&self.layout, &self.view, self.format)?;
        let (truth, float16) = (self.dtype == Dtype::Bool, self.dtype == Dtype::Float16);
        Ok(StickForm { truth, float16, ..form })
    }

    /// Bytes of its elements in device memory, without padding.
    pub fn valid_bytes(&self) -> u64 {
        self.numel().unsigned_abs() * self.format.byte_size() as u64
    }
}
