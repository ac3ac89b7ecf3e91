//! Inputs and weights: from files, or random numbers that depend on their name and the seed alone.

use super::split_name_value;
use crate::common::printable_path;
use crate::compile::summary::count_things;
use crate::graph::LoadedGraph;
use anyhow::{Context, Result, anyhow, bail};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use zellige_device::host_format;
use zellige_files::{Container, HostTensor};
use zellige_float::Dtype;
use zellige_float::{Converter, Format};
use zellige_graph::{Graph, GraphTensor, InputRole, TensorOrigin};
use zellige_layout::StridedLayout;
use zellige_onnx::{ImportedWeight, ModelFile};
use zellige_run::{HostArray, ProgramRunError};

pub(super) struct RunInputs<'g> {
    graph: &'g Graph,
    files: BTreeMap<String, HostTensor>,
    /// The file of an ONNX model and the weights in it, by name.
    model: Option<(&'g ModelFile, BTreeMap<&'g str, &'g ImportedWeight>)>,
    /// Inputs of an ONNX model that were read when it was compiled.
    bound: &'g [String],
    seed: u64,
}

impl<'g> RunInputs<'g> {
    pub(super) fn new(
        loaded: &'g LoadedGraph,
        given: &[String],
        weights: Option<&Path>,
        seed: u64,
    ) -> Result<RunInputs<'g>> {
        let (graph, mut files) = (&loaded.graph, BTreeMap::new());
        let known =
            |name: &str| graph.inputs().iter().map(|id| graph.get(*id)).find(|t| t.name == name);
        if let Some(path) = weights {
            let container = Arc::new(Container::open(path)?);
            for info in container.tensors() {
                if known(info.name()).is_some() {
                    let tensor = HostTensor::from_container(&container, Some(info.name()))?;
                    files.insert(info.name().to_owned(), tensor);
                }
            }
            // A file of another model would otherwise be accepted silently, and every weight would be random.
            if files.is_empty() {
                bail!(
                    "--load {}: none of its tensors is an input of the graph",
                    printable_path(path)
                );
            }
        }
        for text in given {
            let (name, file) = split_name_value("--input", text)?;
            // It became a constant when the model was imported, so the graph has no input of that name any more.
            if loaded.bound.iter().any(|b| b == name) {
                continue;
            }
            if known(name).is_none() {
                let names: Vec<&str> = graph
                    .inputs()
                    .iter()
                    .map(|id| graph.get(*id))
                    .filter(|t| t.def == TensorOrigin::Input(InputRole::Input))
                    .map(|t| t.name.as_str())
                    .collect();
                bail!(
                    "--input {text}: the graph has no input `{name}`; inputs: {}",
                    names.join(", ")
                );
            }
            files.insert(
                name.into(),
                HostTensor::parse(file).with_context(|| format!("--input {text}"))?,
            );
        }
        let model = loaded
            .model
            .as_ref()
            .map(|(file, weights)| (file, weights.iter().map(|w| (w.name.as_str(), w)).collect()));
        Ok(RunInputs { graph, files, model, bound: &loaded.bound, seed })
    }

    /// The input of a name.
    pub(super) fn get(&mut self, name: &str) -> zellige_run::Result<HostArray> {
        let refuse = |reason: String| ProgramRunError::NoInput { name: name.into(), reason };
        let id = self
            .graph
            .tensor_id(name)
            .ok_or_else(|| refuse("the graph has no input of that name".into()))?;
        let t = self.graph.get(id);
        match (self.files.get(name), self.find_model_weight(name)) {
            (None, None) => random_array(t, self.seed).map_err(|e| refuse(e.to_string())),
            (None, Some((file, weight))) => {
                let bytes =
                    file.weight_bytes(weight).map_err(|e| refuse(e.to_string()))?.into_owned();
                let view = StridedLayout::new_contiguous(&weight.size)
                    .map_err(|e| refuse(e.to_string()))?;
                Ok(HostArray::new(bytes, view, weight.dtype))
            }
            (Some(file), _) => {
                let view = file.strided_layout().map_err(|e| refuse(e.to_string()))?;
                let bytes = file.read_bytes().map_err(|e| refuse(e.to_string()))?;
                let dtype = file.info().dtype();
                // A model may have element types that the card does not store.
                let carried = zellige_onnx::carrier_dtype(dtype);
                if self.model.is_some() && dtype != t.dtype && carried == t.dtype {
                    let wide = zellige_onnx::carry_elements(&bytes, dtype);
                    let wide = wide.ok_or_else(|| refuse(format!("no elements of {dtype}")))?;
                    return Ok(HostArray::new(wide, view, carried));
                }
                Ok(HostArray::new(bytes, view, dtype))
            }
        }
    }

    /// The weight of a name, where the graph came with it.
    fn find_model_weight(&self, name: &str) -> Option<(&'g ModelFile, &'g ImportedWeight)> {
        let (file, weights) = self.model.as_ref()?;
        Some((*file, *weights.get(name)?))
    }

    /// The same, with states that are not given zero, as the card has them.
    pub(super) fn get_or_zero(&mut self, name: &str) -> zellige_run::Result<HostArray> {
        let id = self.graph.tensor_id(name);
        match id.map(|id| self.graph.get(id)) {
            Some(t)
                if t.def == TensorOrigin::Input(InputRole::State)
                    && !self.files.contains_key(name) =>
            {
                let elements: i64 = t.size.iter().product();
                let width = host_format(t.dtype)?.byte_size() as u64;
                let bytes = usize::try_from(elements.unsigned_abs() * width).unwrap_or(usize::MAX);
                HostArray::from_contiguous(vec![0; bytes], &t.size, t.dtype)
            }
            _ => self.get(name),
        }
    }

    /// States that come from files.
    pub(super) fn given_states(&self) -> Vec<String> {
        let state = |name: &&String| {
            self.graph
                .tensor_id(name)
                .is_some_and(|id| self.graph.get(id).def == TensorOrigin::Input(InputRole::State))
        };
        self.files.keys().filter(state).cloned().collect()
    }

    /// Where the inputs came from, in a line or two.
    pub(super) fn describe_sources(&self) -> Vec<String> {
        let all = self.graph.inputs().iter().map(|id| self.graph.get(*id));
        let random = all.filter(|t| {
            !self.files.contains_key(&t.name) && self.find_model_weight(&t.name).is_none()
        });
        let count =
            |role: InputRole| random.clone().filter(|t| t.def == TensorOrigin::Input(role)).count();
        let (inputs, weights, states) =
            (count(InputRole::Input), count(InputRole::Weight), count(InputRole::State));
        let mut lines = Vec::new();
        if !self.files.is_empty() {
            lines.push(format!("{} from files", count_things(self.files.len(), "tensor")));
        }
        if !self.bound.is_empty() {
            let names = self.bound.join(", ");
            lines.push(format!("bound when it was compiled, as sizes follow from them: {names}"));
        }
        if let Some((_, weights)) = &self.model {
            let own = weights.keys().filter(|name| !self.files.contains_key(**name)).count();
            lines.push(format!("{} from the model", count_things(own, "weight")));
        }
        if inputs + weights > 0 {
            let seed = self.seed;
            lines.push(format!(
                "{} and {} are random, from seed {seed}",
                count_things(inputs, "input"),
                count_things(weights, "weight")
            ));
        }
        if states > 0 {
            lines.push(format!("{states} states begin as zeros"));
        }
        lines
    }
}

