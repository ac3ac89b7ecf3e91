//! Memory that the cores of a planned kernel share, and the record of who wrote what.

use super::super::access::KtirByteSpace;
use super::super::error::KtirFault;
use super::super::memory::{decode_elements, encode_elements};
use super::super::value::KtirElements;
use super::super::{BTreeMap, KtirArray};
use super::lanes::{read_halves, write_halves};
use crate::number::{decode_bits, encode_bits};
use crate::types::KtirElem;
use std::sync::{PoisonError, RwLock};

/// The largest number of loops of a piece; a piece with more is resolved element by element.
pub(super) const MAX_PIECE_LOOPS: usize = 6;

/// How many elements a loop visits, and how far apart they are in memory and in the tile.
type PieceLoop = (i64, i64, i64);

/// Elements that a nest of loops visits, in memory and in a tile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) place: KtirByteSpace,
    /// The index of the first element in memory.
    pub(super) first: i64,
    /// The position of the first element in the tile.
    pub(super) at: i64,
    /// Count, stride in memory and stride in the tile of each loop, the last one innermost.
    loops: [PieceLoop; MAX_PIECE_LOOPS],
    rank: usize,
}

impl Piece {
    /// Makes a piece; loops of one element are left out and loops that continue each other become one. `None` where
    /// too many remain.
    pub(super) fn new(
        place: KtirByteSpace,
        first: i64,
        at: i64,
        loops: impl Iterator<Item = (i64, i64, i64)>,
    ) -> Option<Piece> {
        let mut piece = Piece { place, first, at, loops: [(1, 0, 0); MAX_PIECE_LOOPS], rank: 0 };
        for (n, source, tile) in loops {
            if n == 1 {
                continue;
            }
            if let Some((count, s, t)) = piece.rank.checked_sub(1).map(|r| &mut piece.loops[r])
                && source.checked_mul(n) == Some(*s)
                && tile.checked_mul(n) == Some(*t)
            {
                (*count, *s, *t) = (count.checked_mul(n)?, source, tile);
                continue;
            }
            *piece.loops.get_mut(piece.rank)? = (n, source, tile);
            piece.rank += 1;
        }
        Some(piece)
    }

    /// The loops outside of the rows, and the elements of a row with their strides.
    fn rows(&self) -> (&[PieceLoop], PieceLoop) {
        match self.loops[..self.rank].split_last() {
            Some((last, outer)) => (outer, *last),
            None => (&[], (1, 1, 1)),
        }
    }

    /// The first and one past the last element in memory.
    pub(super) fn range(&self) -> Option<(i64, i64)> {
        let (mut low, mut high) = (self.first, self.first);
        for (n, s, _) in &self.loops[..self.rank] {
            let far = s.checked_mul(n - 1)?;
            if far < 0 {
                low = low.checked_add(far)?;
            } else {
                high = high.checked_add(far)?;
            }
        }
        Some((low, high.checked_add(1)?))
    }

    /// Calls `f` with the position in memory and in the tile of each row.
    fn visit_rows(&self, mut f: impl FnMut(i64, i64)) {
        let (outer, _) = self.rows();
        let mut counts = [0_i64; MAX_PIECE_LOOPS];
        let (mut from, mut to) = (self.first, self.at);
        loop {
            f(from, to);
            let mut d = outer.len();
            loop {
                if d == 0 {
                    return;
                }
                d -= 1;
                let (n, s, t) = outer[d];
                counts[d] += 1;
                from += s;
                to += t;
                if counts[d] < n {
                    break;
                }
                from -= s * n;
                to -= t * n;
                counts[d] = 0;
            }
        }
    }

    /// The sticks of its rows as ranges, appended to a list; ascending where the rows are.
    pub(super) fn list_sticks(&self, size: i64, out: &mut Vec<(i64, i64)>) {
        let (_, (n, s, _)) = self.rows();
        self.visit_rows(|from, _| {
            if s == 1 {
                let start = from * size;
                out.push((start.div_euclid(128), (start + n * size - 1).div_euclid(128)));
            } else {
                for i in 0..n {
                    let start = (from + i * s) * size;
                    out.push((start.div_euclid(128), (start + size - 1).div_euclid(128)));
                }
            }
        });
    }

    /// The number of its sticks where that takes no list: one row, or rows with whole sticks between them.
    pub(super) fn count_sticks(&self, size: i64) -> Option<u64> {
        let (outer, (n, s, _)) = self.rows();
        if s != 1 {
            return None;
        }
        let (start, bytes) = (self.first * size, n * size);
        let (first, last) = (start.div_euclid(128), (start + bytes - 1).div_euclid(128));
        let each = last - first + 1;
        match outer {
            [] => u64::try_from(each).ok(),
            &[(rows, stride, _)] if stride * size % 128 == 0 && stride * size / 128 >= each => {
                u64::try_from(rows * each).ok()
            }
            _ => None,
        }
    }

