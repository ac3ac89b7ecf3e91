//! Descriptions of a card, as text and as JSON: figures, segments, scratchpads, what is in use.

use crate::card::Card;
use serde_json::{Value, json};
use std::fmt::Write;
use zellige_machine::SegmentPurpose;
use zellige_machine::units::BinaryBytes;

impl Card {
    /// Figures, segments with their bases, scratchpads, and how much of them is in use.
    pub fn describe_usage(&self) -> String {
        let (memory, lx) = (self.memory().stats(), self.lx_scratchpads().stats());
        let mut text = format!("{}\n\nsegments\n", self.hardware());
        let digits = memory.segments.last().map_or(1, |s| format!("{:x}", s.spec.base).len());
        for (i, s) in memory.segments.iter().enumerate() {
            let purpose =
                if s.spec.purpose == SegmentPurpose::Programs { "programs" } else { "tensors" };
            let (base, size, used) =
                (s.spec.base, BinaryBytes(s.spec.bytes), BinaryBytes(s.reserved));
            let _ =
                writeln!(text, "  {i}  base 0x{base:0digits$x}  {size}  {purpose}, {used} in use");
        }
        let each = lx.segments.first().map_or(0, |s| s.spec.bytes);
        let (used, peak) = (BinaryBytes(memory.allocated), BinaryBytes(memory.peak));
        let (all, hole) = (BinaryBytes(memory.capacity), BinaryBytes(memory.largest_hole));
        let _ = writeln!(text, "memory  {all}, {used} in use, peak {peak}, largest hole {hole}");
        let (cores, used) = (lx.segments.len(), BinaryBytes(lx.allocated));
        let _ = write!(
            text,
            "LX      {cores} cores of {}, {used} in use\n\
             cores   {} in use; 16-bit floats as {}, float32 {}, int64 {}; coverage profile {}",
            BinaryBytes(each),
            self.core_count(),
            self.float_mode(),
            if self.kept_dtypes().float32 { "kept" } else { "in 16 bits" },
            if self.kept_dtypes().int64 { "kept" } else { "in 32 bits" },
            self.profile(),
        );
        text
    }

    /// The same for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "hardware": self.hardware().to_json(), "cores": self.core_count(), "mode": self.float_mode(),
            "profile": self.profile(), "keep_fp32": self.kept_dtypes().float32,
            "keep_int64": self.kept_dtypes().int64, "memory": self.memory().stats(), "lx": self.lx_scratchpads().stats(),
        })
    }
}
