//! Comparisons and logic: results are bool. NaN equals nothing, and counts as true.

use super::{Attrs, Built, built, table, two_int};
use crate::kernels::pointwise::Yields;
use zellige_math::{Binary, IntBinary};

fn truth(a: &Attrs, f: Binary, g: IntBinary) -> Built {
    built(two_int(a, f, g).yields(Yields::Bool))
}

table! {
    "eq" ("a", "b") [] Native, |a| truth(a, Binary::Equal, IntBinary::Equal);
    "ne" ("a", "b") [] Native, |a| truth(a, Binary::NotEqual, IntBinary::NotEqual);
    "lt" ("a", "b") [] Native, |a| truth(a, Binary::Less, IntBinary::Less);
    "le" ("a", "b") [] Native, |a| truth(a, Binary::LessEqual, IntBinary::LessEqual);
    "gt" ("a", "b") [] Native, |a| truth(a, Binary::Greater, IntBinary::Greater);
    "ge" ("a", "b") [] Native, |a| truth(a, Binary::GreaterEqual, IntBinary::GreaterEqual);
    "logical_and" ("a", "b") [] Native, |a| truth(a, Binary::LogicalAnd, IntBinary::LogicalAnd);
    "logical_or" ("a", "b") [] Fallback, |a| truth(a, Binary::LogicalOr, IntBinary::LogicalOr);
    "logical_xor" ("a", "b") [] Fallback, |a| truth(a, Binary::LogicalXor, IntBinary::LogicalXor);
}
