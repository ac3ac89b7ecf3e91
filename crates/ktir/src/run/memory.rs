//! Flat memory, the scratchpads, and the core that wrote each element.

use super::access::KtirByteSpace;
use super::budget::KtirRunBudget;
use super::error::KtirFault;
use super::value::KtirElements;
use super::{BTreeMap, KtirArray};
use crate::types::KtirElem;
use std::rc::Rc;
use zellige_float::{Converter, Format};

/// The address of the first array.
// Upstream's allocator begins here, in sticks of 128 bytes, so that recorded addresses agree. It
// also makes a pointer of 0, or a small number taken for a pointer, an error.
const FIRST_ARRAY_ADDRESS: usize = 0x10000;

/// The alignment of arrays, in bytes.
const ARRAY_ALIGNMENT_BYTES: usize = 128;

/// Marks an element that no core has written.
// Cores are below 4096, so 16 bits hold every number of a core and this mark; the table has one
// entry per element and would otherwise outgrow arrays of bytes.
const NO_WRITER: u16 = u16::MAX;

/// Warnings that are kept; more of the same kind tell nothing new.
const MAX_WARNINGS: usize = 16;

#[derive(Debug)]
struct KtirArrayArea {
    name: String,
    start: usize,
    end: usize,
    /// The size of an element in bytes.
    unit: usize,
    /// The core that wrote each element; empty until one is written.
    writers: Vec<u16>,
}

#[derive(Debug)]
pub(super) struct KtirMemory {
    bytes: Vec<u8>,
    areas: Vec<KtirArrayArea>,
    pads: Vec<Vec<u8>>,
    pad_size: usize,
    meter: Rc<KtirRunBudget>,
    /// Whether accesses beyond arrays are let pass, as ktir-cpu does.
    compat: bool,
    /// What was let pass and should be looked at.
    pub(super) warnings: Vec<String>,
}

impl KtirMemory {
    pub(super) fn new(
        spare: usize,
        meter: &Rc<KtirRunBudget>,
        compat: bool,
    ) -> Result<KtirMemory, KtirFault> {
        meter.take_bytes(spare as u64)?;
        let mut areas = Vec::new();
        if spare > 0 {
            let name = "memory".to_string();
            areas.push(KtirArrayArea { name, start: 0, end: spare, unit: 1, writers: Vec::new() });
        }
        let meter = meter.clone();
        let (bytes, pads, warnings) = (vec![0; spare], Vec::new(), Vec::new());
        Ok(KtirMemory { bytes, areas, pads, pad_size: 0, meter, compat, warnings })
    }

    /// Places an array in memory and returns the index of its first element.
    pub(super) fn place_array(&mut self, name: &str, array: &KtirArray) -> Result<i64, KtirFault> {
        let bad = |reason: String| KtirFault::BadArgument { name: name.into(), reason };
        let unit = array.elem.byte_size();
        check_array_size(name, array)?;
        self.meter.take_bytes(array.bytes.len() as u64)?;
        let start =
            self.bytes.len().max(FIRST_ARRAY_ADDRESS).next_multiple_of(ARRAY_ALIGNMENT_BYTES);
        // The padding up to the next stick belongs to no area, so an access that runs over the end
        // is refused.
        let end = start + array.bytes.len();
        self.bytes.resize(end.next_multiple_of(ARRAY_ALIGNMENT_BYTES), 0);
        self.bytes[start..end].copy_from_slice(&array.bytes);
        self.areas.push(KtirArrayArea { name: name.into(), start, end, unit, writers: Vec::new() });
        i64::try_from(start / unit).map_err(|_| bad("is too large".to_string()))
    }

    pub(super) fn is_compatible(&self) -> bool {
        self.compat
    }

    pub(super) fn add_scratchpads(&mut self, cores: usize, size: usize) {
        // Empty until they are written: most kernels use a small part of a few scratchpads.
        self.pads = vec![Vec::new(); cores];
        self.pad_size = size;
    }

    /// The arrays as the kernel left them.
    pub(super) fn read_back(
        &self,
        mut arrays: BTreeMap<String, KtirArray>,
    ) -> BTreeMap<String, KtirArray> {
        for area in &self.areas {
            if let Some(array) = arrays.get_mut(&area.name) {
                // Every array is read back, not only those that were written: the dialect has no
                // output arguments.
                array.bytes.copy_from_slice(&self.bytes[area.start..area.end]);
            }
        }
        arrays
    }

