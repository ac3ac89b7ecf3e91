//! Plans as JSON: refused, or run by the engine exactly as their loops define, within buffers of
//! the length that the plan requires.

use crate::budget::run_bounded;
use zellige_movement::{MovePlan, Mover, reference};

/// The largest buffer that is moved here, in elements.
const MAX_BUFFER_ELEMENTS: i64 = 1 << 14;

pub(crate) fn fuzz_plan_json(data: &[u8]) {
    // Checking a plan may visit every position that it writes.
    let bytes = (1 << 26) + 200 * data.len();
    let Ok(plan) =
        run_bounded("reading a plan", bytes, || serde_json::from_slice::<MovePlan>(data))
    else {
        return;
    };
    let again: MovePlan =
        serde_json::from_value(serde_json::to_value(&plan).expect("a plan is JSON"))
            .expect("its own JSON");
    assert_eq!(again, plan);
    if plan.src_len().max(plan.dst_len()) > MAX_BUFFER_ELEMENTS {
        return;
    }
    let sizes = [plan.src_len(), plan.dst_len()].map(|n| usize::try_from(n).expect("0 or more"));
    // 251 is prime, so elements a power of two apart have different values.
    let source: Vec<u8> = (0..sizes[0]).map(|i| u8::try_from(i % 251).expect("small")).collect();
    let mut want = vec![0xee; sizes[1]];
    reference::run_plan(&plan, &source, &mut want, Some(0x11));
    // Three threads divide nests unevenly, which is where a wrong division shows.
    for threads in [1, 3] {
        let mut have = vec![0xee; sizes[1]];
        let mover = Mover::new(&plan, 1).expect("elements of a byte");
        mover
            .run_on_slices(&source, &mut have, Some(&[0x11]), threads)
            .expect("buffers that are long enough");
        assert_eq!(have, want);
    }
}
