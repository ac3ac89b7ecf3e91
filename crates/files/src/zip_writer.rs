//! Writes the headers of a zip archive of stored entries whose sizes are known before their
//! contents.

use crate::npy;
use crate::zip::{
    CENTRAL_SIGNATURE, END_SIGNATURE, END64, EXTRA64, LOCAL_SIGNATURE, LOCATOR64, WIDE16, WIDE32,
};

/// The identifier of an extra field that only aligns what follows; Android's tools use the same
/// one.
const EXTRA_ALIGN: u16 = 0xd935;
/// 1 January 1980, the earliest date of the format, so that the same tensors give the same file.
const ENTRY_DATE: u16 = 0x0021;

/// An entry with its position.
#[derive(Debug)]
pub(crate) struct NewZipEntry {
    name: String,
    /// The position of its header.
    at: u64,
    /// The position of its content, a multiple of 64.
    pub(crate) start: u64,
    /// Bytes of its content.
    pub(crate) size: u64,
}

impl NewZipEntry {
    /// An entry from byte `at` on; `None` if it ends beyond 2^64 bytes.
    pub(crate) fn new(name: String, at: u64, size: u64) -> Option<NewZipEntry> {
        let mut entry = NewZipEntry { name, at, start: 0, size };
        let prefix = entry.local_header(0).len() as u64;
        let aligned = at.checked_add(prefix)?.checked_next_multiple_of(npy::DATA_ALIGNMENT)?;
        // The smallest aligning field has 6 bytes.
        let short = matches!(aligned - at - prefix, 1..6);
        entry.start = aligned.checked_add(if short { npy::DATA_ALIGNMENT } else { 0 })?;
        entry.content_end()?;
        Some(entry)
    }

    /// The byte after its content.
    pub(crate) fn content_end(&self) -> Option<u64> {
        self.start.checked_add(self.size)
    }

    /// The position of its header.
    pub(crate) fn header_position(&self) -> u64 {
        self.at
    }

    /// Its header, up to the beginning of its content.
    pub(crate) fn local_header(&self, crc: u32) -> Vec<u8> {
        let mut extra = Vec::new();
        let size = saturate_u32(self.size);
        if size == WIDE32 {
            put_zip64_extra(&mut extra, &[self.size, self.size]);
        }
        let prefix = self.at + (30 + self.name.len() + extra.len()) as u64;
        // The field consists of an identifier, its size, and the alignment, 2 bytes each, and then
        // zeros.
        if let Some(gap @ 6..) = self.start.checked_sub(prefix) {
            let gap = u16::try_from(gap).expect("a gap is shorter than two alignments");
            put_u16_fields(&mut extra, &[EXTRA_ALIGN, gap - 4, 64]);
            extra.resize(extra.len() + usize::from(gap) - 6, 0);
        }
        let mut out = Vec::new();
        put_u32_fields(&mut out, &[LOCAL_SIGNATURE]);
        put_u16_fields(&mut out, &[self.version_needed(), self.flag_bits(), 0, 0, ENTRY_DATE]);
        put_u32_fields(&mut out, &[crc, size, size]);
        put_u16_fields(&mut out, &[self.name_len(), saturate_u16(extra.len())]);
        out.extend_from_slice(self.name.as_bytes());
        out.extend(extra);
        out
    }

    /// Its entry in the directory.
    fn directory_record(&self, crc: u32) -> Vec<u8> {
        let (size, at) = (saturate_u32(self.size), saturate_u32(self.at));
        let mut wide = Vec::new();
        if size == WIDE32 {
            wide.extend([self.size, self.size]);
        }
        if at == WIDE32 {
            wide.push(self.at);
        }
        let mut extra = Vec::new();
        if !wide.is_empty() {
            put_zip64_extra(&mut extra, &wide);
        }
        let mut out = Vec::new();
        put_u32_fields(&mut out, &[CENTRAL_SIGNATURE]);
        // Made on Unix: the permissions are in the high half of the attributes.
        put_u16_fields(
            &mut out,
            &[3 << 8 | 45, self.version_needed(), self.flag_bits(), 0, 0, ENTRY_DATE],
        );
        put_u32_fields(&mut out, &[crc, size, size]);
        put_u16_fields(&mut out, &[self.name_len(), saturate_u16(extra.len()), 0, 0, 0]);
        put_u32_fields(&mut out, &[0o100644 << 16, at]);
        out.extend_from_slice(self.name.as_bytes());
        out.extend(extra);
        out
    }

    // 45 is the version of the format with zip64, 20 the one with folders and deflate (APPNOTE
    // 4.4.3).
    fn version_needed(&self) -> u16 {
        if saturate_u32(self.size) == WIDE32 || saturate_u32(self.at) == WIDE32 { 45 } else { 20 }
    }

    /// Bit 11: the name is in UTF-8.
    fn flag_bits(&self) -> u16 {
        if self.name.is_ascii() { 0 } else { 1 << 11 }
    }

    fn name_len(&self) -> u16 {
        saturate_u16(self.name.len())
    }
}

/// The directory at byte `at` and the end records. Their length does not depend on the checksums.
pub(crate) fn write_directory(entries: &[NewZipEntry], crcs: &[u32], at: u64) -> Vec<u8> {
    let mut out: Vec<u8> =
        entries.iter().zip(crcs).flat_map(|(entry, crc)| entry.directory_record(*crc)).collect();
    let size = out.len() as u64;
    let count = entries.len() as u64;
    let count16 = u16::try_from(count).unwrap_or(WIDE16);
    if count16 == WIDE16 || saturate_u32(size) == WIDE32 || saturate_u32(at) == WIDE32 {
        let record = at + size;
        put_u32_fields(&mut out, &[END64]);
        out.extend(44u64.to_le_bytes());
        put_u16_fields(&mut out, &[3 << 8 | 45, 45]);
        put_u32_fields(&mut out, &[0, 0]);
        for number in [count, count, size, at] {
            out.extend(number.to_le_bytes());
        }
        put_u32_fields(&mut out, &[LOCATOR64, 0]);
        out.extend(record.to_le_bytes());
        put_u32_fields(&mut out, &[1]);
    }
    put_u32_fields(&mut out, &[END_SIGNATURE]);
    put_u16_fields(&mut out, &[0, 0, count16, count16]);
    put_u32_fields(&mut out, &[saturate_u32(size), saturate_u32(at)]);
    put_u16_fields(&mut out, &[0]);
    out
}

fn saturate_u32(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(WIDE32)
}

fn saturate_u16(length: usize) -> u16 {
    u16::try_from(length).expect("names are checked and extra data is short")
}

fn put_u16_fields(out: &mut Vec<u8>, numbers: &[u16]) {
    out.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
}

fn put_u32_fields(out: &mut Vec<u8>, numbers: &[u32]) {
    out.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
}

/// Appends the extra field with 64-bit numbers.
fn put_zip64_extra(out: &mut Vec<u8>, numbers: &[u64]) {
    put_u16_fields(out, &[EXTRA64, saturate_u16(numbers.len() * 8)]);
    out.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
}
