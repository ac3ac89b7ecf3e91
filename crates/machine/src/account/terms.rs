//! The time of an operation as a sum of named terms.

use super::latency::{CoreCycles, OperationLatency};
use super::product::ProductCycles;
use crate::hardware::{CycleModel, Hardware};
use crate::time::SimulatedTime;
use serde::Serialize;

/// One term of the time of an operation, on the core that finishes last.
///
/// **Law**: `counted` of all terms of an operation add up to its time exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TimeTerm {
    /// Its name.
    pub name: &'static str,
    /// What stands behind it.
    pub meaning: &'static str,
    /// What it would take alone.
    pub alone: SimulatedTime,
    /// Its part of the sum: nothing where a longer term hides it.
    pub counted: SimulatedTime,
}

/// A term in cycles.
struct CycleTerm {
    name: &'static str,
    meaning: &'static str,
    cycles: u64,
    counted: bool,
}

impl Hardware {
    /// The terms of a latency that this hardware computed, in a fixed order; those of units that did nothing are left
    /// out.
    ///
    /// Terms overlap on the card, so only those of the longest group count; see [`account`](crate::account) for the
    /// sum.
    pub fn list_time_terms(&self, latency: &OperationLatency) -> Vec<TimeTerm> {
        let Some(core) = latency.critical_core.and_then(|i| latency.cores.get(i)) else {
            return Vec::new();
        };
        let terms = match self.cycle_model() {
            CycleModel::Card => list_card_terms(core),
            CycleModel::Ktir => list_ktir_terms(core),
        };
        // Times round up. Differences of running totals, and not the times of single terms, add up to the time of the
        // total.
        let mut cycles = 0_u64;
        let mut reached = SimulatedTime::ZERO;
        terms
            .into_iter()
            .filter(|term| term.cycles > 0)
            .map(|term| {
                let mut counted = SimulatedTime::ZERO;
                if term.counted {
                    cycles = cycles.saturating_add(term.cycles);
                    let next = self.cycles_to_time(cycles);
                    counted = next - reached;
                    reached = next;
                }
                let CycleTerm { name, meaning, .. } = term;
                TimeTerm { name, meaning, alone: self.cycles_to_time(term.cycles), counted }
            })
            .collect()
    }
}

/// `max(PT + SFU, memory, LX, ring in, host) + ring`.
///
/// Of a product with measured figures: `fixed + first chunk + max(compute, reads) + partial sums + write`.
fn list_card_terms(core: &CoreCycles) -> Vec<CycleTerm> {
    if let Some(product) = &core.product {
        return list_product_terms(product);
    }
    let compute = core.pt.saturating_add(core.sfu);
    let overlapped = [compute, core.memory, core.lx, core.ring_in, core.host];
    let longest = overlapped.into_iter().max().unwrap_or(0);
    // The last of equals counts, as in the bottleneck: what feeds the units comes before the units.
    let counted = overlapped.iter().rposition(|cycles| *cycles == longest);
    let mut terms = list_unit_terms(core, |group| counted == Some(group));
    terms.push(CycleTerm {
        name: "fixed",
        meaning: "a kernel without work",
        cycles: core.fixed,
        counted: true,
    });
    terms
}

fn list_product_terms(p: &ProductCycles) -> Vec<CycleTerm> {
    let term = |name, meaning, cycles, counted| CycleTerm { name, meaning, cycles, counted };
    let computes = p.compute >= p.rest_of_reads;
    vec![
        term("fixed", "a kernel without work", p.fixed, true),
        term("first_chunk", "reads before the PT array begins", p.first_chunk, true),
        term("compute", "multiply-adds of the PT array", p.compute, computes),
        term("reads", "reads while the PT array works", p.rest_of_reads, !computes),
        term("read_a", "all passes over A, a part of the reads", p.read_a, false),
        term("read_b", "all passes over B, a part of the reads", p.read_b, false),
        term("intake", "what one core takes in of an operand", p.intake, false),
        term("partial_sums", "sums of a split depth", p.partial_sums, true),
        term("write", "writing the result", p.write, true),
    ]
}

/// `PT + SFU + max(memory, host) + ring`.
fn list_ktir_terms(core: &CoreCycles) -> Vec<CycleTerm> {
    let host_counts = core.host > core.memory;
    list_unit_terms(core, |group| match group {
        0 => true,
        1 => !host_counts,
        4 => host_counts,
        _ => false,
    })
}

/// The terms of every unit; `counted` says of a group of overlapped units (compute, memory, LX, ring in, host)
/// whether it is part of the sum.
fn list_unit_terms(core: &CoreCycles, counted: impl Fn(usize) -> bool) -> Vec<CycleTerm> {
    let term = |name, meaning, cycles, counted| CycleTerm { name, meaning, cycles, counted };
    vec![
        term("pt", "multiply-adds of the PT array", core.pt, counted(0)),
        term("sfu", "element operations of the SFU", core.sfu, counted(0)),
        term("memory", "reads and writes of device memory", core.memory, counted(1)),
        term("lx", "reads and writes of the scratchpad", core.lx, counted(2)),
        term("ring_in", "operands that arrive over the ring", core.ring_in, counted(3)),
        term("host", "transfers over the link to the host", core.host, counted(4)),
        term("ring", "partial results that cores pass on", core.ring, true),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{CoreWork, MemoryTraffic, OperationWork, RingMove, WorkKind};

    #[test]
    fn counted_terms_add_up_to_the_time() {
        let counts = [0_u64, 1, 97, 4096, 1 << 20];
        for hardware in [Hardware::card_preset(), Hardware::ktir_preset()] {
            for macs in counts {
                for bursts in counts {
                    for ring in counts {
                        let each = CoreWork {
                            macs,
                            sfu: macs / 3,
                            reads: MemoryTraffic::from_bursts(256, bursts),
                            ring_in: ring * 5,
                            lx_bytes: bursts * 300,
                            host_in: bursts * 7,
                            ring: [RingMove { bytes: ring, hops: 3 }].into_iter().collect(),
                            ..CoreWork::default()
                        };
                        let work = OperationWork::uniform_cores("x", WorkKind::Matmul, 3, each);
                        let latency = hardware.operation_latency(&work);
                        let terms = hardware.list_time_terms(&latency);
                        let sum: SimulatedTime = terms.iter().map(|t| t.counted).sum();
                        assert_eq!(sum, latency.time, "{} {work:?}", hardware.name());
                        assert!(
                            terms
                                .iter()
                                .all(|t| t.counted
                                    <= t.alone + SimulatedTime::from_picoseconds(1000))
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn hidden_terms_are_listed_and_do_not_count() {
        let card = Hardware::built_in_preset("card-2026-05").unwrap();
        let each = CoreWork {
            macs: 1 << 30,
            reads: MemoryTraffic::from_bursts(4096, 1),
            ..CoreWork::default()
        };
        let work = OperationWork::uniform_cores("x", WorkKind::Matmul, 32, each);
        let terms = card.list_time_terms(&card.operation_latency(&work));
        let names: Vec<_> =
            terms.iter().map(|t| (t.name, t.counted > SimulatedTime::ZERO)).collect();
        assert_eq!(names, [("pt", true), ("memory", false)]);
        let idle = OperationWork::new("x", WorkKind::Other, Vec::new());
        assert!(card.list_time_terms(&card.operation_latency(&idle)).is_empty());
    }
}
