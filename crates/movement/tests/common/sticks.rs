//! Random padded layouts of one tensor: sticks of every kind, views, hosts.

use zellige_float::Dtype;
use zellige_layout::{Layout, StridedLayout};
use zellige_stick::{Result, StickLayout};

/// A generator that a test case seeds.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        usize::try_from(self.0 >> 33).expect("31 bits") % n
    }

    fn number(&mut self, n: usize) -> i64 {
        i64::try_from(self.below(n)).expect("small")
    }

    /// An order of `n` things.
    fn order(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }
}

/// How many dimensions of a layout are padded.
pub fn padded_dims(l: &Layout) -> u32 {
    let dims = l.window().map_or(&[][..], |w| w.dims());
    u32::try_from(dims.iter().filter(|d| d.valid != d.padded).count()).expect("few")
}

/// A layout of a tensor of that shape, of a random kind.
pub fn side(shape: &[i64], random: &mut Random) -> Result<Layout> {
    match random.below(8) {
        0 => Ok(strided(shape, random)?.to_layout()?),
        1 => StickLayout::default_for_dtype(shape, dtype(random))?.lower_to_layout(),
        2 => {
            // A host whose memory is in another order.
            let host = strided(shape, random)?;
            let order = dim_order(shape.len(), random);
            StickLayout::with_dim_order(shape, Some(host.stride()), dtype(random), &order)?
                .lower_to_layout()
        }
        3 => {
            let sticks = in_order(shape, random)?;
            let to = random.number(shape.len());
            sticks.restickify_along(to).unwrap_or(sticks).lower_to_layout()
        }
        4 | 5 => view(shape, random),
        _ => in_order(shape, random)?.lower_to_layout(),
    }
}

/// Sticks of 128, 64, 32 and 16 elements.
fn dtype(random: &mut Random) -> Dtype {
    [Dtype::Int8, Dtype::Float16, Dtype::Float32, Dtype::Int64][random.below(4)]
}

/// One time in six with one element in each stick.
fn dim_order(rank: usize, random: &mut Random) -> Vec<i64> {
    let mut order: Vec<i64> =
        random.order(rank).into_iter().map(|d| i64::try_from(d).expect("small")).collect();
    if random.below(6) == 0 {
        order.push(-1);
    }
    order
}

fn in_order(shape: &[i64], random: &mut Random) -> Result<StickLayout> {
    let order = dim_order(shape.len(), random);
    StickLayout::with_dim_order(shape, None, dtype(random), &order)
}

/// Dense memory in a random order of the dimensions.
fn strided(shape: &[i64], random: &mut Random) -> Result<StridedLayout> {
    let mut stride = vec![0; shape.len()];
    let mut weight = 1;
    for d in random.order(shape.len()) {
        stride[d] = weight;
        weight *= shape[d];
    }
    Ok(StridedLayout::new(shape, &stride, 0)?)
}

/// A slice of a larger tensor of sticks, its dimensions in a random order.
fn view(shape: &[i64], random: &mut Random) -> Result<Layout> {
    let order = random.order(shape.len());
    let mut whole = Vec::new();
    let mut begins = Vec::new();
    for d in &order {
        let begin = if random.below(2) == 0 { 0 } else { random.number(70) };
        let after = if random.below(2) == 0 { 0 } else { random.number(20) };
        begins.push(begin);
        whole.push(shape[*d] + begin + after);
    }
    let sticks = in_order(&whole, random)?;
    let own = StridedLayout::new_contiguous(&whole)?;
    let mut stride = vec![0; shape.len()];
    for (k, d) in order.iter().enumerate() {
        stride[*d] = own.stride()[k];
    }
    let offset = begins.iter().zip(own.stride()).map(|(b, s)| b * s).sum();
    sticks.lower_view(&StridedLayout::new(shape, &stride, offset)?)
}