/// Random elements: floats around 0, weights of matrices scaled by the square root of what is summed;
/// integers from 0 to 3, as indices have to be small.
fn random_array(t: &GraphTensor, seed: u64) -> Result<HostArray> {
    let numel: i64 = t.size.iter().product();
    let count = usize::try_from(numel).map_err(|_| anyhow!("{:?} is too large", t.size))?;
    // FNV-1a over the name, from the seed: an input keeps its elements when other inputs are added or removed.
    let mut state = t.name.bytes().fold(seed ^ 0x9e37_79b9_7f4a_7c15, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    });
    // SplitMix64: every value from a counter.
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let matrix = t.def == TensorOrigin::Input(InputRole::Weight) && t.size.len() > 1;
    // As usual initialisers of weights do, so that activations keep their size from layer to layer and stay in the
    // range of 16 bits.
    let scale = if matrix { 1.0 / (*t.size.last().unwrap_or(&1) as f64).sqrt() } else { 1.0 };
    let integer = !t.dtype.name().contains("float") && !t.dtype.name().starts_with('q');
    let mut bytes = Vec::with_capacity(count * 4);
    for _ in 0..count {
        // The upper 53 bits, as many as the significand of a float64 has, give every multiple of 2^-53 in [0, 1)
        // with the same probability.
        let unit = (next() >> 11) as f64 / (1u64 << 53) as f64;
        #[expect(clippy::cast_possible_truncation, reason = "rounded to float32")]
        let value = if t.dtype == Dtype::Bool {
            f32::from(u8::from(unit < 0.5))
        } else if integer {
            (unit * 4.0).floor() as f32
        } else {
            ((2.0 * unit - 1.0) * scale) as f32
        };
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    let format = host_format(t.dtype)?;
    let mut out = vec![0; count * format.byte_size()];
    Converter::new(Format::F32, format).convert(&bytes, &mut out, count)?;
    Ok(HostArray::from_contiguous(out, &t.size, t.dtype)?)
}
