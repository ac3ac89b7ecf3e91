//! What kernels want of an operand's layout: whether it holds, what would make it hold, and why not.

use crate::error::{DeviceError, Result};
use crate::kernels::Want;
use crate::tensor::laid::Laid;
use crate::tensor::result_layout::{self, with_order};
use zellige_layout::{StickLayout, Strided};

impl Want {
    /// Whether a kernel takes a tensor as it lies; one without elements lies as anybody wants.
    pub fn fits(&self, tensor: &Laid) -> bool {
        if tensor.numel() == 0 {
            return true;
        }
        match (tensor.sticks(), self) {
            (_, Want::Any) | (Ok(_), Want::AsIs) => true,
            (Ok(f), Want::Along(d)) => {
                f.stick == Some(*d) || (f.size[*d] == 1 && f.stick.is_none())
            }
            (Ok(f), Want::Sparse) => f.stick.is_none(),
            (Ok(_), Want::Layout(l)) => tensor.is_base() && tensor.layout() == l,
            (Err(_), _) => false,
        }
    }

    /// The layout of a copy that fits.
    ///
    /// # Errors
    /// Sizes that no layout holds.
    pub fn layout(&self, tensor: &Laid) -> Result<StickLayout> {
        let host = Strided::contiguous(tensor.size())?;
        let format = tensor.layout().device_dtype();
        let plain: Vec<usize> = (0..host.rank()).collect();
        Ok(match self {
            Want::AsIs | Want::Any => StickLayout::default_in(tensor.size(), None, format)?,
            Want::Along(d) => {
                let order = plain.iter().filter(|k| *k != d).chain([d]);
                let order: Vec<i64> = order.map(|k| i64::try_from(*k).unwrap_or(0)).collect();
                StickLayout::with_dim_order_in(tensor.size(), None, format, &order)?
            }
            Want::Sparse => with_order(&host, &plain, None, format)?,
            Want::Layout(l) => l.clone(),
        })
    }

    /// Why a tensor that does not fit is moved before a kernel reads it.
    pub fn why(&self, tensor: &Laid) -> String {
        match (tensor.sticks(), self) {
            (Err(DeviceError::Irregular { reason, .. }), _) => reason,
            (Err(e), _) => e.to_string(),
            (Ok(_), Want::Sparse) => "each of its elements must have a stick of its own".into(),
            (Ok(form), want) => {
                let to = match want {
                    Want::Along(d) => Some(*d),
                    Want::Layout(l) => result_layout::form(l).ok().and_then(|f| f.stick),
                    _ => None,
                };
                match (form.stick, to, want) {
                    (Some(from), Some(to), _) if from != to => {
                        format!("its sticks run along dimension {from}, and along {to} they must")
                    }
                    (None, Some(to), _) => {
                        format!("it has one element in each stick, and sticks must run along {to}")
                    }
                    (_, _, Want::Layout(l)) => format!("it must lie as {:?}", l.device_size()),
                    _ => "it must lie in whole sticks".into(),
                }
            }
        }
    }
}