    pub(super) fn len(&self) -> i64 {
        self.loops[..self.rank].iter().map(|l| l.0).product()
    }

    /// Contiguous bytes, and how many such pieces there are.
    pub(super) fn bursts(&self, size: i64) -> (u64, u64) {
        let (_, (n, s, _)) = self.rows();
        let run = if s == 1 { n } else { 1 };
        let count = self.len() / run.max(1);
        (u64::try_from(run * size).unwrap_or(0), u64::try_from(count).unwrap_or(0))
    }
}

/// An array in memory.
#[derive(Debug)]
pub(super) struct SharedArea {
    name: String,
    start: i64,
    end: i64,
    unit: i64,
    bytes: RwLock<Vec<u8>>,
}

/// Bytes that a core wrote: rows of one length at equal distances.
#[derive(Debug, Clone, Copy)]
pub(super) struct WrittenRows {
    pub(super) area: usize,
    start: i64,
    bytes: i64,
    rows: i64,
    stride: i64,
    pub(super) core: usize,
    pub(super) step: usize,
}

/// All memory of a run.
#[derive(Debug)]
pub(super) struct SharedMemory {
    areas: Vec<SharedArea>,
    pads: Vec<RwLock<Vec<u8>>>,
    pad_size: usize,
    end: i64,
}

/// The address of the first array, and the alignment of all: those of the plain interpreter.
const FIRST_ARRAY_ADDRESS: i64 = 0x10000;
const ARRAY_ALIGNMENT_BYTES: i64 = 128;

impl SharedMemory {
    pub(super) fn new(cores: usize, pad_size: usize) -> SharedMemory {
        let pads = (0..cores).map(|_| RwLock::new(Vec::new())).collect();
        SharedMemory { areas: Vec::new(), pads, pad_size, end: 0 }
    }

    /// Takes an array into memory, without a copy, and returns the index of its first element.
    pub(super) fn place_array(
        &mut self,
        name: &str,
        array: &mut KtirArray,
    ) -> Result<i64, KtirFault> {
        let bad = |reason: String| KtirFault::BadArgument { name: name.into(), reason };
        let unit = array.elem.byte_size();
        let large = || bad("is too large".to_string());
        let unit = i64::try_from(unit).map_err(|_| large())?;
        let start = self.end.max(FIRST_ARRAY_ADDRESS);
        let start = start.checked_add(ARRAY_ALIGNMENT_BYTES - 1).ok_or_else(large)?
            / ARRAY_ALIGNMENT_BYTES
            * ARRAY_ALIGNMENT_BYTES;
        let bytes = i64::try_from(array.bytes.len()).map_err(|_| large())?;
        let end = start.checked_add(bytes).ok_or_else(large)?;
        self.end = end;
        let bytes = RwLock::new(std::mem::take(&mut array.bytes));
        self.areas.push(SharedArea { name: name.into(), start, end, unit, bytes });
        Ok(start / unit)
    }

