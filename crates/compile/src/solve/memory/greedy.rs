//! In the order of time, above what is there.

use super::request::MemoryRequest;

/// At each operation, first what died goes, then what begins is placed in the order of the request:
/// over a parent; at 0 where nothing is that low; above everything; in the lowest gap between.
pub(super) fn place_greedily(request: &MemoryRequest) -> Vec<Option<u64>> {
    let count = request.buffers().len();
    let mut addresses: Vec<Option<u64>> = vec![None; count];
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|b| request.time_order(*b));
    let mut live: Vec<usize> = Vec::new();
    let mut reused = vec![false; count];
    for b in order {
        live.retain(|other| request.live_range(*other).end > request.live_range(b).start);
        // One child per parent: two children would live at the same time and share the bytes of a buffer that has
        // died.
        let parent = request.parents(b).iter().copied().find(|p| live.contains(p) && !reused[*p]);
        addresses[b] = match parent {
            Some(p) => {
                reused[p] = true;
                addresses[p]
            }
            None => find_room(request, &live, &addresses, request.buffer_size(b)),
        };
        if addresses[b].is_some() {
            live.push(b);
        }
    }
    addresses
}

fn find_room(
    request: &MemoryRequest,
    live: &[usize],
    addresses: &[Option<u64>],
    size: u64,
) -> Option<u64> {
    let mut taken: Vec<(u64, u64)> = live
        .iter()
        .filter(|b| request.buffer_size(**b) > 0)
        .filter_map(|b| addresses[*b].map(|a| (a, a + request.buffer_size(*b))))
        .collect();
    taken.sort_unstable();
    let fits = |address: u64| address.checked_add(size).is_some_and(|end| end <= request.limit());
    if taken.first().is_none_or(|(lowest, _)| *lowest >= size) {
        return fits(0).then_some(0);
    }
    let top = taken.iter().map(|(_, end)| *end).max().unwrap_or(0);
    // Appending comes before gaps: a buffer above all others leaves the gaps whole for larger ones.
    let above = request.align_up(top);
    if fits(above) {
        return Some(above);
    }
    // A child is inside its parent's bytes while both live, so that ends do not ascend by themselves.
    let mut end = 0;
    for (start, stop) in taken {
        let address = request.align_up(end);
        if end > 0 && address.checked_add(size).is_some_and(|e| e <= start) {
            return Some(address);
        }
        end = end.max(stop);
    }
    None
}
