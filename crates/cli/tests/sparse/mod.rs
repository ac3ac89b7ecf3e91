//! Files of holes, as the engine does not make them: its own have their room on the disk.

use std::path::Path;

/// A `.npy` file of zeros that takes no room on the disk: a header, and a hole behind it. `dtype` is NumPy's name.
pub(crate) fn sparse_npy(path: &Path, (dtype, width): (&str, u64), shape: &[u64]) {
    let extents: String = shape.iter().map(|n| format!("{n}, ")).collect();
    let dict = format!(
        "{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({extents}), }}{:30}\n",
        ""
    );
    let length = u16::try_from(dict.len()).expect("a short header").to_le_bytes();
    let header = [b"\x93NUMPY\x01\x00".as_slice(), &length, dict.as_bytes()].concat();
    std::fs::write(path, &header).expect("a file");
    let file = std::fs::File::options().write(true).open(path).expect("a file");
    let bytes = shape.iter().product::<u64>() * width;
    file.set_len(header.len() as u64 + bytes).expect("a length");
}
