//! The plans of a move: one, or two where one is not enough.

use zellige_layout::{Layout, LayoutError, StridedLayout};
use zellige_movement::{MoveError, MovePlan, PaddingFill};

/// The plans that move a tensor of `shape` from `src` to `dst`, to be run in their order: one, or two where the gaps
/// of the destination are too scattered to be listed, of which the first fills all of it.
///
/// **Law**: run one after the other they write what [`zellige_movement::Mover::between`] writes.
///
/// # Errors
/// Those of [`MovePlan::between`].
pub fn plan_moves(
    src: &Layout,
    dst: &Layout,
    shape: &[i64],
    fill: PaddingFill,
) -> Result<Vec<MovePlan>, MoveError> {
    let plan = MovePlan::between(src, dst, shape, fill);
    let (PaddingFill::Rest { len }, Err(LayoutError::TooLarge { .. })) = (fill, &plan) else {
        return Ok(vec![plan?]);
    };
    // A plan that moves nothing and fills the rest is a fill of the whole buffer, so that no other kind of plan is needed.
    let copies = MovePlan::between(src, dst, shape, PaddingFill::Leave)?;
    let nothing = StridedLayout::new_contiguous(&[0])?.to_layout()?;
    let len = len.max(copies.dst_len());
    Ok(vec![MovePlan::between(&nothing, &nothing, &[0], PaddingFill::Rest { len })?, copies])
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use zellige_movement::Mover;

    fn run_plans(plans: &[MovePlan], from: &[u8], len: usize) -> Vec<u8> {
        let mut to = vec![7; len];
        for plan in plans {
            Mover::new(plan, 1).unwrap().run_on_slices(from, &mut to, Some(&[9]), 1).unwrap();
        }
        to
    }

    #[test]
    fn scattered_gaps_are_filled_first() {
        // Ranges that share no divisors leave gaps of every length.
        let shape = [41, 43, 47];
        let host = StridedLayout::new_contiguous(&shape).unwrap().to_layout().unwrap();
        let spread = StridedLayout::new(&shape, &[9973, 211, 3], 5).unwrap().to_layout().unwrap();
        let len = 500_000;
        let plans = plan_moves(&host, &spread, &shape, PaddingFill::Rest { len }).unwrap();
        let from: Vec<u8> = (0..41 * 43 * 47).map(|i| u8::try_from(i % 251).unwrap()).collect();
        let mut wanted = vec![7; 500_000];
        let fill = PaddingFill::Rest { len };
        let whole =
            Mover::between(&host, &spread, &shape, zellige_movement::MoveDtypes::Bytes(1), fill);
        whole.unwrap().run_on_slices(&from, &mut wanted, Some(&[9]), 1).unwrap();
        assert_eq!(run_plans(&plans, &from, 500_000), wanted);
        assert!(!wanted.contains(&7) || from.contains(&7), "everything is written");
        assert_eq!(plans.iter().map(|p| p.fills().len()).sum::<usize>().min(1), 1);
    }
}