    fn find_area(&self, start: i64, end: i64) -> Result<usize, KtirFault> {
        let inside = |a: &KtirArrayArea| {
            usize::try_from(start).is_ok_and(|s| s >= a.start)
                && usize::try_from(end).is_ok_and(|e| e <= a.end)
        };
        // Arrays are searched before the usable beginning of memory, which is the first area and
        // may reach over them.
        self.areas.iter().rposition(inside).ok_or_else(|| {
            // The nearest array before the address is the one that was most likely overrun.
            let before =
                self.areas.iter().rev().find(|a| i64::try_from(a.start).is_ok_and(|s| s <= start));
            let near = before.map_or(String::new(), |a| {
                format!("; `{}` has bytes {}..{}", a.name, a.start, a.end)
            });
            KtirFault::Address { start, end, near }
        })
    }

    /// Reads runs of `len` elements each.
    pub(super) fn read_runs(
        &mut self,
        runs: &[(KtirByteSpace, i64)],
        len: usize,
        elem: KtirElem,
    ) -> Result<KtirElements, KtirFault> {
        let size = elem.byte_size() * len;
        let mut raw = Vec::with_capacity(runs.len() * size);
        for (place, at) in runs {
            let end = at.saturating_add(i64::try_from(size).unwrap_or(i64::MAX));
            match place {
                KtirByteSpace::Global => {
                    // Reading is checked as writing is: a pointer that strays into the next array
                    // reads wrong numbers silently.
                    match self.find_area(*at, end) {
                        Err(_) if self.compat => {
                            raw.resize(raw.len() + size, 0);
                            continue;
                        }
                        found => found?,
                    };
                    let from = usize::try_from(*at).unwrap_or(0);
                    raw.extend_from_slice(&self.bytes[from..from + size]);
                }
                KtirByteSpace::Nowhere => raw.resize(raw.len() + size, 0),
                KtirByteSpace::Pad(core) => {
                    let pad = self.scratchpad_bytes(*core, *at, end)?;
                    let from = usize::try_from(*at).unwrap_or(0);
                    raw.extend_from_slice(&pad[from..from + size]);
                }
            }
        }
        Ok(decode_elements(&raw, elem))
    }

    /// Writes runs of `len` elements each, for a core.
    pub(super) fn write_runs(
        &mut self,
        runs: &[(KtirByteSpace, i64)],
        len: usize,
        elem: KtirElem,
        data: &KtirElements,
        core: usize,
    ) -> Result<(), KtirFault> {
        let size = elem.byte_size() * len;
        let raw = encode_elements(data, elem);
        // The verifier limits grids to 4096 cores, so the conversion cannot fail.
        let writer = u16::try_from(core).unwrap_or(NO_WRITER - 1);
        for (i, (place, at)) in runs.iter().enumerate() {
            let end = at.saturating_add(i64::try_from(size).unwrap_or(i64::MAX));
            let from = usize::try_from(*at).unwrap_or(0);
            let part = &raw[i * size..(i + 1) * size];
            match place {
                KtirByteSpace::Global => {
                    let area = match self.find_area(*at, end) {
                        Err(_) if self.compat => continue,
                        found => found?,
                    };
                    let same = self.compat && self.bytes[from..from + size] == *part;
                    let area = &mut self.areas[area];
                    // Made on the first write, because inputs are often large and never written.
                    if area.writers.is_empty() {
                        let elements = (area.end - area.start).div_ceil(area.unit);
                        self.meter.take_bytes(2 * elements as u64)?;
                        area.writers = vec![NO_WRITER; elements];
                    }
                    let first = (from - area.start) / area.unit;
                    let last = (from + size - area.start).div_ceil(area.unit);
                    for (k, w) in area.writers[first..last].iter_mut().enumerate() {
                        // Two cores that write one element are a race even when they write the same
                        // value: on the device the order is not defined. A core may overwrite its
                        // own elements.
                        if *w != NO_WRITER && *w != writer {
                            let (array, other) = (area.name.clone(), usize::from(*w));
                            // The order does not matter where both write the same.
                            if same {
                                if self.warnings.len() < MAX_WARNINGS {
                                    self.warnings.push(format!(
                                        "cores {other} and {core} both write element {} of `{array}`, with equal values",
                                        first + k
                                    ));
                                }
                                break;
                            }
                            return Err(KtirFault::Race { other, array, element: first + k });
                        }
                        *w = writer;
                    }
                    self.bytes[from..from + size].copy_from_slice(part);
                }
                KtirByteSpace::Nowhere => {}
                KtirByteSpace::Pad(core) => {
                    let pad = self.scratchpad_bytes(*core, *at, end)?;
                    pad[from..from + size].copy_from_slice(part);
                }
            }
        }
        Ok(())
    }

