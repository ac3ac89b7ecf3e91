//! An input: a tensor of a file, or a number.

use anyhow::{Context, Result};
use std::path::Path;
use zellige_device::{Card, MoveTraffic, Tensor};
use zellige_files::HostTensor;
use zellige_float::Dtype;
use zellige_layout::StridedLayout;
use zellige_op::NumberLiteral;
use zellige_stick::LayoutRequest;

pub(super) enum EagerOperand {
    File(HostTensor),
    Number(String, NumberLiteral),
}

impl EagerOperand {
    pub(super) fn open_operand(text: &str) -> Result<EagerOperand> {
        // A file may have a number as its name, and a user who has such a file means it.
        if let Some(literal) = NumberLiteral::parse(text)?
            && !Path::new(text).exists()
        {
            return Ok(EagerOperand::Number(text.into(), literal));
        }
        Ok(EagerOperand::File(HostTensor::parse(text)?))
    }

    pub(super) fn name(&self) -> &str {
        match self {
            EagerOperand::File(file) => file.info().name(),
            EagerOperand::Number(text, _) => text,
        }
    }

    pub(super) fn upload_operand(
        &self,
        card: &Card,
        dtype: Option<Dtype>,
        request: Option<&LayoutRequest>,
    ) -> Result<(Tensor, MoveTraffic)> {
        match self {
            EagerOperand::Number(_, number) => {
                let host = (&StridedLayout::new_contiguous(&[])?, number.dtype());
                // --dtype is about files: a number has the dtype that its spelling says, as in PyTorch.
                Ok(Tensor::upload_as(card, number.host_bytes(), host, number.dtype(), request)?)
            }
            EagerOperand::File(file) => {
                let info = file.info();
                let dtype = dtype.unwrap_or(info.dtype());
                crate::card::upload_tensor(card, file, dtype, request).with_context(|| {
                    let hint = if info.dtype() == Dtype::Float64 {
                        "; --dtype float32 converts it"
                    } else {
                        ""
                    };
                    format!("{} {:?}{hint}", info.dtype(), info.shape())
                })
            }
        }
    }
}
