//! The rank rules: every product as batches of `C[m, n] = A[m, k] B[k, n]`.

use crate::tensor::sticks::Sticks;
use zellige_op::{Meeting, Turn};

/// The same elements with a dimension of extent 1 before dimension `at`.
pub(crate) fn with_one(t: &Sticks, at: usize) -> Sticks {
    let mut t = t.clone();
    t.size.insert(at, 1);
    t.stride.insert(at, 0);
    t.stick = t.stick.map(|s| if s >= at { s + 1 } else { s });
    t
}

/// The form of the matrix.
pub(crate) fn as_matrix(turn: Turn, t: &Sticks) -> Sticks {
    let rank = t.rank();
    match turn {
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

/// The result's form as batches of matrices.
pub(crate) fn result_as_matrices(meeting: &Meeting, t: &Sticks) -> Sticks {
    let [m, n] = meeting.keeps;
    let mut t = t.clone();
    if !n {
        t = with_one(&t, t.rank());
    }
    if !m {
        t = with_one(&t, t.rank() - 1);
    }
    t
}
