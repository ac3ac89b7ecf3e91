//! What the links of the ring between the cores carry.

use crate::division::CoreNumber;
use crate::plan::CoreSend;

/// Elements that cross each link of a ring, in both directions.
///
/// A send goes to each of its destinations the shorter way round. A link carries a send once, however many of its
/// destinations are behind that link, because the ring hands data on from core to core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingLoads {
    /// From core `i` to core `i + 1`, round the ring.
    rising: Vec<i64>,
    /// From core `i + 1` to core `i`.
    falling: Vec<i64>,
}

impl RingLoads {
    pub(crate) fn of_sends(sends: &[CoreSend], cores: CoreNumber) -> RingLoads {
        let count = cores.max(1);
        let size = count as usize;
        let mut loads = RingLoads { rising: vec![0; size], falling: vec![0; size] };
        for send in sends {
            let (mut up, mut down) = (0, 0);
            for to in &send.destinations {
                let distance = (to + count - send.source) % count;
                if 2 * distance <= count {
                    up = up.max(distance);
                } else {
                    down = down.max(count - distance);
                }
            }
            let elements = send.elements.element_count();
            for step in 0..up {
                loads.rising[((send.source + step) % count) as usize] += elements;
            }
            for step in 1..=down {
                loads.falling[((send.source + count - step) % count) as usize] += elements;
            }
        }
        loads
    }

    /// Elements that the busiest link carries in one direction.
    pub fn busiest(&self) -> i64 {
        self.rising.iter().chain(&self.falling).copied().max().unwrap_or(0)
    }

    /// Elements on each link, from a core to the next one.
    pub fn rising(&self) -> &[i64] {
        &self.rising
    }

    /// Elements on each link, from a core to the one before it.
    pub fn falling(&self) -> &[i64] {
        &self.falling
    }
}

/// Links between two cores of a ring, the shorter way round.
pub(crate) fn ring_distance(a: CoreNumber, b: CoreNumber, cores: CoreNumber) -> CoreNumber {
    let straight = a.abs_diff(b);
    straight.min(cores.max(1) - straight.min(cores.max(1)))
}
