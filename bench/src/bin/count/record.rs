//! The recorded counts.

use anyhow::{Context, Result};
use std::fmt::{self, Write};

/// How much a count may grow, in percent: other versions of the C library differ by less.
const TOLERANCE_PERCENT: u64 = 3;

/// A compiler and what its code takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InstructionRecord {
    pub(crate) compiler: String,
    pub(crate) counts: Vec<(String, u64)>,
}

impl fmt::Display for InstructionRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# Instructions of the cases of bench/src/bin/count under callgrind (AVX2).")?;
        writeln!(f, "# ZELLIGE_BLESS=1 ./test count writes them anew.")?;
        writeln!(f, "compiler: {}", self.compiler)?;
        self.counts.iter().try_for_each(|(name, count)| writeln!(f, "{count:>10}  {name}"))
    }
}

impl InstructionRecord {
    pub(crate) fn parse(text: &str) -> Result<InstructionRecord> {
        let mut record = InstructionRecord { compiler: String::new(), counts: Vec::new() };
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(compiler) = line.strip_prefix("compiler: ") {
                record.compiler = compiler.into();
                continue;
            }
            let entry = line.split_once("  ").and_then(|(n, name)| Some((n.parse().ok()?, name)));
            let (count, name) =
                entry.with_context(|| format!("line {}: expected `COUNT  CASE`", number + 1))?;
            record.counts.push((name.into(), count));
        }
        Ok(record)
    }

    /// What was found beside what is recorded, and whether nothing takes more than it may.
    pub(crate) fn compare_counts(&self, found: &InstructionRecord) -> (String, bool) {
        let (mut out, mut passed) = (String::new(), true);
        let recorded = |name: &str| self.counts.iter().find(|(n, _)| n == name).map(|(_, c)| *c);
        for (name, now) in &found.counts {
            let verdict = match recorded(name) {
                None => {
                    passed = false;
                    "is not recorded".to_string()
                }
                Some(then) if now * 100 > then * (100 + TOLERANCE_PERCENT) => {
                    passed = false;
                    format!("MORE than the recorded {then} by {}", percent_change(*now, then))
                }
                Some(then) if now * (100 + TOLERANCE_PERCENT) < then * 100 => {
                    format!(
                        "fewer than the recorded {then} by {}: record it",
                        percent_change(then, *now)
                    )
                }
                Some(then) => format!("as recorded ({then})"),
            };
            let _ = writeln!(out, "{now:>10}  {name}: {verdict}");
        }
        for (name, _) in &self.counts {
            if !found.counts.iter().any(|(n, _)| n == name) {
                passed = false;
                let _ = writeln!(out, "recorded, but no case: {name}");
            }
        }
        if self.compiler != found.compiler {
            let _ = writeln!(
                out,
                "recorded with {}, counted with {}: other code, so other counts",
                self.compiler, found.compiler
            );
        }
        if !passed {
            let _ = writeln!(
                out,
                "At most {TOLERANCE_PERCENT} % more is accepted. Where the growth is meant, \
                 `ZELLIGE_BLESS=1 ./test count` records it."
            );
        }
        (out, passed)
    }
}

fn percent_change(more: u64, less: u64) -> String {
    let tenths = (more - less) * 1000 / less.max(1);
    format!("{}.{} %", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(compiler: &str, counts: &[(&str, u64)]) -> InstructionRecord {
        let counts = counts.iter().map(|(n, c)| ((*n).to_string(), *c)).collect();
        InstructionRecord { compiler: compiler.into(), counts }
    }

    #[test]
    fn a_record_reads_back() {
        let written = record("rustc 1", &[("to sticks, padded", 12), ("b", 34_567_890_123)]);
        assert_eq!(InstructionRecord::parse(&written.to_string()).expect("reads"), written);
        let error = InstructionRecord::parse("compiler: x\nmany  a").expect_err("no count");
        assert_eq!(error.to_string(), "line 2: expected `COUNT  CASE`");
    }

    #[test]
    fn growth_past_the_tolerance_fails_and_the_rest_passes() {
        let then = record("rustc 1", &[("a", 1000)]);
        for (now, passes) in [(1000, true), (1030, true), (1031, false), (10, true)] {
            assert_eq!(then.compare_counts(&record("rustc 1", &[("a", now)])).1, passes, "{now}");
        }
        let (report, passed) = then.compare_counts(&record("rustc 2", &[("a", 1000)]));
        assert!(passed && report.contains("recorded with rustc 1, counted with rustc 2"));
        assert!(!then.compare_counts(&record("rustc 1", &[])).1);
        assert!(!then.compare_counts(&record("rustc 1", &[("a", 1000), ("b", 1)])).1);
    }
}
