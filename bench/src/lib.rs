//! Measuring moves (`zellige bench moves`: cases, harness, peers, tables), and what the compiler makes of
//! graphs (`zellige bench compile`), and predicted times beside measured ones (`zellige bench fidelity`).

#![forbid(unsafe_code)]

pub mod compiler;
mod conditions;
pub mod fidelity;
pub mod moves;

pub use conditions::{describe_conditions, processor_name};
