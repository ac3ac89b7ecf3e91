//! A second look at a memory plan: every pair of buffers, by the rules alone.

use super::{MemoryPlan, MemoryRequest};
use crate::error::{CompileError, RefusalWitness, Result};

/// Whether a plan keeps the rules: addresses are aligned and inside the memory; two buffers that
/// live at the same time share no byte, except a child that begins at the address of a parent which dies at
/// the child's first use; and no more is spilled than the bound allows to claim.
pub fn check_memory_plan(request: &MemoryRequest, plan: &MemoryPlan) -> Result<()> {
    let buffers = request.buffers();
    let broken = |i: usize, reason: String| {
        Err(CompileError::Broken {
            witness: RefusalWitness::Buffer(buffers[i].name.clone()),
            reason,
        })
    };
    if plan.addresses.len() != buffers.len() {
        let reason = format!("{} addresses for {} buffers", plan.addresses.len(), buffers.len());
        return Err(CompileError::Broken {
            witness: RefusalWitness::Buffer(String::new()),
            reason,
        });
    }
    for (i, b) in buffers.iter().enumerate() {
        let Some(address) = plan.addresses[i] else { continue };
        let end = u128::from(address) + u128::from(b.size);
        if address % request.alignment() != 0 || end > u128::from(request.limit()) {
            let (limit, unit) = (request.limit(), request.alignment());
            let reason = format!("`{}` is at {address}..{end} of {limit}, unit {unit}", b.name);
            return broken(i, reason);
        }
        for (j, c) in buffers.iter().enumerate().skip(i + 1) {
            let Some(other) = plan.addresses[j] else { continue };
            let (Some((b0, b1)), Some((c0, c1))) =
                (b.uses.first().zip(b.uses.last()), c.uses.first().zip(c.uses.last()))
            else {
                continue;
            };
            let together = b0 <= c1 && c0 <= b1;
            let stop = u128::from(other) + u128::from(c.size);
            let disjoint = end <= u128::from(other) || stop <= u128::from(address);
            let empty = b.size == 0 || c.size == 0;
            // The rules are written once more from the uses, and not from the lives of the request: the check would
            // otherwise repeat a mistake made there.
            let over = address == other
                && ((c.in_place_parents.contains(&b.name) && b1 == c0 && c.size <= b.size)
                    || (b.in_place_parents.contains(&c.name) && c1 == b0 && b.size <= c.size));
            if together && !disjoint && !empty && !over {
                let reason = format!(
                    "`{}` at {address}..{end} and `{}` at {other}..{stop} live at the same time",
                    b.name, c.name
                );
                return broken(i, reason);
            }
        }
    }
    let spilled: u64 =
        buffers.iter().zip(&plan.addresses).filter(|(_, a)| a.is_none()).map(|(b, _)| b.size).sum();
    if spilled < plan.bound {
        let reason = format!("{spilled} bytes are spilled, and the bound says {}", plan.bound);
        return Err(CompileError::Broken {
            witness: RefusalWitness::Buffer(String::new()),
            reason,
        });
    }
    Ok(())
}
