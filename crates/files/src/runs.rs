//! Lists the runs of a plan: elements that are adjacent on both sides.

use zellige_movement::{CopyLoop, MovePlan};

/// The average number of elements in a run; 0 if the plan copies nothing.
pub(crate) fn mean_run_length(plan: &MovePlan) -> i64 {
    let (mut elements, mut runs) = (0i64, 0i64);
    for nest in plan.nests() {
        elements = elements.saturating_add(nest.element_count());
        runs = runs.saturating_add(nest.element_count() / nest.run_length().max(1));
    }
    elements / runs.max(1)
}

/// Calls `take` for every run with its first element in the source, its first element in the
/// destination, and its length.
///
/// **Law**: together the runs are the copies of the plan, each once.
///
/// # Errors
/// The first error of `take`.
pub(crate) fn for_each_run<E>(
    plan: &MovePlan,
    mut take: impl FnMut(i64, i64, i64) -> Result<(), E>,
) -> Result<(), E> {
    for nest in plan.nests() {
        // The loop that advances by one element on both sides is the run itself; all others choose
        // where it begins.
        let unit = nest.loops.iter().position(|l| l.src == 1 && l.dst == 1);
        let outer: Vec<CopyLoop> =
            (0..nest.loops.len()).filter(|k| Some(*k) != unit).map(|k| nest.loops[k]).collect();
        for (src, dst) in &nest.starts {
            walk_loops(&outer, (*src, *dst), &mut |(a, b)| take(a, b, nest.run_length()))?;
        }
    }
    Ok(())
}

fn walk_loops<E>(
    loops: &[CopyLoop],
    (a, b): (i64, i64),
    take: &mut impl FnMut((i64, i64)) -> Result<(), E>,
) -> Result<(), E> {
    let Some((first, rest)) = loops.split_first() else { return take((a, b)) };
    (0..first.range)
        .try_for_each(|i| walk_loops(rest, (a + i * first.src, b + i * first.dst), take))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use zellige_layout::{Layout, StridedLayout};
    use zellige_movement::{PaddingFill, reference::run_plan};

    #[test]
    fn runs_are_the_copies_of_the_plan() {
        let shape = [6, 5, 8];
        let strided = |stride: &[i64], offset: i64| -> Layout {
            StridedLayout::new(&shape, stride, offset).unwrap().to_layout().unwrap()
        };
        let all = [
            strided(&[40, 8, 1], 0),
            strided(&[1, 6, 30], 0),
            strided(&[-40, 8, -1], 207),
            strided(&[100, 17, 2], 3),
            strided(&[64, 11, 1], 5),
        ];
        for from in &all {
            for to in &all {
                let plan = MovePlan::between(from, to, &shape, PaddingFill::Leave).unwrap();
                for (low, high) in [(0, 600), (3, 100), (17, 18), (60, 61)] {
                    let part = plan.clip_destination(low, high);
                    let source: Vec<i32> = (1..700).collect();
                    let (mut want, mut got) = (vec![0; 700], vec![0; 700]);
                    run_plan(&part, &source, &mut want, None);
                    let (mut count, mut elements) = (0, 0);
                    for_each_run(&part, |a, b, n| {
                        let at = |x: i64| usize::try_from(x).unwrap();
                        got[at(b)..at(b + n)].copy_from_slice(&source[at(a)..at(a + n)]);
                        count += 1;
                        elements += n;
                        Ok::<(), ()>(())
                    })
                    .unwrap();
                    assert_eq!(got, want);
                    assert_eq!(elements, part.element_count());
                    assert_eq!(mean_run_length(&part), elements / count.max(1));
                }
            }
        }
    }
}
