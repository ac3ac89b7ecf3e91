//! What does not become a kernel, with the messages of the engine for the CPU.

use zellige_cuda::{Alignment, CudaError, Gpu, Program};
use zellige_layout::StridedLayout;
use zellige_movement::{Dtypes, Fill, MoveError, Mover, Plan};

fn plan(size: &[i64], stride: &[i64]) -> Plan {
    let src = StridedLayout::new_contiguous(size).and_then(|s| s.to_layout()).expect("a tensor");
    let dst = StridedLayout::new(size, stride, 0).and_then(|s| s.to_layout()).expect("a tensor");
    Plan::between(&src, &dst, size, Fill::Leave).expect("a plan")
}

fn refused(plan: &Plan, dtypes: Dtypes, fill: Option<&[u8]>) -> CudaError {
    Program::new(plan, dtypes, fill, Alignment::FULL, &Gpu::H200).expect_err("refused")
}

#[test]
fn widths_that_are_not_moved() {
    let plan = plan(&[4, 4], &[1, 4]);
    let on_cpu = Mover::new(&plan, 3).expect_err("refused");
    assert_eq!(refused(&plan, Dtypes::Bytes(3), None).to_string(), on_cpu.to_string());
}

#[test]
fn fills_of_another_width() {
    let plan = plan(&[4, 4], &[1, 4]);
    let error = MoveError::FillWidth { needed: 4, found: 2 };
    assert_eq!(refused(&plan, Dtypes::Bytes(4), Some(&[0, 0])), CudaError::Move(error));
}

#[test]
fn sizes_past_memory() {
    let large = plan(&[1 << 30, 1 << 30], &[1 << 30, 1]);
    assert_eq!(refused(&large, Dtypes::Bytes(16), None), CudaError::Move(MoveError::TooLarge));
    // Single elements of a tensor that no memory holds: more blocks than a launch has.
    let turned = plan(&[3, (1 << 52) + 1], &[1, 3]);
    assert!(matches!(refused(&turned, Dtypes::Bytes(1), None), CudaError::TooManyBlocks(_)));
}

#[test]
fn addresses_that_are_multiples_of_something_else() {
    let error = Alignment::new(16, 3).expect_err("refused");
    assert!(error.to_string().contains("multiple of 3 bytes"), "{error}");
    assert_eq!(Alignment::of(0x1008, 0x1010), Alignment::new(8, 16).expect("powers of two"));
}

#[test]
fn nothing_to_move_is_no_launch() {
    let program =
        Program::new(&plan(&[0, 4], &[1, 4]), Dtypes::Bytes(4), None, Alignment::FULL, &Gpu::H200);
    assert!(program.expect("a program").launches().is_empty());
}
