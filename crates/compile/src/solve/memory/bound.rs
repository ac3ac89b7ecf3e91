//! A lower bound on the bytes that any plan spills.
//!
//! While an operation runs, the live buffers are side by side, every one but the highest rounded up to the alignment; a
//! child may be placed over its parent. What this sum exceeds the limit by has to be spilled. A buffer of `size` bytes
//! frees at most its rounded size, so that a spilled byte frees at most `rounded / size` bytes.

use super::request::MemoryRequest;

/// Calls `f` with every operation at which one of these buffers begins, in order, and those of them that live then.
/// Dead buffers are dropped from the list, so that the cost follows the number of buffers that live together.
fn sweep_lifetimes(request: &MemoryRequest, kept: &[usize], mut f: impl FnMut(u64, &[usize])) {
    let mut order = kept.to_vec();
    order.sort_by_key(|b| (request.live_range(*b).start, *b));
    let mut live: Vec<usize> = Vec::new();
    let mut next = 0;
    while next < order.len() {
        let time = request.live_range(order[next]).start;
        live.retain(|b| request.live_range(*b).end > time);
        while next < order.len() && request.live_range(order[next]).start == time {
            live.push(order[next]);
            next += 1;
        }
        live.retain(|b| request.live_range(*b).contains(&time));
        f(time, &live);
    }
}

/// How far the buffers that live during an operation are past the limit, in rounded bytes; `kept` says which
/// buffers there are.
fn bytes_over_limit(request: &MemoryRequest, time: u64, live: &[usize], kept: &[bool]) -> u64 {
    let (mut load, mut slack) = (0_u64, 0_u64);
    for b in live.iter().copied() {
        let rounded = request.align_up(request.buffer_size(b));
        // Nothing is above the highest buffer, so that its rounding takes no room. Which one is the highest is open:
        // the bound takes the largest rounding off.
        slack = slack.max(rounded - request.buffer_size(b));
        let begins = request.live_range(b).start == time;
        // A child counts only while its parent does not: at its first use both live, and it may have the parent's
        // bytes. Later the parent is dead.
        let over = begins && request.parents(b).iter().any(|p| kept[*p]);
        if !over {
            load = load.saturating_add(rounded);
        }
    }
    load.saturating_sub(slack).saturating_sub(request.limit())
}

/// Which of all buffers are among these.
fn mark_members(request: &MemoryRequest, members: &[usize]) -> Vec<bool> {
    let mut marked = vec![false; request.buffers().len()];
    members.iter().for_each(|b| marked[*b] = true);
    marked
}

/// The most that these buffers are past the limit, in rounded bytes, and the last operation at which they are.
pub(super) fn find_most_crowded(request: &MemoryRequest, members: &[usize]) -> (u64, u64) {
    let kept = mark_members(request, members);
    let mut most = (0, 0);
    sweep_lifetimes(request, members, |time, live| {
        most = most.max((bytes_over_limit(request, time, live, &kept), time));
    });
    most
}

/// What is spilled at least of the buffers that live during an operation, in bytes, and the earliest
/// operation at which one of them begins.
fn least_spill_during(
    request: &MemoryRequest,
    time: u64,
    live: &[usize],
    kept: &[bool],
) -> (u64, u64) {
    let excess = bytes_over_limit(request, time, live, kept);
    let since = live.iter().map(|b| request.live_range(*b).start).min().unwrap_or(time);
    if excess == 0 {
        return (0, since);
    }
    let some = || live.iter().copied().filter(|b| request.buffer_size(*b) > 0);
    let worst = some().map(|b| {
        let (size, rounded) = (request.buffer_size(b), request.align_up(request.buffer_size(b)));
        (u128::from(excess) * u128::from(size)).div_ceil(u128::from(rounded))
    });
    let bytes = u64::try_from(worst.min().unwrap_or(0)).unwrap_or(u64::MAX);
    // A buffer is spilled whole, so that the least is at least the smallest of them.
    (bytes.max(some().map(|b| request.buffer_size(b)).min().unwrap_or(0)), since)
}

/// What every plan spills at least of these buffers: the sum over operations that share no live buffer,
/// chosen so that it is largest.
pub(super) fn disjoint_spill_bound(request: &MemoryRequest, members: &[usize]) -> u64 {
    let kept = mark_members(request, members);
    let mut times: Vec<u64> = Vec::new();
    // best[i]: with the first i operations alone.
    let mut best = vec![0_u64];
    sweep_lifetimes(request, members, |time, live| {
        let (bytes, since) = least_spill_during(request, time, live, &kept);
        // Two operations that share no live buffer cannot be helped by spilling the same buffer, so that their bounds
        // add up. Which operations to add is the weighted interval scheduling problem, solved from left to right.
        let before = times.partition_point(|t| *t < since);
        times.push(time);
        best.push(best[best.len() - 1].max(bytes.saturating_add(best[before])));
    });
    best[best.len() - 1]
}

/// What every plan spills at least: what fits nowhere, and what is too much at once, for each
/// stretch of time that no buffer crosses.
pub(super) fn total_spill_bound(request: &MemoryRequest) -> u64 {
    split_at_idle_times(request).iter().map(|members| members_spill_bound(request, members)).sum()
}

pub(super) fn members_spill_bound(request: &MemoryRequest, members: &[usize]) -> u64 {
    let fits = |b: &usize| request.buffer_size(*b) <= request.limit();
    // A buffer larger than the memory is spilled by every plan. Left among the others it would make every operation
    // look crowded by bytes that are gone anyway.
    let (small, large): (Vec<usize>, Vec<usize>) = members.iter().copied().partition(fits);
    let large: u64 = large.into_iter().map(|b| request.buffer_size(b)).sum();
    large + disjoint_spill_bound(request, &small)
}

/// The buffers by stretches of time that no buffer crosses the ends of.
pub(super) fn split_at_idle_times(request: &MemoryRequest) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..request.buffers().len()).collect();
    order.sort_by_key(|b| request.live_range(*b).start);
    let mut stretches: Vec<Vec<usize>> = Vec::new();
    let mut end = 0;
    for b in order {
        match stretches.last_mut() {
            // Nothing lives across such a time, so that plans on both sides are independent and their least spills
            // add up.
            Some(last) if request.live_range(b).start < end => last.push(b),
            _ => stretches.push(vec![b]),
        }
        end = end.max(request.live_range(b).end);
    }
    stretches
}
