//! What kernels need of an operand's layout: whether a layout fits, which one would, and why one does not.

use crate::error::{DeviceError, Result};
use crate::kernels::LayoutNeed;
use crate::tensor::result_layout::{self, layout_in_order};
use crate::tensor::tensor_layout::TensorLayout;
use zellige_layout::StridedLayout;
use zellige_stick::StickLayout;

impl LayoutNeed {
    /// Whether a kernel takes a tensor in its layout; one without elements fits every need.
    pub fn accepts_layout(&self, tensor: &TensorLayout) -> bool {
        if tensor.numel() == 0 {
            return true;
        }
        match (tensor.stick_form(), self) {
            (_, LayoutNeed::Any) | (Ok(_), LayoutNeed::AsIs) => true,
            (Ok(f), LayoutNeed::Along(d)) => {
                f.stick == Some(*d) || (f.size[*d] == 1 && f.stick.is_none())
            }
            (Ok(f), LayoutNeed::Sparse) => f.stick.is_none(),
            (Ok(_), LayoutNeed::Layout(l)) => tensor.is_base() && tensor.stick_layout() == l,
            (Err(_), _) => false,
        }
    }

    /// The layout of a copy that fits.
    ///
    /// # Errors
    /// Sizes that no layout holds.
    pub fn fitting_layout(&self, tensor: &TensorLayout) -> Result<StickLayout> {
        let host = StridedLayout::new_contiguous(tensor.size())?;
        let format = tensor.stick_layout().device_dtype();
        let plain: Vec<usize> = (0..host.rank()).collect();
        Ok(match self {
            LayoutNeed::AsIs | LayoutNeed::Any => {
                StickLayout::default_in_format(tensor.size(), None, format)?
            }
            LayoutNeed::Along(d) => {
                let order = plain.iter().filter(|k| *k != d).chain([d]);
                let order: Vec<i64> = order.map(|k| i64::try_from(*k).unwrap_or(0)).collect();
                StickLayout::with_dim_order_in_format(tensor.size(), None, format, &order)?
            }
            LayoutNeed::Sparse => layout_in_order(&host, &plain, None, format)?,
            LayoutNeed::Layout(l) => l.clone(),
        })
    }

    /// Why a tensor that does not fit is moved before a kernel reads it.
    pub fn misfit_reason(&self, tensor: &TensorLayout) -> String {
        match (tensor.stick_form(), self) {
            (Err(DeviceError::Irregular { reason, .. }), _) => reason,
            (Err(e), _) => e.to_string(),
            (Ok(_), LayoutNeed::Sparse) => "the operation reads one element from each stick".into(),
            (Ok(form), want) => {
                let to = match want {
                    LayoutNeed::Along(d) => Some(*d),
                    LayoutNeed::Layout(l) => {
                        result_layout::bound_form(l).ok().and_then(|f| f.stick)
                    }
                    _ => None,
                };
                match (form.stick, to, want) {
                    (Some(from), Some(to), _) if from != to => {
                        format!(
                            "its sticks run along dimension {from}, and the operation reads them along \
                             dimension {to}"
                        )
                    }
                    (None, Some(to), _) => {
                        format!(
                            "it has one element in each stick, and the operation reads sticks along dimension {to}"
                        )
                    }
                    (_, _, LayoutNeed::Layout(l)) => {
                        format!("the operation reads it with device size {:?}", l.device_size())
                    }
                    _ => "the operation reads whole sticks".into(),
                }
            }
        }
    }
}
