//! The cases of the table.

use super::layouts::{permuted_layout, row_major, stick_layout, sticks_in_order, strided_view};
use super::{MoveCase, MovedElements};
use zellige_float::Dtype;
use zellige_float::Format;
use zellige_layout::{Iter, Layout, Swizzle, TileLayout};
use zellige_movement::PaddingFill;

const SQUARE: [i64; 2] = [4096, 4096];
const BIG: [i64; 2] = [8192, 8192];
const HALF: MovedElements = MovedElements::Plain(2);
const SINGLE: MovedElements = MovedElements::Plain(4);
const NARROWED: MovedElements = MovedElements::Convert(Format::F32, Format::F16);

/// Every case, in the order of the table.
pub fn table_cases() -> Vec<MoveCase> {
    let mut list = CaseList(Vec::new());
    list.add_stick_cases();
    list.add_transpose_cases();
    list.add_permute_cases();
    list.add_image_cases();
    list.add_short_cases();
    list.add_step_cases();
    let tile = TileLayout::row_major(&SQUARE).expect("a layout");
    let mode = Swizzle::shared_memory_mode(128, 16).expect("a mode");
    let swizzled = Layout::from_swizzled_tile(mode, tile).expect("a layout");
    let from = row_major(&SQUARE);
    list.add_case("128-byte swizzle 4096x4096 f16", 0.95, HALF, &SQUARE, from, swizzled);
    list.0
}

struct CaseList(Vec<MoveCase>);

impl CaseList {
    /// A goal of zero is none.
    fn add_case(
        &mut self,
        name: &str,
        goal: f64,
        elements: MovedElements,
        shape: &[i64],
        src: Layout,
        dst: Layout,
    ) {
        let goal = (goal > 0.0).then_some(goal);
        let (name, shape) = (name.into(), shape.to_vec());
        self.0.push(MoveCase { name, goal, elements, shape, src, dst, fill: PaddingFill::Padding });
    }

    fn add_stick_cases(&mut self) {
        let f16 = |size: &[i64]| stick_layout(size, Dtype::Float16);
        let on_dim_0 = |size: &[i64]| sticks_in_order(size, Dtype::Float16, &[1, 0]);
        for (name, goal, size) in [
            ("to sticks 4096x4096 f16", 0.95, vec![4096i64, 4096]),
            ("to sticks 16384x4096 f16", 0.95, vec![16384, 4096]),
            ("to sticks 128x256x512 f16", 0.95, vec![128, 256, 512]),
            ("to sticks 8x32x2048x128 f16", 0.95, vec![8, 32, 2048, 128]),
            ("to sticks 4x8x16x128x256 f16", 0.95, vec![4, 8, 16, 128, 256]),
            ("to sticks, padded 4095x4097 f16", 0.92, vec![4095, 4097]),
            ("to sticks, in cache 1000x200 f16", 0.85, vec![1000, 200]),
            ("to sticks, in cache 5x100x150 f16", 0.85, vec![5, 100, 150]),
        ] {
            self.add_case(name, goal, HALF, &size, row_major(&size), f16(&size));
        }
        self.add_case(
            "from sticks 4096x4096 f16",
            0.90,
            HALF,
            &SQUARE,
            f16(&SQUARE),
            row_major(&SQUARE),
        );
        for (name, size) in [
            ("to sticks 4096x4096 f32 -> f16", [4096, 4096]),
            ("to sticks 16384x4096 f32 -> f16", [16384, 4096]),
            ("to sticks, padded f32 -> f16", [4095, 4097]),
        ] {
            self.add_case(name, 0.90, NARROWED, &size, row_major(&size), f16(&size));
        }
        let to_card = MovedElements::Convert(Format::F16, Format::DL16);
        let from_card = MovedElements::Convert(Format::DL16, Format::F16);
        let (rows, on_card) = (|| row_major(&SQUARE), || f16(&SQUARE));
        self.add_case("to sticks 4096x4096 f16 -> dl16", 0.90, to_card, &SQUARE, rows(), on_card());
        self.add_case(
            "from sticks 4096x4096 dl16 -> f16",
            0.90,
            from_card,
            &SQUARE,
            on_card(),
            rows(),
        );
        for (name, size) in
            [("restickify 4096x4096 f16", SQUARE), ("restickify 8192x8192 f16", BIG)]
        {
            self.add_case(name, 0.85, HALF, &size, f16(&size), on_dim_0(&size));
        }
        let name = "to sticks on dim 0, 4096x4096 f16";
        self.add_case(name, 0.75, HALF, &SQUARE, row_major(&SQUARE), on_dim_0(&SQUARE));
    }

