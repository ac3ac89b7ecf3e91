//! Plans that were written down: refused, or the engine runs them exactly as the loops say, inside of
//! buffers that are no larger than the plan asks for.

use crate::budget::run_bounded;
use zellige_movement::{MovePlan, Mover, reference};

/// Elements of a buffer that is moved here.
const MAX_BUFFER_ELEMENTS: i64 = 1 << 14;

pub(crate) fn fuzz_plan_json(data: &[u8]) {
    // What is read may be looked at place by place.
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
