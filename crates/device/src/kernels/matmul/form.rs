//! The rank rules: every product as batches of `C[m, n] = A[m, k] B[k, n]`.

use crate::tensor::sticks::StickForm;
use zellige_op::{MatrixPairing, MatrixView};

/// The same elements with a dimension of extent 1 before dimension `at`.
pub(crate) fn insert_unit_dim(t: &StickForm, at: usize) -> StickForm {
    let mut t = t.clone();
    t.size.insert(at, 1);
    t.stride.insert(at, 0);
    t.stick = t.stick.map(|s| if s >= at { s + 1 } else { s });
    t
}

/// The form of the matrix.
pub(crate) fn as_matrix(turn: MatrixView, t: &StickForm) -> StickForm {
    let rank = t.rank();
    match turn {
        MatrixView::Keep => t.clone(),
        MatrixView::Row => insert_unit_dim(t, rank - 1),
        MatrixView::Column => insert_unit_dim(t, rank),
        MatrixView::Transpose => {
            let mut perm: Vec<usize> = (0..rank).collect();
            perm.swap(rank - 2, rank - 1);
            t.permute_dims(&perm)
        }
    }
}

/// The result's form as batches of matrices.
pub(crate) fn result_as_matrices(meeting: &MatrixPairing, t: &StickForm) -> StickForm {
    let [m, n] = meeting.keeps;
    let mut t = t.clone();
    if !n {
        t = insert_unit_dim(&t, t.rank());
    }
    if !m {
        t = insert_unit_dim(&t, t.rank() - 1);
    }
    t
}
