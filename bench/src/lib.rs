//! Measuring moves (`zellige bench moves`: cases, harness, peers, tables), and what the compiler makes of
//! graphs (`zellige bench compile`).

#![forbid(unsafe_code)]

pub mod compiler;
mod conditions;
pub mod moves;

pub use conditions::{describe_conditions, processor_name};