    fn add_transpose_cases(&mut self) {
        for (name, goal, elements, size) in [
            ("transpose 4096x4096 f16", 0.70, HALF, SQUARE),
            ("transpose 8192x8192 f16", 0.70, HALF, BIG),
            ("transpose 4096x4096 f32", 0.80, SINGLE, SQUARE),
            ("transpose 8192x8192 f32", 0.80, SINGLE, BIG),
            ("transpose 4095x4097 f16", 0.70, HALF, [4095, 4097]),
            ("transpose 3001x2999 f32", 0.80, SINGLE, [3001, 2999]),
            ("transpose 4096x4096 int8", 0.0, MovedElements::Plain(1), SQUARE),
            ("transpose 2048x2048 f64", 0.0, MovedElements::Plain(8), [2048, 2048]),
            ("transpose 2048x1024 complex128", 0.0, MovedElements::Plain(16), [2048, 1024]),
            ("transpose 64x64 f16, in cache", 0.0, HALF, [64, 64]),
        ] {
            self.add_case(
                name,
                goal,
                elements,
                &size,
                row_major(&size),
                permuted_layout(&size, &[1, 0]),
            );
        }
    }

    fn add_permute_cases(&mut self) {
        for (name, goal, elements, n, perm) in [
            ("permute (0,2,1) 512^3 f16", 0.75, HALF, 512, [0, 2, 1]),
            ("permute (2,1,0) 512^3 f16", 0.60, HALF, 512, [2, 1, 0]),
            ("permute (1,2,0) 512^3 f16", 0.75, HALF, 512, [1, 2, 0]),
            ("permute (0,2,1) 256^3 f32", 0.80, SINGLE, 256, [0, 2, 1]),
            ("permute (2,1,0) 256^3 f32", 0.65, SINGLE, 256, [2, 1, 0]),
            ("permute (1,2,0) 256^3 f32", 0.80, SINGLE, 256, [1, 2, 0]),
        ] {
            let size = [n, n, n];
            self.add_case(
                name,
                goal,
                elements,
                &size,
                row_major(&size),
                permuted_layout(&size, &perm),
            );
        }
        let five = [16, 24, 32, 40, 48];
        for (name, width, perm) in [
            ("permute (4,3,2,1,0) 16x24x32x40x48 int8", 1, [4, 3, 2, 1, 0]),
            ("permute (4,2,0,1,3) 16x24x32x40x48 f16", 2, [4, 2, 0, 1, 3]),
            ("permute (2,4,1,3,0) 16x24x32x40x48 f32", 4, [2, 4, 1, 3, 0]),
            ("permute (3,0,4,1,2) 16x24x32x40x48 f64", 8, [3, 0, 4, 1, 2]),
            ("permute (1,3,0,2,4) 16x24x32x40x48 f32", 4, [1, 3, 0, 2, 4]),
        ] {
            let elements = MovedElements::Plain(width);
            self.add_case(
                name,
                0.50,
                elements,
                &five,
                row_major(&five),
                permuted_layout(&five, &perm),
            );
        }
    }

    /// Everyday moves of dimensions that are shorter than a register.
    fn add_short_cases(&mut self) {
        let of = |width| MovedElements::Plain(width);
        let frame = 2160 * 3840;
        for (name, width, size) in [
            ("HWC -> CHW 2160x3840x3 u8", 1, [frame, 3]),
            ("HWC -> CHW 2160x3840x4 u8", 1, [frame, 4]),
            ("HWC -> CHW 1080x1920x3 f16", 2, [frame / 4, 3]),
            ("HWC -> CHW 1080x1920x3 f32", 4, [frame / 4, 3]),
            ("CHW -> HWC 3x2160x3840 u8", 1, [3, frame]),
            ("CHW -> HWC 4x2160x3840 u8", 1, [4, frame]),
            ("CHW -> HWC 3x1080x1920 f16", 2, [3, frame / 4]),
            ("CHW -> HWC 3x1080x1920 f32", 4, [3, frame / 4]),
            ("HWC -> CHW 224x224x3 u8, in cache", 1, [224 * 224, 3]),
        ] {
            self.add_case(
                name,
                0.50,
                of(width),
                &size,
                row_major(&size),
                permuted_layout(&size, &[1, 0]),
            );
        }
        for (name, width, r) in [
            ("pixel shuffle r=2 16x16x252x252 u8", 1, 2),
            ("pixel shuffle r=3 16x16x378x378 f16", 2, 3),
            ("pixel shuffle r=2 16x16x252x252 f32", 4, 2),
        ] {
            let size = [16, 16, r, r, 126, 126];
            let shuffled = permuted_layout(&size, &[0, 1, 4, 2, 5, 3]);
            self.add_case(name, 0.50, of(width), &size, row_major(&size), shuffled);
        }
        let size = [16, 8, 7, 8, 7, 96];
        let windows = permuted_layout(&size, &[0, 1, 3, 2, 4, 5]);
        let name = "window partition 7x7x96 of 16x56x56x96 f16";
        self.add_case(name, 0.95, HALF, &size, row_major(&size), windows);
        // Windows of 3x3 at every place of 66x66, as columns of a matrix and as its rows.
        let (n, c, o, k, w) = (8, 16, 64, 3, 66);
        let size = [n, o, o, c, k, k];
        let from = strided_view(&size, &[c * w * w, w, 1, w * w, w, 1], 0);
        self.add_case(
            "im2col rows 3x3 of 8x16x66x66 f32",
            0.50,
            SINGLE,
            &size,
            from,
            row_major(&size),
        );
        let size = [n, c, k, k, o, o];
        let from = strided_view(&size, &[c * w * w, w * w, w, 1, w, 1], 0);
        let name = "im2col columns 3x3 of 8x16x66x66 f32";
        self.add_case(name, 0.50, SINGLE, &size, from, row_major(&size));
    }

