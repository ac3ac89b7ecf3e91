//! Matrix products on operands in sticks, without a copy of either.
//!
//! `C[m, n] = A[m, k] B[k, n]`: A is stickified along k, B and C along n; a right operand that is
//! one column is stickified along k as A is (the rule of dot products), and the result is sparse then, as that of a
//! reduction along the stick.
//!
//! # Arithmetic
//! This loop defines every element, with `fma` the multiply-add that rounds once:
//!
//! ```text
//! for each range of k, in the order of the cores that split it (one range: 0..k)
//!     part = +0.0
//!     for p in range: part = fma(a[m][p], b[p][n], part)
//!     sum = part for the first range, else sum + part
//! ```
//!
//! The sum is finished in float32 (scales, then addends; see [`finish`]) and rounds once to the format
//! of C; a NaN is the positive quiet one. Products of float16, DLFloat16 and of 8-bit floats are exact
//! in float32, so that for these fused or not gives the same bits; bfloat16 and float32 need `fma`.
//! Integers are exact and wrap at 32 bits. No lane of padding takes part: the loop over k ends with k,
//! and columns past n are never stored.
//!
//! # How
//! The value of an element depends on the ranges of k alone. The host cuts C into blocks that suit its
//! caches, whatever the slices of the simulated cores, unpacks one tile of 64 of k at a time ([`engine`])
//! and multiplies in registers ([`micro`]); a block needs no memory that grows with the tensors. The
//! accounts charge the slices of the division ([`account`]).
//!
//! | file | holds |
//! |---|---|
//! | `form` | rank rules |
//! | `kernel` | sizes, layouts, iteration space |
//! | `matrices` | tensors as batches of matrices |
//! | `task` | blocks of C |
//! | `account` | what the cores do |
//! | `axis`, `sides` | matrices in sticks |
//! | `engine`, `micro` | the product |
//! | `finish` | scales and addends |

pub(crate) mod account;
pub(crate) mod axis;
pub(crate) mod engine;
pub(crate) mod finish;
pub(crate) mod form;
mod kernel;
mod matrices;
pub(crate) mod micro;
pub(crate) mod sides;
pub(crate) mod task;
#[cfg(test)]
mod tests;
