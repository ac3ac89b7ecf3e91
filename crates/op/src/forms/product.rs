//! Matrix products: every one as batches of `C[m, n] = A[m, k] B[k, n]`.

use crate::dtype::is_float;
use crate::error::{Result, refuse_operand};
use crate::promotion::broadcast_sizes;
use crate::tensor_type::TensorType;
use zellige_float::Dtype;

/// A kind of product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProductKind {
    /// PyTorch's `matmul`: vectors are rows or columns, further dimensions are batches.
    Matmul,
    /// Two matrices.
    Mm,
    /// Two batches of matrices, of one length.
    Bmm,
    /// A matrix and a vector.
    Mv,
    /// Two vectors.
    Dot,
    /// The last dimensions of two tensors, all others broadcast.
    Vecdot,
    /// All pairs of elements of two vectors.
    Outer,
    /// Rows of any rank times the transpose of a matrix `[n, k]`.
    Linear,
}

/// What makes a matrix of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatrixView {
    /// It is one.
    Keep,
    /// A last dimension is a row: `[.., k]` is `[.., 1, k]`.
    Row,
    /// A last dimension is a column: `[.., k]` is `[.., k, 1]`.
    Column,
    /// The last two dimensions change places.
    Transpose,
}

impl MatrixView {
    /// The size of the matrix.
    pub fn matrix_size(self, size: &[i64]) -> Vec<i64> {
        let mut size = size.to_vec();
        let rank = size.len();
        match self {
            MatrixView::Keep => {}
            MatrixView::Row => size.insert(rank - 1, 1),
            MatrixView::Column => size.push(1),
            MatrixView::Transpose => size.swap(rank - 2, rank - 1),
        }
        size
    }

    /// Which dimension of the operand is dimension `rank - 2` (0) or `rank - 1` (1) of the matrix.
    pub fn source_dim(self, rank: usize, which: usize) -> Option<usize> {
        match (self, which) {
            (MatrixView::Keep, _) => Some(rank - 2 + which),
            (MatrixView::Transpose, _) => Some(rank - 1 - which),
            (MatrixView::Row, 1) | (MatrixView::Column, 0) => Some(rank - 1),
            _ => None,
        }
    }
}

/// How two operands are paired as matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatrixPairing {
    pub a: MatrixView,
    pub b: MatrixView,
    /// Whether the result has the rows, and the columns, as a dimension.
    pub keeps: [bool; 2],
}

impl ProductKind {
    /// How operands of these sizes are paired; a reason where they cannot be.
    pub fn pair_operands(self, a: &[i64], b: &[i64]) -> Result<MatrixPairing, String> {
        use MatrixView::{Column, Keep, Row, Transpose};
        let ranks = (a.len(), b.len());
        let say = |what: &str| Err(format!("it takes {what}, not sizes {a:?} and {b:?}"));
        let meeting = |a, b, m, n| Ok(MatrixPairing { a, b, keeps: [m, n] });
        match (self, ranks) {
            (ProductKind::Matmul, (0, _) | (_, 0)) => say("operands of at least one dimension"),
            (ProductKind::Matmul, (1, 1)) | (ProductKind::Dot, (1, 1)) => {
                meeting(Row, Column, false, false)
            }
            (ProductKind::Matmul, (1, _)) => meeting(Row, Keep, false, true),
            (ProductKind::Matmul, (_, 1)) | (ProductKind::Mv, (2, 1)) => {
                meeting(Keep, Column, true, false)
            }
            (ProductKind::Matmul, _) | (ProductKind::Mm, (2, 2)) => meeting(Keep, Keep, true, true),
            // No broadcast here: `bmm` takes as many matrices on both sides, unlike `matmul`.
            (ProductKind::Bmm, (3, 3)) if a[0] == b[0] => meeting(Keep, Keep, true, true),
            // A batch of products of a row and a column, so that it has no kernel of its own.
            (ProductKind::Vecdot, (1.., 1..)) => meeting(Row, Column, false, false),
            (ProductKind::Outer, (1, 1)) => meeting(Column, Row, true, true),
            // The weight is stored as [n, k], as PyTorch's modules keep it.
            (ProductKind::Linear, (1, 2)) => meeting(Row, Transpose, false, true),
            (ProductKind::Linear, (2.., 2)) => meeting(Keep, Transpose, true, true),
            (ProductKind::Mm, _) => say("two matrices"),
            (ProductKind::Bmm, _) => say("two batches of matrices [b, m, k] and [b, k, n]"),
            (ProductKind::Mv, _) => say("a matrix and a vector"),
            (ProductKind::Dot | ProductKind::Outer, _) => say("two vectors"),
            (ProductKind::Vecdot, _) => say("operands of at least one dimension"),
            (ProductKind::Linear, _) => say("an input [.., k] and a weight [n, k]"),
        }
    }

