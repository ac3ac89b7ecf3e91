//! An input: a tensor of a file, or a number.

use anyhow::{Context, Result};
use std::path::Path;
use zellige_device::{Card, MoveTraffic, Tensor};
use zellige_files::HostTensor;
use zellige_float::Dtype;
use zellige_layout::StridedLayout;
use zellige_op::NumberLiteral;
use zellige_stick::LayoutRequest;

pub(super) enum Operand {
    File(HostTensor),
    Number(String, NumberLiteral),
}

impl Operand {
    pub(super) fn open(text: &str) -> Result<Operand> {
        if let Some(literal) = NumberLiteral::parse(text)?
            && !Path::new(text).exists()
        {
            return Ok(Operand::Number(text.into(), literal));
        }
        Ok(Operand::File(HostTensor::parse(text)?))
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Operand::File(file) => file.info().name(),
            Operand::Number(text, _) => text,
        }
    }

    pub(super) fn upload(
        &self,
        card: &Card,
        dtype: Option<Dtype>,
        request: Option<&LayoutRequest>,
    ) -> Result<(Tensor, MoveTraffic)> {
        match self {
            Operand::Number(_, number) => {
                let host = (&StridedLayout::new_contiguous(&[])?, number.dtype());
                Ok(Tensor::upload_as(card, number.host_bytes(), host, number.dtype(), request)?)
            }
            Operand::File(file) => {
                let info = file.info();
                let dtype = dtype.unwrap_or(info.dtype());
                crate::card::upload(card, file, dtype, request).with_context(|| {
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
