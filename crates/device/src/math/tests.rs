//! Accuracy against float64, the same bits on every instruction set, and speed.
mod accuracy;
mod speed;
