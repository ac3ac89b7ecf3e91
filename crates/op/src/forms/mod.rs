//! What operations compute, with their attributes: one type per family, which infers results from operands.
//!
//! A form is data: kernels of a device compute it (`zellige-device`), and nothing here knows how.

mod attention;
mod cast;
mod convolution;
mod factory;
mod index;
mod lines;
mod masked;
mod moves;
mod pointwise;
mod pool;
mod product;
mod rearrange;
mod reduce;
mod sort;
mod window;

pub use attention::AttentionOp;
pub use cast::CastOp;
pub use convolution::ConvolutionOp;
pub use factory::{FactoryOp, FactoryValue};
pub use index::{CombineRule, IndexPattern, IndexRead, IndexShape, IndexSource, IndexWrite};
pub use lines::{
    LineForm, LineOperation, LineResults, NormKind, NormOp, ScanCarry, ScanOp, SoftmaxOp,
};
pub use masked::{MaskRule, MaskedOp};
pub use moves::{BorderFill, ConcatOp, MoveForm, MoveRule, PadOp, SliceScatterOp, resolve_axis};
pub use pointwise::{PointwiseOp, ResultDtype};
pub use pool::{PoolingKind, PoolingOp};
pub use product::{
    MatrixPairing, MatrixView, OperandRoles, ProductFactors, ProductKind, ProductOp,
};
pub use rearrange::{DiagOp, FlipOp, InterleaveOp, RepeatOp, RollOp};
pub use reduce::{ReduceOp, ReductionKind};
pub use sort::{PickOp, PickRule, QuantileInterpolation, QuantileOp};
pub use window::KernelWindow;

use crate::error::Result;
use crate::tensor_type::TensorType;

/// An operation by its family.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "each is named after its type")]
pub enum OpForm {
    Pointwise(PointwiseOp),
    Cast(CastOp),
    Factory(FactoryOp),
    Masked(MaskedOp),
    Product(ProductOp),
    Attention(AttentionOp),
    Convolution(ConvolutionOp),
    Pool(PoolingOp),
    IndexRead(IndexRead),
    IndexWrite(IndexWrite),
    Reduce(ReduceOp),
    Softmax(LineForm<SoftmaxOp>),
    Norm(LineForm<NormOp>),
    Scan(LineForm<ScanOp>),
    Pick(LineForm<PickOp>),
    Quantile(LineForm<QuantileOp>),
    Concat(MoveForm<ConcatOp>),
    SliceScatter(MoveForm<SliceScatterOp>),
    Pad(MoveForm<PadOp>),
    Flip(MoveForm<FlipOp>),
    Roll(MoveForm<RollOp>),
    Repeat(MoveForm<RepeatOp>),
    Interleave(MoveForm<InterleaveOp>),
    Diag(MoveForm<DiagOp>),
}

impl OpForm {
    /// Sizes and dtypes of the results.
    pub(crate) fn infer_types(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        match self {
            OpForm::Pointwise(op) => op.infer_types(inputs),
            OpForm::Cast(op) => op.infer_types(inputs),
            OpForm::Factory(op) => op.infer_types(inputs),
            OpForm::Masked(op) => op.infer_types(inputs),
            OpForm::Product(op) => op.infer_types(inputs),
            OpForm::Attention(op) => op.infer_types(inputs),
            OpForm::Convolution(op) => op.infer_types(inputs),
            OpForm::Pool(op) => op.infer_types(inputs),
            OpForm::IndexRead(op) => op.infer_types(inputs),
            OpForm::IndexWrite(op) => op.infer_types(inputs),
            OpForm::Reduce(op) => op.infer_types(inputs),
            OpForm::Softmax(op) => op.0.infer_types(inputs),
            OpForm::Norm(op) => op.0.infer_types(inputs),
            OpForm::Scan(op) => op.0.infer_types(inputs),
            OpForm::Pick(op) => op.0.infer_types(inputs),
            OpForm::Quantile(op) => op.0.infer_types(inputs),
            OpForm::Concat(op) => op.infer_types(inputs),
            OpForm::SliceScatter(op) => op.infer_types(inputs),
            OpForm::Pad(op) => op.infer_types(inputs),
            OpForm::Flip(op) => op.infer_types(inputs),
            OpForm::Roll(op) => op.infer_types(inputs),
            OpForm::Repeat(op) => op.infer_types(inputs),
            OpForm::Interleave(op) => op.infer_types(inputs),
            OpForm::Diag(op) => op.infer_types(inputs),
        }
    }
}
