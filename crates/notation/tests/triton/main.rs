//! Triton's attributes and linear layouts: the laws. `crates/conformance` has the recorded answers of Triton 3.9.0.
//!
//! | file | holds |
//! |---|---|
//! | `common` | recorded cases, and the bases of an attribute over a shape |
//! | `definitions` | attributes against formulas of their definitions and of the manuals |
//! | `algebra` | attributes to layouts of the algebra and back |
//! | `modules` | linear layouts as texts, modules of TTGIR |
//! | `refusals` | what is refused, and damaged texts |

mod algebra;
mod common;
mod definitions;
mod modules;
mod refusals;
