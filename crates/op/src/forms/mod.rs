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

pub use attention::Attention;
pub use cast::Cast;
pub use convolution::Convolution;
pub use factory::{Factory, FactoryValue};
pub use index::{Combine, IndexPattern, IndexRead, IndexShape, IndexSource, IndexWrite};
pub use lines::{Carry, LineOperation, LineResults, Lines, Norm, NormKind, Scan, Softmax};
pub use masked::{MaskRule, Masked};
pub use moves::{Border, Concat, MoveRule, Moving, Pad, SliceScatter, axis};
pub use pointwise::{Pointwise, Yields};
pub use pool::{Pool, Pooled};
pub use product::{Factors, Meeting, Product, ProductKind, Roles, Turn};
pub use rearrange::{Diag, Flip, Interleave, Repeat, Roll};
pub use reduce::{Reduce, Reduction};
pub use sort::{Interpolation, Pick, Picked, Quantile};
pub use window::Window;

use crate::error::Result;
use crate::tensor_type::TensorType;

/// An operation by its family.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "each is named after its type")]
pub enum Form {
    Pointwise(Pointwise),
    Cast(Cast),
    Factory(Factory),
    Masked(Masked),
    Product(Product),
    Attention(Attention),
    Convolution(Convolution),
    Pool(Pool),
    IndexRead(IndexRead),
    IndexWrite(IndexWrite),
    Reduce(Reduce),
    Softmax(Lines<Softmax>),
    Norm(Lines<Norm>),
    Scan(Lines<Scan>),
    Pick(Lines<Pick>),
    Quantile(Lines<Quantile>),
    Concat(Moving<Concat>),
    SliceScatter(Moving<SliceScatter>),
    Pad(Moving<Pad>),
    Flip(Moving<Flip>),
    Roll(Moving<Roll>),
    Repeat(Moving<Repeat>),
    Interleave(Moving<Interleave>),
    Diag(Moving<Diag>),
}

impl Form {
    /// Sizes and dtypes of the results.
    pub(crate) fn infer(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        match self {
            Form::Pointwise(op) => op.infer(inputs),
            Form::Cast(op) => op.infer(inputs),
            Form::Factory(op) => op.infer(inputs),
            Form::Masked(op) => op.infer(inputs),
            Form::Product(op) => op.infer(inputs),
            Form::Attention(op) => op.infer(inputs),
            Form::Convolution(op) => op.infer(inputs),
            Form::Pool(op) => op.infer(inputs),
            Form::IndexRead(op) => op.infer(inputs),
            Form::IndexWrite(op) => op.infer(inputs),
            Form::Reduce(op) => op.infer(inputs),
            Form::Softmax(op) => op.0.infer(inputs),
            Form::Norm(op) => op.0.infer(inputs),
            Form::Scan(op) => op.0.infer(inputs),
            Form::Pick(op) => op.0.infer(inputs),
            Form::Quantile(op) => op.0.infer(inputs),
            Form::Concat(op) => op.infer(inputs),
            Form::SliceScatter(op) => op.infer(inputs),
            Form::Pad(op) => op.infer(inputs),
            Form::Flip(op) => op.infer(inputs),
            Form::Roll(op) => op.infer(inputs),
            Form::Repeat(op) => op.infer(inputs),
            Form::Interleave(op) => op.infer(inputs),
            Form::Diag(op) => op.infer(inputs),
        }
    }
}
