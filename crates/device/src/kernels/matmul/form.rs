//! The rank rules: every product as batches of `C[m, n] = A[m, k] B[k, n]`.

use super::super::Meta;
use crate::error::{DeviceError, Result};
use crate::sticks::Sticks;

/// A kind of product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
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
pub(crate) enum Turn {
    /// It is one.
    Keep,
    /// A last dimension is a row: `[.., k]` is `[.., 1, k]`.
    Row,
    /// A last dimension is a column: `[.., k]` is `[.., k, 1]`.
    Column,
    /// The last two dimensions change places.
    Transpose,
}

impl Turn {
    /// The size of the matrix.
    pub(crate) fn size(self, size: &[i64]) -> Vec<i64> {
        let mut size = size.to_vec();
        let rank = size.len();
        match self {
            Turn::Keep => {}
            Turn::Row => size.insert(rank - 1, 1),
            Turn::Column => size.push(1),
            Turn::Transpose => size.swap(rank - 2, rank - 1),
        }
        size
    }

    /// The form of the matrix.
    pub(crate) fn sticks(self, t: &Sticks) -> Sticks {
        let rank = t.rank();
        match self {
            Turn::Keep => t.clone(),
            Turn::Row => with_one(t, rank - 1),
            Turn::Column => with_one(t, rank),
            Turn::Transpose => {
                let mut perm: Vec<usize> = (0..rank).collect();
                perm.swap(rank - 2, rank - 1);
                t.permute(&perm)
            }
        }
    }

    /// Which dimension of the operand is dimension `rank - 2` (0) or `rank - 1` (1) of the matrix.
    pub(crate) fn origin(self, rank: usize, which: usize) -> Option<usize> {
        match (self, which) {
            (Turn::Keep, _) => Some(rank - 2 + which),
            (Turn::Transpose, _) => Some(rank - 1 - which),
            (Turn::Row, 1) | (Turn::Column, 0) => Some(rank - 1),
            _ => None,
        }
    }
}

/// The same elements with a dimension of extent 1 before dimension `at`.
pub(crate) fn with_one(t: &Sticks, at: usize) -> Sticks {
    let mut t = t.clone();
    t.size.insert(at, 1);
    t.stride.insert(at, 0);
    t.stick = t.stick.map(|s| if s >= at { s + 1 } else { s });
    t
}

/// How two operands meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meeting {
    pub(crate) a: Turn,
    pub(crate) b: Turn,
    /// Whether the result has the rows, and the columns, as a dimension.
    pub(crate) keeps: [bool; 2],
}

impl Meeting {
    /// The result's form as batches of matrices.
    pub(crate) fn result(&self, t: &Sticks) -> Sticks {
        let [m, n] = self.keeps;
        let mut t = t.clone();
        if !n {
            t = with_one(&t, t.rank());
        }
        if !m {
            t = with_one(&t, t.rank() - 1);
        }
        t
    }
}

impl Form {
    /// How operands of these sizes meet; a reason where they do not.
    pub(crate) fn meet(self, a: &[i64], b: &[i64]) -> Result<Meeting, String> {
        use Turn::{Column, Keep, Row, Transpose};
        let ranks = (a.len(), b.len());
        let say = |what: &str| Err(format!("it takes {what}, not sizes {a:?} and {b:?}"));
        let meeting = |a, b, m, n| Ok(Meeting { a, b, keeps: [m, n] });
        match (self, ranks) {
            (Form::Matmul, (0, _) | (_, 0)) => say("operands of at least one dimension"),
            (Form::Matmul, (1, 1)) | (Form::Dot, (1, 1)) => meeting(Row, Column, false, false),
            (Form::Matmul, (1, _)) => meeting(Row, Keep, false, true),
            (Form::Matmul, (_, 1)) | (Form::Mv, (2, 1)) => meeting(Keep, Column, true, false),
            (Form::Matmul, _) | (Form::Mm, (2, 2)) => meeting(Keep, Keep, true, true),
            (Form::Bmm, (3, 3)) if a[0] == b[0] => meeting(Keep, Keep, true, true),
            (Form::Vecdot, (1.., 1..)) => meeting(Row, Column, false, false),
            (Form::Outer, (1, 1)) => meeting(Column, Row, true, true),
            (Form::Linear, (1, 2)) => meeting(Row, Transpose, false, true),
            (Form::Linear, (2.., 2)) => meeting(Keep, Transpose, true, true),
            (Form::Mm, _) => say("two matrices"),
            (Form::Bmm, _) => say("two batches of matrices [b, m, k] and [b, k, n]"),
            (Form::Mv, _) => say("a matrix and a vector"),
            (Form::Dot | Form::Outer, _) => say("two vectors"),
            (Form::Vecdot, _) => say("operands of at least one dimension"),
            (Form::Linear, _) => say("an input [.., k] and a weight [n, k]"),
        }
    }

    /// The size of the result; a reason where the operands do not fit.
    pub(crate) fn infer(self, a: &Meta, b: &Meta) -> Result<Vec<i64>, String> {
        let meeting = self.meet(&a.size, &b.size)?;
        let (left, right) = (meeting.a.size(&a.size), meeting.b.size(&b.size));
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
        let outer = |size: &[i64]| Meta { size: size.to_vec(), dtype: a.dtype };
        let mut size = crate::lay::broadcast(&[outer(&left[..am]), outer(&right[..bm])])
            .map_err(|reason| format!("the batches of {:?} and {:?}: {reason}", a.size, b.size))?;
        let [rows, columns] = meeting.keeps;
        size.extend(rows.then_some(m));
        size.extend(columns.then_some(n));
        Ok(size)
    }
}

/// The error of an operation.
pub(crate) fn refuse(op: &str, operand: Option<usize>, reason: impl Into<String>) -> DeviceError {
    DeviceError::BadOperand { op: op.into(), operand, reason: reason.into() }
}
