//! Addresses without bank conflicts for fragments that are linear over bits: the element of thread `t` and register `r` is the XOR
//! of one number for each bit of `t` and `r`. Such are all fragments with powers of two.
//!
//! A wavefront serves the lanes that differ in the lowest bits of their number. The elements of those lanes span a subspace,
//! one for the side that writes and one for the side that reads. Any two subspaces of one dimension have a common
//! complement; elements that differ by a member of it may share a bank, and no two lanes of a wavefront do.

use crate::fragment::{BlockFragment, THREADS_OF_WARP};

/// The element of each bit of the lane, the warp and the register.
struct LinearFragment {
    lanes: Vec<usize>,
    registers: Vec<usize>,
}

fn read_linear(fragment: &BlockFragment) -> Option<LinearFragment> {
    let (threads, registers) = (fragment.threads(), fragment.registers());
    if !threads.is_power_of_two() || !registers.is_power_of_two() || fragment.element(0, 0)? != 0 {
        return None;
    }
    let element = |t: usize, r: usize| fragment.element(t, r).map(|e| e as usize);
    let bits = |count: usize| count.trailing_zeros() as usize;
    let of_threads: Vec<usize> =
        (0..bits(threads)).map(|b| element(1 << b, 0)).collect::<Option<_>>()?;
    let of_registers: Vec<usize> =
        (0..bits(registers)).map(|b| element(0, 1 << b)).collect::<Option<_>>()?;
    for t in 0..threads {
        let base = xor_of(&of_threads, t);
        for r in 0..registers {
            if element(t, r)? != base ^ xor_of(&of_registers, r) {
                return None;
            }
        }
    }
    let lanes = of_threads[..bits(THREADS_OF_WARP).min(of_threads.len())].to_vec();
    Some(LinearFragment { lanes, registers: of_registers })
}

fn xor_of(vectors: &[usize], number: usize) -> usize {
    vectors.iter().enumerate().filter(|(b, _)| number >> b & 1 == 1).fold(0, |x, (_, v)| x ^ v)
}

/// Vectors over GF(2) that are independent, in the order in which they came.
struct Basis {
    vectors: Vec<usize>,
    /// By highest bit: the reduced vector, and which of `vectors` it is the sum of.
    reduced: Vec<Option<(usize, usize)>>,
}

impl Basis {
    fn new(bits: usize) -> Basis {
        Basis { vectors: Vec::new(), reduced: vec![None; bits] }
    }

    /// What is left of a vector, and the members whose sum was taken away.
    fn reduce(&self, mut vector: usize) -> (usize, usize) {
        let mut members = 0;
        while vector != 0 {
            let Some((other, sum)) = self.reduced[vector.ilog2() as usize] else { break };
            vector ^= other;
            members ^= sum;
        }
        (vector, members)
    }

    /// Adds a vector that is independent of the others.
    fn add(&mut self, vector: usize) -> bool {
        let (rest, members) = self.reduce(vector);
        if rest == 0 {
            return false;
        }
        self.reduced[rest.ilog2() as usize] = Some((rest, members ^ 1 << self.vectors.len()));
        self.vectors.push(vector);
        true
    }
}

/// Of each bit of an element's number, what it adds (by XOR) to the address, such that the `lane_bits` lowest bits of a
/// lane's number choose different banks on both sides and the lowest `vector_bits` of a register's stay adjacent. None
/// where a fragment is not linear, or the two sides have no such registers in common.
pub(crate) fn conflict_free_columns(
    source: &BlockFragment,
    wanted: &BlockFragment,
    vector_bits: usize,
    subword_bits: usize,
    lane_bits: usize,
) -> Option<Vec<usize>> {
    let elements = usize::try_from(source.elements()).ok().filter(|e| e.is_power_of_two())?;
    let bits = elements.trailing_zeros() as usize;
    let (a, b) = (read_linear(source)?, read_linear(wanted)?);
    let vectors = a.registers.get(..vector_bits)?;
    if b.registers.get(..vector_bits)? != vectors {
        return None;
    }
    let mut basis = Basis::new(bits);
    for vector in vectors {
        if !basis.add(*vector) {
            return None;
        }
    }
    // The lanes of a wavefront, without those that hold copies of each other's elements.
    let lanes = |f: &LinearFragment| -> Vec<usize> {
        let mut own = Basis::new(bits);
        vectors.iter().for_each(|v| {
            own.add(*v);
        });
        f.lanes.iter().take(lane_bits).copied().filter(|v| own.add(*v)).collect()
    };
    let (of_a, of_b) = (lanes(&a), lanes(&b));
    // A basis of what both have, then what each has alone.
    let span = |list: &[usize]| {
        let mut span = Basis::new(bits);
        vectors.iter().chain(list).for_each(|v| {
            span.add(*v);
        });
        span
    };
    let in_both = intersect(&of_a, &of_b, vectors, bits);
    let alone = |list: &[usize]| -> Vec<usize> {
        let mut grown = span(&in_both);
        list.iter().copied().filter(|v| grown.add(*v)).collect()
    };
    let (mut only_a, mut only_b) = (alone(&of_a), alone(&of_b));
    // Both sides get one dimension: copies leave fewer lanes on one of them.
    let mut all = span(&[in_both.as_slice(), &only_a, &only_b].concat());
    let free: Vec<usize> = (0..bits).map(|i| 1 << i).filter(|v| all.add(*v)).collect();
    let mut free = free.into_iter();
    while only_a.len() < only_b.len() {
        only_a.push(free.next()?);
    }
    while only_b.len() < only_a.len() {
        only_b.push(free.next()?);
    }
    let complement: Vec<usize> = only_a.iter().zip(&only_b).map(|(x, y)| x ^ y).collect();
    let banks = [in_both, only_a].concat();
    // Address bits from the lowest: vectors, what is left of a word, banks, everything else.
    let mut rest: Vec<usize> = complement.into_iter().chain(free).collect();
    let mut chosen = span(&[banks.as_slice(), &rest].concat());
    rest.extend((0..bits).map(|i| 1 << i).filter(|v| chosen.add(*v)));
    let within = subword_bits.saturating_sub(vector_bits).min(rest.len());
    let inside_word: Vec<usize> = rest.drain(..within).collect();
    for vector in inside_word.iter().chain(&banks).chain(&rest) {
        if !basis.add(*vector) {
            return None;
        }
    }
    if basis.vectors.len() != bits {
        return None;
    }
    Some((0..bits).map(|bit| basis.reduce(1 << bit).1).collect())
}

/// A basis of the intersection of two spans, modulo a third.
fn intersect(a: &[usize], b: &[usize], modulo: &[usize], bits: usize) -> Vec<usize> {
    // Zassenhaus: every vector of b that is a sum of vectors of a (modulo the third) and of vectors of b before it gives
    // the part of a in that sum.
    let mut known = Basis::new(bits);
    modulo.iter().for_each(|v| {
        known.add(*v);
    });
    let first = known.vectors.len();
    a.iter().for_each(|v| {
        known.add(*v);
    });
    let last = known.vectors.len();
    let mut found = Vec::new();
    for vector in b {
        if !known.add(*vector) {
            let (_, members) = known.reduce(*vector);
            let part = (first..last)
                .filter(|i| members >> i & 1 == 1)
                .fold(0, |x, i| x ^ known.vectors[i]);
            found.push(part);
        }
    }
    found
}