    /// Every second or third element, and what is written over and over.
    fn add_step_cases(&mut self) {
        for (name, width, step) in [
            ("every second of 32M u8", 1, 2),
            ("every third of 32M u8", 1, 3),
            ("every second of 16M f16", 2, 2),
            ("every second of 8M f32", 4, 2),
            ("every third of 8M f32", 4, 3),
            ("every second of 4M f64", 8, 2),
        ] {
            let n = (32 << 20) / width / step;
            let elements = MovedElements::Plain(usize::try_from(width).expect("small"));
            self.add_case(
                name,
                0.50,
                elements,
                &[n],
                strided_view(&[n], &[step], 0),
                row_major(&[n]),
            );
        }
        let n = 4 << 20;
        let to = strided_view(&[n], &[2], 0);
        self.add_case("into every second of 8M f32", 0.0, SINGLE, &[n], row_major(&[n]), to);
        let all = 16 << 20;
        let one = strided_view(&[all], &[0], 0);
        self.add_case("broadcast of one f32 to 16M", 0.95, SINGLE, &[all], one, row_major(&[all]));
        let size = [4096, 4096];
        let column = strided_view(&size, &[1, 0], 0);
        self.add_case(
            "broadcast of a column to 4096x4096 f32",
            0.95,
            SINGLE,
            &size,
            column,
            row_major(&size),
        );
        let size = [3 << 20, 5];
        let row = strided_view(&size, &[0, 1], 0);
        self.add_case(
            "broadcast of a row of 5 f32 to 15M",
            0.95,
            SINGLE,
            &size,
            row,
            row_major(&size),
        );
        let size = [8, 16, 126, 2, 126, 2];
        let planes = strided_view(&size, &[16 * 126 * 126, 126 * 126, 126, 0, 1, 0], 0);
        let name = "upsample 8x16x126x126 twofold f32";
        self.add_case(name, 0.50, SINGLE, &size, planes, row_major(&size));
    }

    fn add_image_cases(&mut self) {
        let image = [32, 256, 56, 56];
        let nhwc = || permuted_layout(&image, &[0, 2, 3, 1]);
        let nchw = || row_major(&image);
        self.add_case("NCHW -> NHWC 32x256x56x56 f32", 0.88, SINGLE, &image, nchw(), nhwc());
        self.add_case("NHWC -> NCHW 32x256x56x56 f32", 0.88, SINGLE, &image, nhwc(), nchw());
        self.add_case("NCHW -> NHWC 32x256x56x56 f16", 0.70, HALF, &image, nchw(), nhwc());
        let blocked = TileLayout::from_shard(vec![
            Iter::in_memory(32, 256 * 3136),
            Iter::in_memory(16, 16 * 3136),
            Iter::in_memory(16, 1),
            Iter::in_memory(3136, 16),
        ]);
        let blocked = blocked.expect("a layout").into();
        self.add_case("NCHW -> nChw16c f32", 0.95, SINGLE, &image, nchw(), blocked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_a_plan_and_a_name_of_its_own() {
        let cases = table_cases();
        for (i, case) in cases.iter().enumerate() {
            assert!(case.plan_mover().is_ok(), "{}", case.name);
            assert!(cases[..i].iter().all(|other| other.name != case.name), "{}", case.name);
        }
    }
}