    /// The bytes of a scratchpad, grown to `end`.
    fn scratchpad_bytes(
        &mut self,
        core: usize,
        start: i64,
        end: i64,
    ) -> Result<&mut Vec<u8>, KtirFault> {
        let limit = self.pad_size;
        let fits = start >= 0 && usize::try_from(end).is_ok_and(|e| e <= limit);
        match (self.pads.get_mut(core), fits) {
            (Some(pad), true) => {
                let end = usize::try_from(end).unwrap_or(0);
                // The host's memory is charged as the scratchpad grows, not by its full size.
                if pad.len() < end {
                    self.meter.take_bytes((end - pad.len()) as u64)?;
                    pad.resize(end, 0);
                }
                Ok(pad)
            }
            (None, _) => {
                Err(KtirFault::Groups(format!("there is no core {core} whose LX could be used")))
            }
            _ => {
                let near = format!("; LX of core {core} has {limit} bytes");
                Err(KtirFault::Address { start, end, near })
            }
        }
    }
}

/// Refuses an array whose bytes are not those of its shape.
pub(super) fn check_array_size(name: &str, array: &KtirArray) -> Result<(), KtirFault> {
    let n = array.shape.iter().try_fold(1_usize, |n, d| n.checked_mul(usize::try_from(*d).ok()?));
    if n.and_then(|n| n.checked_mul(array.elem.byte_size())) == Some(array.bytes.len()) {
        return Ok(());
    }
    let (have, elem, shape) = (array.bytes.len(), array.elem, &array.shape);
    let reason = format!("has {have} bytes, which are not those of {elem} with shape {shape:?}");
    Err(KtirFault::BadArgument { name: name.into(), reason })
}

/// Converts bytes to elements.
pub(super) fn decode_elements(raw: &[u8], elem: KtirElem) -> KtirElements {
    let n = raw.len() / elem.byte_size();
    if elem.is_float() {
        let wide = convert_format(raw, elem.format(), Format::F32, n);
        let word = |c: &[u8]| f32::from_le_bytes([c[0], c[1], c[2], c[3]]);
        KtirElements::F(wide.chunks_exact(4).map(word).collect())
    } else {
        let wide = convert_format(raw, elem.format(), Format::I64, n);
        let word = |c: &[u8]| i64::from_le_bytes([c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]]);
        KtirElements::I(wide.chunks_exact(8).map(word).collect())
    }
}

/// Converts elements to bytes. Elements hold values of their type, so nothing is rounded.
pub(super) fn encode_elements(data: &KtirElements, elem: KtirElem) -> Vec<u8> {
    match data {
        KtirElements::F(v) => {
            let wide: Vec<u8> = v.iter().flat_map(|x| x.to_le_bytes()).collect();
            convert_format(&wide, Format::F32, elem.format(), v.len())
        }
        KtirElements::I(v) => {
            let wide: Vec<u8> = v.iter().flat_map(|x| x.to_le_bytes()).collect();
            convert_format(&wide, Format::I64, elem.format(), v.len())
        }
    }
}

fn convert_format(raw: &[u8], from: Format, to: Format, n: usize) -> Vec<u8> {
    // A conversion of a format to itself would still visit every element.
    if from == to {
        return raw.to_vec();
    }
    let mut out = vec![0; n * to.byte_size()];
    let done = Converter::new(from, to).convert(raw, &mut out, n);
    debug_assert!(done.is_ok(), "both buffers hold the elements");
    out
}