    /// Gives the arrays back as the kernel left them.
    pub(super) fn return_arrays(self, arrays: &mut BTreeMap<String, KtirArray>) {
        for area in self.areas {
            if let Some(array) = arrays.get_mut(&area.name) {
                array.bytes = area.bytes.into_inner().unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn find_area(&self, start: i64, end: i64) -> Result<usize, KtirFault> {
        self.areas.iter().rposition(|a| start >= a.start && end <= a.end).ok_or_else(|| {
            let before = self.areas.iter().rev().find(|a| a.start <= start);
            let near = before.map_or(String::new(), |a| {
                format!("; `{}` has bytes {}..{}", a.name, a.start, a.end)
            });
            KtirFault::Address { start, end, near }
        })
    }

    /// Whether all of a piece is in one array, or in one scratchpad.
    pub(super) fn holds_piece(&self, piece: &Piece, size: i64) -> bool {
        let Some((low, high)) = piece.range() else { return false };
        let (Some(start), Some(end)) = (low.checked_mul(size), high.checked_mul(size)) else {
            return false;
        };
        match piece.place {
            KtirByteSpace::Global => self.find_area(start, end).is_ok(),
            KtirByteSpace::Nowhere => false,
            KtirByteSpace::Pad(core) => {
                core < self.pads.len()
                    && start >= 0
                    && usize::try_from(end).is_ok_and(|e| e <= self.pad_size)
            }
        }
    }

    /// Runs `f` on the bytes from `start` to `end`.
    fn with_bytes<T>(
        &self,
        place: KtirByteSpace,
        start: i64,
        end: i64,
        f: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, KtirFault> {
        let at = |n: i64| usize::try_from(n).unwrap_or(0);
        match place {
            KtirByteSpace::Global => {
                let area = &self.areas[self.find_area(start, end)?];
                let bytes = area.bytes.read().unwrap_or_else(PoisonError::into_inner);
                Ok(f(&bytes[at(start - area.start)..at(end - area.start)]))
            }
            // Planned kernels are not lenient.
            KtirByteSpace::Nowhere => Err(KtirFault::Overflow("an address")),
            KtirByteSpace::Pad(core) => {
                self.grow_pad(core, start, end)?;
                let bytes = self.pads[core].read().unwrap_or_else(PoisonError::into_inner);
                Ok(f(&bytes[at(start)..at(end)]))
            }
        }
    }

    fn with_bytes_mut(
        &self,
        place: KtirByteSpace,
        start: i64,
        end: i64,
        f: impl FnOnce(&mut [u8]),
    ) -> Result<Option<(usize, i64)>, KtirFault> {
        let at = |n: i64| usize::try_from(n).unwrap_or(0);
        match place {
            KtirByteSpace::Global => {
                let number = self.find_area(start, end)?;
                let area = &self.areas[number];
                let mut bytes = area.bytes.write().unwrap_or_else(PoisonError::into_inner);
                f(&mut bytes[at(start - area.start)..at(end - area.start)]);
                Ok(Some((number, area.start)))
            }
            KtirByteSpace::Nowhere => Err(KtirFault::Overflow("an address")),
            KtirByteSpace::Pad(core) => {
                self.grow_pad(core, start, end)?;
                let mut bytes = self.pads[core].write().unwrap_or_else(PoisonError::into_inner);
                f(&mut bytes[at(start)..at(end)]);
                Ok(None)
            }
        }
    }

    fn grow_pad(&self, core: usize, start: i64, end: i64) -> Result<(), KtirFault> {
        let limit = self.pad_size;
        let Some(pad) = self.pads.get(core) else {
            return Err(KtirFault::Groups(format!(
                "there is no core {core} whose LX could be used"
            )));
        };
        let fits = start >= 0 && usize::try_from(end).is_ok_and(|e| e <= limit);
        if !fits {
            let near = format!("; LX of core {core} has {limit} bytes");
            return Err(KtirFault::Address { start, end, near });
        }
        let end = usize::try_from(end).unwrap_or(0);
        let mut pad = pad.write().unwrap_or_else(PoisonError::into_inner);
        if pad.len() < end {
            pad.resize(end, 0);
        }
        Ok(())
    }

    /// Reads a piece into a tile of floats.
    pub(super) fn read_floats(
        &self,
        piece: &Piece,
        elem: KtirElem,
        out: &mut [f32],
    ) -> Result<(), KtirFault> {
        let size = i64::try_from(elem.byte_size()).unwrap_or(8);
        let (low, high) = piece.range().ok_or(KtirFault::Overflow("an address"))?;
        let (_, (n, s, t)) = piece.rows();
        let at = |n: i64| usize::try_from(n).unwrap_or(0);
        let (n, each) = (at(n), elem.byte_size());
        self.with_bytes(piece.place, low * size, high * size, |bytes| {
            piece.visit_rows(|from, to| {
                let start = at((from - low) * size);
                if s == 1 && t == 1 {
                    let (raw, to) = (&bytes[start..start + n * each], &mut out[at(to)..at(to) + n]);
                    read_float_row(raw, elem, to);
                } else {
                    for i in 0..n {
                        let k = i64::try_from(i).unwrap_or(0);
                        let start = at((from + k * s - low) * size);
                        let bits = read_bits(&bytes[start..start + each]);
                        out[at(to + k * t)] = decode_bits(bits, elem);
                    }
                }
            });
        })
    }

    /// Reads a piece into a tile of integers.
    pub(super) fn read_ints(
        &self,
        piece: &Piece,
        elem: KtirElem,
        out: &mut [i64],
    ) -> Result<(), KtirFault> {
        let size = i64::try_from(elem.byte_size()).unwrap_or(8);
        let (low, high) = piece.range().ok_or(KtirFault::Overflow("an address"))?;
        let (_, (n, s, t)) = piece.rows();
        let at = |n: i64| usize::try_from(n).unwrap_or(0);
        let each = elem.byte_size();
        self.with_bytes(piece.place, low * size, high * size, |bytes| {
            piece.visit_rows(|from, to| {
                for k in 0..n {
                    let start = at((from + k * s - low) * size);
                    out[at(to + k * t)] = read_integer(&bytes[start..start + each], elem);
                }
            });
        })
    }

    /// Reads one integer at a byte.
    pub(super) fn read_one_integer(
        &self,
        place: KtirByteSpace,
        byte: i64,
        elem: KtirElem,
    ) -> Result<i64, KtirFault> {
        let size = i64::try_from(elem.byte_size()).unwrap_or(8);
        self.with_bytes(place, byte, byte.saturating_add(size), |b| read_integer(b, elem))
    }

    /// Writes a piece of a tile and notes which bytes those are.
    pub(super) fn write_piece(
        &self,
        piece: &Piece,
        elem: KtirElem,
        floats: &[f32],
        ints: &[i64],
        by: (usize, usize),
        written: &mut Vec<WrittenRows>,
    ) -> Result<(), KtirFault> {
        let size = i64::try_from(elem.byte_size()).unwrap_or(8);
        let (low, high) = piece.range().ok_or(KtirFault::Overflow("an address"))?;
        let (outer, (n, s, t)) = piece.rows();
        let at = |n: i64| usize::try_from(n).unwrap_or(0);
        let (count, each) = (at(n), elem.byte_size());
        let area = self.with_bytes_mut(piece.place, low * size, high * size, |bytes| {
            piece.visit_rows(|from, to| {
                let start = at((from - low) * size);
                if s == 1 && t == 1 {
                    let raw = &mut bytes[start..start + count * each];
                    if elem.is_float() {
                        write_float_row(&floats[at(to)..at(to) + count], elem, raw);
                    } else {
                        write_integer_row(&ints[at(to)..at(to) + count], elem, raw);
                    }
                    return;
                }
                for k in 0..n {
                    let start = at((from + k * s - low) * size);
                    let i = at(to + k * t);
                    let raw = &mut bytes[start..start + each];
                    if elem.is_float() {
                        let bits = encode_bits(f64::from(floats[i]), elem).to_le_bytes();
                        raw.copy_from_slice(&bits[..each]);
                    } else {
                        write_integer_row(&ints[i..=i], elem, raw);
                    }
                }
            });
        })?;
        let Some((area, base)) = area else { return Ok(()) };
        let (core, step) = by;
        let mut note = |start: i64, bytes: i64, rows: i64, stride: i64| {
            let row = WrittenRows { area, start, bytes, rows, stride, core, step };
            // Rows that continue the last ones of the same step are one record.
            if let Some(last) = written.last_mut()
                && (last.area, last.core, last.step) == (area, core, step)
                && last.rows == 1
                && rows == 1
                && last.start + last.bytes == start
            {
                last.bytes += bytes;
                return;
            }
            written.push(row);
        };
        match (outer, s) {
            ([], 1) => note(piece.first * size - base, n * size, 1, 0),
            (&[(rows, stride, _)], 1) => {
                note(piece.first * size - base, n * size, rows, stride * size);
            }
            _ => piece.visit_rows(|from, _| {
                if s == 1 {
                    note(from * size - base, n * size, 1, 0);
                } else {
                    note(from * size - base, size, n, s * size);
                }
            }),
        }
        Ok(())
    }

    /// Writes one element.
    pub(super) fn write_run(
        &self,
        (place, byte): (KtirByteSpace, i64),
        raw: &[u8],
        by: (usize, usize),
        written: &mut Vec<WrittenRows>,
    ) -> Result<(), KtirFault> {
        let len = i64::try_from(raw.len()).unwrap_or(i64::MAX);
        let end = byte.saturating_add(len);
        let area = self.with_bytes_mut(place, byte, end, |bytes| bytes.copy_from_slice(raw))?;
        if let Some((area, base)) = area {
            let (core, step) = by;
            let start = byte - base;
            written.push(WrittenRows { area, start, bytes: len, rows: 1, stride: 0, core, step });
        }
        Ok(())
    }

    /// Reads bytes.
    pub(super) fn read_run(
        &self,
        (place, byte): (KtirByteSpace, i64),
        out: &mut [u8],
    ) -> Result<(), KtirFault> {
        let end = byte.saturating_add(i64::try_from(out.len()).unwrap_or(i64::MAX));
        self.with_bytes(place, byte, end, |bytes| out.copy_from_slice(bytes))
    }

    /// The first element that a second core has written, with the record of that core.
    pub(super) fn find_race(&self, written: &[WrittenRows]) -> Option<(KtirFault, WrittenRows)> {
        let mut first: Option<(usize, KtirFault)> = None;
        for (number, area) in self.areas.iter().enumerate() {
            let of: Vec<(usize, &WrittenRows)> =
                written.iter().enumerate().filter(|(_, w)| w.area == number).collect();
            let Some(one) = of.first().map(|(_, w)| w.core) else { continue };
            if of.iter().all(|(_, w)| w.core == one) {
                continue;
            }
            // All records begin and end at multiples of a granule, so one entry of the table stands for one granule.
            let bits = of.iter().fold(4096, |bits, (_, w)| {
                bits | w.start | w.bytes | if w.rows > 1 { w.stride } else { 0 }
            });
            let granule = bits & bits.wrapping_neg();
            let len = usize::try_from((area.end - area.start) / granule + 1).unwrap_or(0);
            let mut owners = vec![u16::MAX; len];
            'records: for (order, w) in of {
                let core = u16::try_from(w.core).unwrap_or(u16::MAX - 1);
                for row in 0..w.rows {
                    let start = w.start + row * w.stride;
                    let range = usize::try_from(start / granule).unwrap_or(0)
                        ..usize::try_from((start + w.bytes) / granule).unwrap_or(0);
                    for (k, owner) in owners[range.clone()].iter_mut().enumerate() {
                        if *owner != u16::MAX && *owner != core {
                            let byte = i64::try_from(range.start + k).unwrap_or(0) * granule;
                            let element = usize::try_from(byte / area.unit).unwrap_or(0);
                            let array = area.name.clone();
                            let other = usize::from(*owner);
                            if first.as_ref().is_none_or(|(o, _)| order < *o) {
                                first = Some((order, KtirFault::Race { other, array, element }));
                            }
                            break 'records;
                        }
                        *owner = core;
                    }
                }
            }
        }
        first.map(|(order, fault)| (fault, written[order]))
    }
}

fn read_float_row(raw: &[u8], elem: KtirElem, out: &mut [f32]) {
    match elem {
        KtirElem::F16 => read_halves(raw, out),
        KtirElem::F32 => {
            for (to, raw) in out.iter_mut().zip(raw.as_chunks::<4>().0) {
                *to = f32::from_le_bytes(*raw);
            }
        }
        KtirElem::BF16 => {
            for (to, raw) in out.iter_mut().zip(raw.as_chunks::<2>().0) {
                *to = f32::from_bits(u32::from(u16::from_le_bytes(*raw)) << 16);
            }
        }
        _ => {
            if let KtirElements::F(v) = decode_elements(raw, elem) {
                out.copy_from_slice(&v);
            }
        }
    }
}

fn write_float_row(values: &[f32], elem: KtirElem, raw: &mut [u8]) {
    match elem {
        KtirElem::F16 => write_halves(values, raw),
        KtirElem::F32 => {
            for (x, raw) in values.iter().zip(raw.as_chunks_mut::<4>().0) {
                *raw = x.to_le_bytes();
            }
        }
        _ => raw.copy_from_slice(&encode_elements(&KtirElements::F(values.to_vec()), elem)),
    }
}

fn write_integer_row(values: &[i64], elem: KtirElem, raw: &mut [u8]) {
    #[allow(clippy::cast_possible_truncation, reason = "elements hold values of their type")]
    match elem {
        KtirElem::I64 | KtirElem::Index => {
            for (x, raw) in values.iter().zip(raw.as_chunks_mut::<8>().0) {
                *raw = x.to_le_bytes();
            }
        }
        KtirElem::I32 => {
            for (x, raw) in values.iter().zip(raw.as_chunks_mut::<4>().0) {
                *raw = (*x as i32).to_le_bytes();
            }
        }
        _ => raw.copy_from_slice(&encode_elements(&KtirElements::I(values.to_vec()), elem)),
    }
}

fn read_bits(raw: &[u8]) -> u64 {
    raw.iter().rev().fold(0, |bits, b| bits << 8 | u64::from(*b))
}

fn read_integer(raw: &[u8], elem: KtirElem) -> i64 {
    match (elem, raw) {
        (KtirElem::I32, &[a, b, c, d]) => i64::from(i32::from_le_bytes([a, b, c, d])),
        (KtirElem::I64 | KtirElem::Index, &[a, b, c, d, e, f, g, h]) => {
            i64::from_le_bytes([a, b, c, d, e, f, g, h])
        }
        _ => decode_elements(raw, elem).as_ints().first().copied().unwrap_or(0),
    }
}
