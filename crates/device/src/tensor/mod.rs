//! Tensors on a card: a block, and the layout of elements in it.

pub(crate) mod core_copy;
pub(crate) mod format;
pub(crate) mod kept;
pub(crate) mod layout_need;
pub(crate) mod out_of_range;
mod padded_rows;
pub(crate) mod planned_move;
pub(crate) mod result_layout;
mod row_major_storage;
mod same_memory;
pub(crate) mod sticks;
pub(crate) mod tensor_layout;
pub(crate) mod transfer;
pub(crate) mod upload_layout;

use crate::card::Card;
use crate::error::Result;
use crate::memory::MemoryBlock;
use crate::tensor::format::default_layout;
use crate::tensor::tensor_layout::TensorLayout;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use zellige_float::Dtype;
use zellige_layout::StridedLayout;
use zellige_stick::StickLayout;

/// A tensor in device memory. Clones and views share the memory, which is freed with the last one.
///
/// Its [`TensorLayout`] says how elements are laid out, and everything that follows from that.
#[derive(Clone)]
pub struct Tensor {
    card: Card,
    block: MemoryBlock,
    /// Shared by clones, and by results of the same layout.
    laid: Arc<TensorLayout>,
}

impl Tensor {
    /// A tensor of zeros in a layout that is bound to its host.
    ///
    /// # Errors
    /// As [`TensorLayout::new`], and no room.
    pub fn zeros(card: &Card, dtype: Dtype, layout: &StickLayout) -> Result<Tensor> {
        let laid = TensorLayout::new(card.storage_policy(), dtype, layout)?;
        let bytes = usize::try_from(layout.device_bytes()?).unwrap_or(usize::MAX);
        let block = card.memory().alloc_block(bytes)?;
        Ok(Tensor { card: card.clone(), block, laid: Arc::new(laid) })
    }

    /// A tensor of zeros in a layout of the card that several tensors share.
    ///
    /// # Errors
    /// No room.
    pub fn with_shared_layout(card: &Card, laid: &Arc<TensorLayout>) -> Result<Tensor> {
        let bytes = usize::try_from(laid.stick_layout().device_bytes()?).unwrap_or(usize::MAX);
        Ok(Tensor {
            card: card.clone(),
            block: card.memory().alloc_block(bytes)?,
            laid: Arc::clone(laid),
        })
    }

    /// A tensor of zeros in the default layout of its size; float32 and int64 are stored in
    /// half of their bits unless the card keeps them.
    ///
    /// # Errors
    /// As [`Tensor::zeros`].
    pub fn empty(card: &Card, size: &[i64], dtype: Dtype) -> Result<Tensor> {
        Tensor::zeros(card, dtype, &default_layout(size, None, dtype, card.kept_dtypes())?)
    }

    /// The card it is on.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// Its memory.
    pub fn block(&self) -> &MemoryBlock {
        &self.block
    }

    /// Its layout.
    pub fn tensor_layout(&self) -> &TensorLayout {
        &self.laid
    }

    /// The same, shared.
    pub(crate) fn shared_layout(&self) -> &Arc<TensorLayout> {
        &self.laid
    }

    /// The tensor that it is a view of.
    #[must_use]
    pub fn base(&self) -> Tensor {
        if self.is_base() {
            return self.clone();
        }
        Tensor { laid: Arc::new(self.laid.base_layout()), ..self.clone() }
    }

    /// Another view of the same memory: `f` makes it from this one.
    ///
    /// # Errors
    /// As [`TensorLayout::view_layout`].
    pub fn view_with(
        &self,
        f: impl FnOnce(&StridedLayout) -> zellige_layout::Result<StridedLayout>,
    ) -> Result<Tensor> {
        Ok(Tensor { laid: Arc::new(self.laid.view_layout(f)?), ..self.clone() })
    }

    /// The view of this memory that a layout describes; whoever makes the same view many times shares one description.
    ///
    /// # Errors
    /// Layouts of another base, and views that leave the base.
    pub fn view_as(&self, view: &Arc<TensorLayout>) -> Result<Tensor> {
        self.laid.check_view(view)?;
        Ok(Tensor { laid: Arc::clone(view), ..self.clone() })
    }

    /// The same memory in the layout `laid`, which was made from the layout of this tensor.
    pub(crate) fn with_layout(&self, laid: &TensorLayout) -> Tensor {
        debug_assert_eq!(laid.stick_layout(), self.stick_layout(), "another tensor's view");
        Tensor { laid: Arc::new(laid.clone()), ..self.clone() }
    }

    /// The same bits under another dtype of the same width.
    ///
    /// # Errors
    /// As [`TensorLayout::reinterpreted_as`].
    pub fn reinterpret_as(&self, dtype: Dtype) -> Result<Tensor> {
        Ok(Tensor { laid: Arc::new(self.laid.reinterpreted_as(dtype)?), ..self.clone() })
    }
}

impl Deref for Tensor {
    type Target = TensorLayout;
    fn deref(&self) -> &TensorLayout {
        &self.laid
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (size, dtype, layout) = (self.size(), self.dtype(), self.stick_layout());
        write!(f, "Tensor({size:?}, {dtype}, {:?}, {layout})", self.block)
    }
}
