//! CuTe's texts, atoms and operators: the laws. `crates/conformance` has the recorded answers of CuTe's own libraries.
//!
//! | file | holds |
//! |---|---|
//! | `common` | random layouts, their function by definition |
//! | `recorded` | texts and atoms as CuTe prints them |
//! | `operators` | composition, complement, inverses, divides and products against slow definitions |
//! | `texts` | texts to the algebra and back, refused texts |

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod operators;
mod recorded;
mod texts;
