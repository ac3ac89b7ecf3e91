//! Writes, reads and reshards the checkpoints of tests.
#![allow(dead_code, reason = "every test uses some of them")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use zellige_files::{ContainerKind, NewTensor, read_tensor_file, write_tensor_file};
use zellige_float::Dtype;
use zellige_reshard::checkpoint::{CheckpointJob, JobLimits};

/// As little memory as there is a slab for, so that tensors come in several.
pub(crate) const LIMITS: JobLimits = JobLimits { memory: 1 << 17, threads: 1 };

/// A folder for one test, which is removed at the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("zellige-reshard-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Tensors by name: shape and elements.
pub(crate) type Model = BTreeMap<String, (Vec<i64>, Vec<u16>)>;

/// Tensors whose elements are all different, as far as 16 bits allow.
pub(crate) fn model(shapes: &[(&str, &[i64])]) -> Model {
    let mut next = 0u16;
    let mut tensor = |shape: &[i64]| {
        let count: i64 = shape.iter().product();
        let values = (0..count).map(|_| {
            next = next.wrapping_mul(5).wrapping_add(12_345);
            next
        });
        (shape.to_vec(), values.collect())
    };
    shapes.iter().map(|(name, shape)| (name.to_string(), tensor(shape))).collect()
}

pub(crate) fn write(path: &Path, tensors: &[(&str, &[i64], &[u16])]) {
    let bytes: Vec<Vec<u8>> =
        tensors.iter().map(|t| t.2.iter().flat_map(|x| x.to_le_bytes()).collect()).collect();
    let new = |t: &(&str, &[i64], &[u16])| NewTensor::new(t.0, Dtype::Bfloat16, t.1);
    let all: Vec<(NewTensor, &[u8])> =
        tensors.iter().zip(&bytes).map(|(t, b)| (new(t), b.as_slice())).collect();
    write_tensor_file(path, &all, ContainerKind::Safetensors).unwrap();
}

pub(crate) fn write_model(path: &Path, model: &Model) {
    let all: Vec<(&str, &[i64], &[u16])> =
        model.iter().map(|(n, (s, v))| (n.as_str(), s.as_slice(), v.as_slice())).collect();
    write(path, &all);
}

pub(crate) fn read(path: &Path, name: &str) -> (Vec<i64>, Vec<u16>) {
    let (info, bytes) = read_tensor_file(path, Some(name)).unwrap();
    let values = bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect();
    (info.shape().to_vec(), values)
}

pub(crate) fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/reshard").join(name);
    std::fs::read_to_string(path).unwrap()
}

pub(crate) fn reshard(from: &Path, to: &Path, rules: &str) {
    let job = CheckpointJob::new(from, rules).unwrap();
    let mut last = 0;
    job.write_output(to, LIMITS, |n| {
        assert!(n >= last);
        last = n;
    })
    .unwrap();
    assert_eq!(last, job.output_bytes());
    assert_eq!(job.verify_output(to, LIMITS, |_| {}).unwrap().len(), job.tensor_count());
    job.close_output(to).unwrap();
}

/// The files of an index, two of them.
pub(crate) fn write_index(folder: &Path, model: &Model) {
    let (mut first, mut second, mut map) = (Model::new(), Model::new(), serde_json::Map::new());
    for (k, (name, tensor)) in model.iter().enumerate() {
        let (part, file) = if k % 3 == 0 {
            (&mut first, "model-1.safetensors")
        } else {
            (&mut second, "model-2.safetensors")
        };
        part.insert(name.clone(), tensor.clone());
        map.insert(name.clone(), file.into());
    }
    write_model(&folder.join("model-1.safetensors"), &first);
    write_model(&folder.join("model-2.safetensors"), &second);
    let index = serde_json::json!({"metadata": {"total_size": 1}, "weight_map": map});
    std::fs::write(folder.join("model.safetensors.index.json"), index.to_string()).unwrap();
}
