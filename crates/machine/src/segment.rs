//! Segments: the pieces of the address space, and what each holds.

use serde::Serialize;

/// Who may live in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SegmentPurpose {
    /// Tensors: what an allocation gets.
    Tensors,
    /// Compiled programs.
    Programs,
    /// The scratchpad of one core.
    Scratchpad,
}

/// One segment, described.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SegmentSpec {
    /// The address of its first byte, a multiple of 128.
    pub base: u64,
    /// Its length, a positive multiple of 128.
    pub bytes: u64,
    /// Who may live there.
    pub purpose: SegmentPurpose,
}