    /// The size of the result; a reason where the operands do not fit.
    pub(crate) fn infer_size(self, a: &TensorType, b: &TensorType) -> Result<Vec<i64>, String> {
        let meeting = self.pair_operands(&a.size, &b.size)?;
        let (left, right) = (meeting.a.matrix_size(&a.size), meeting.b.matrix_size(&b.size));
        let (am, bm) = (left.len() - 2, right.len() - 2);
        let (m, k) = (left[am], left[am + 1]);
        let (depth, n) = (right[bm], right[bm + 1]);
        if k != depth {
            return Err(format!(
                "sizes {:?} and {:?} do not multiply: the first has {k} along the summed dimension, \
                 the second {depth}",
                a.size, b.size
            ));
        }
        let outer = |size: &[i64]| TensorType { size: size.to_vec(), dtype: a.dtype };
        let mut size = broadcast_sizes(&[outer(&left[..am]), outer(&right[..bm])])
            .map_err(|reason| format!("the batches of {:?} and {:?}: {reason}", a.size, b.size))?;
        let [rows, columns] = meeting.keeps;
        size.extend(rows.then_some(m));
        size.extend(columns.then_some(n));
        Ok(size)
    }
}

/// Which operand is what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperandRoles {
    pub a: usize,
    pub b: usize,
    /// Operands that multiply the sum, element by element.
    pub scales: &'static [usize],
    /// The operand that is added.
    pub addend: Option<usize>,
    /// The fewest operands: the addend may be left out where it is the last.
    pub least: usize,
    pub most: usize,
}

/// `alpha * (A B) + beta * addend`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProductFactors {
    pub alpha: f64,
    pub beta: f64,
}

/// A matrix product with its attributes.
#[derive(Debug, Clone)]
pub struct ProductOp {
    pub name: &'static str,
    pub form: ProductKind,
    pub roles: OperandRoles,
    pub factors: ProductFactors,
    /// The dtype of the result where it is not that of the operands, which are 8-bit floats then.
    pub yields: Option<Dtype>,
}

impl ProductOp {
    pub fn matrix_pairing(&self, inputs: &[&[i64]]) -> Result<MatrixPairing> {
        let (a, b) = (inputs[self.roles.a], inputs[self.roles.b]);
        self.form.pair_operands(a, b).map_err(|r| refuse_operand(self.name, None, r))
    }

    fn check_dtypes(&self, inputs: &[TensorType]) -> Result<Dtype> {
        let (a, b) = (inputs[self.roles.a].dtype, inputs[self.roles.b].dtype);
        let small = |d: Dtype| is_float(d) && d.bits() == 8;
        if let Some(dtype) = self.yields {
            if let Some(operand) = [a, b].iter().position(|d| !small(*d)) {
                let reason = format!("its dtype is {}; 8-bit floats are accepted", [a, b][operand]);
                return Err(refuse_operand(self.name, Some(operand), reason));
            }
            if let Some(i) = (2..inputs.len()).find(|i| !is_float(inputs[*i].dtype)) {
                let reason = format!("its dtype is {}; a float is accepted", inputs[i].dtype);
                return Err(refuse_operand(self.name, Some(i), reason));
            }
            return Ok(dtype);
        }
        if small(a) {
            let reason = format!("it takes no {a}; `scaled_mm` multiplies 8-bit floats");
            return Err(refuse_operand(self.name, Some(self.roles.a), reason));
        }
        if a == Dtype::Bool {
            let reason = "it takes no bool; convert it to a number";
            return Err(refuse_operand(self.name, Some(self.roles.a), reason));
        }
        if let Some(i) = (0..inputs.len()).find(|i| inputs[*i].dtype != a) {
            let reason = format!(
                "its dtype is {}, and operand {} has {a}: all have one dtype",
                inputs[i].dtype, self.roles.a
            );
            return Err(refuse_operand(self.name, Some(i), reason));
        }
        let whole = |f: f64| f.fract() == 0.0 && f.abs() <= f64::from(i32::MAX);
        let fractions = [self.factors.alpha, self.factors.beta].iter().any(|f| !whole(*f));
        if fractions && !is_float(a) {
            let reason = format!("alpha and beta are integers of 32 bits for operands of {a}");
            return Err(refuse_operand(self.name, None, reason));
        }
        Ok(a)
    }

    pub(crate) fn infer_types(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let OperandRoles { least, most, .. } = self.roles;
        if !(least..=most).contains(&inputs.len()) {
            let count =
                if least == most { format!("{most}") } else { format!("{least} to {most}") };
            let reason = format!("it takes {count} operands, not {}", inputs.len());
            return Err(refuse_operand(self.name, None, reason));
        }
        let (a, b) = (&inputs[self.roles.a], &inputs[self.roles.b]);
        let size = self.form.infer_size(a, b).map_err(|r| refuse_operand(self.name, None, r))?;
        let dtype = self.check_dtypes(inputs)?;
        let further =
            self.roles.scales.iter().chain(&self.roles.addend).filter(|i| **i < inputs.len());
        for i in further {
            let operand = &inputs[*i];
            let both = [operand.clone(), TensorType { size: size.clone(), dtype }];
            // A further operand may broadcast to the result, but must not enlarge it.
            if broadcast_sizes(&both).ok().as_ref() != Some(&size) {
                let reason = format!("size {:?} does not broadcast to {size:?}", operand.size);
                return Err(refuse_operand(self.name, Some(*i), reason));
            }
        }
        Ok(vec![TensorType { size, dtype }])
    }
}
