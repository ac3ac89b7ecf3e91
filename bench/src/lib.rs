//! Measuring moves: the cases, the harness, the peers and the tables of `zellige bench moves`.

#![forbid(unsafe_code)]

pub mod moves;
