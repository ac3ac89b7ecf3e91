//! Plans that do not become kernels, with the messages of the engine for the CPU.

use zellige_cuda::{CudaError, CudaProgram, Gpu, LaunchAlignment};
use zellige_layout::StridedLayout;
use zellige_movement::{MoveDtypes, MoveError, MovePlan, Mover, PaddingFill};

fn plan(size: &[i64], stride: &[i64]) -> MovePlan {
    let src = StridedLayout::new_contiguous(size).and_then(|s| s.to_layout()).expect("a tensor");
    let dst = StridedLayout::new(size, stride, 0).and_then(|s| s.to_layout()).expect("a tensor");
    MovePlan::between(&src, &dst, size, PaddingFill::Leave).expect("a plan")
}

fn refused(plan: &MovePlan, dtypes: MoveDtypes, fill: Option<&[u8]>) -> CudaError {
    CudaProgram::new(plan, dtypes, fill, LaunchAlignment::FULL, &Gpu::H200).expect_err("refused")
}

#[test]
fn widths_that_are_not_moved() {
    let plan = plan(&[4, 4], &[1, 4]);
    let on_cpu = Mover::new(&plan, 3).expect_err("refused");
    assert_eq!(refused(&plan, MoveDtypes::Bytes(3), None).to_string(), on_cpu.to_string());
}

#[test]
fn fills_of_another_width() {
    let plan = plan(&[4, 4], &[1, 4]);
    let error = MoveError::FillWidth { needed: 4, found: 2 };
    assert_eq!(refused(&plan, MoveDtypes::Bytes(4), Some(&[0, 0])), CudaError::Move(error));
}

#[test]
fn sizes_past_memory() {
    let large = plan(&[1 << 30, 1 << 30], &[1 << 30, 1]);
    assert_eq!(refused(&large, MoveDtypes::Bytes(16), None), CudaError::Move(MoveError::TooLarge));
    // Single elements of a tensor that no memory holds: more blocks than a launch has.
    let turned = plan(&[3, (1 << 52) + 1], &[1, 3]);
    assert!(matches!(refused(&turned, MoveDtypes::Bytes(1), None), CudaError::TooManyBlocks(_)));
}

#[test]
fn addresses_that_are_multiples_of_something_else() {
    let error = LaunchAlignment::new(16, 3).expect_err("refused");
    assert!(error.to_string().contains("multiple of 3 bytes"), "{error}");
    assert_eq!(
        LaunchAlignment::of_addresses(0x1008, 0x1010),
        LaunchAlignment::new(8, 16).expect("powers of two")
    );
}

#[test]
fn nothing_to_move_is_no_launch() {
    let program = CudaProgram::new(
        &plan(&[0, 4], &[1, 4]),
        MoveDtypes::Bytes(4),
        None,
        LaunchAlignment::FULL,
        &Gpu::H200,
    );
    assert!(program.expect("a program").launches().is_empty());
}
