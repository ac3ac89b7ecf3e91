//! The fields of a kernel's file, in the order in which they are documented.

use super::kernel::{SdscArg, SdscDim, SdscKernel, SdscScale, SdscTensorLoop};
use super::op_func::SdscFamily;
use super::symbols::{SdscSymbol, SdscSymbols};
use crate::emit::{BufferAddress, MemoryMap};
use serde_json::{Map, Value, json};
use zellige_float::{Dl16, Dl16Inf, F8E4M3Fn, F8E5M2, F16};
use zellige_stick::DataFormat;

/// Labels of layouts, in the order in which they are assigned.
const LAYOUT_LABELS: [&str; 4] = ["OUTPUT", "KERNEL", "INPUT", "KERNEL_IDX"];
// The labels are torch-spyre's: its readers look layouts up by them and expect the left factor of a product under
// INPUT.
const PRODUCT_LABELS: [&str; 4] = ["INPUT", "KERNEL", "OUTPUT", "KERNEL_IDX"];

/// The file of a kernel, and the symbols that it names with their numbers; why where an address
/// cannot be given.
pub(super) fn kernel_json(
    kernel: &SdscKernel,
    index: usize,
    map: &MemoryMap,
    symbols: &mut SdscSymbols,
) -> Result<(Value, Vec<(i64, SdscSymbol)>), String> {
    symbols.begin_kernel();
    let top = SdscWriter { kernel, map, layouts: Vec::new() }.write_kernel(symbols)?;
    Ok((json_object([(format!("{index}_{}", kernel.name), top)]), symbols.current_symbols()))
}

/// A layout that tensors of a kernel share.
struct SdscLayout {
    label: &'static str,
    order: Vec<usize>,
    stick: usize,
    eps: usize,
}

struct SdscWriter<'a> {
    kernel: &'a SdscKernel,
    map: &'a MemoryMap,
    layouts: Vec<SdscLayout>,
}

impl SdscWriter<'_> {
    fn loop_dims(&self) -> &[SdscDim] {
        &self.kernel.dims
    }

    fn core_ids(&self) -> impl Iterator<Item = usize> {
        self.kernel.ids.iter().copied()
    }

    fn per_core_json(&self, f: impl Fn(usize) -> Value) -> Value {
        json_object(self.core_ids().enumerate().map(|(slice, id)| (id.to_string(), f(slice))))
    }

    fn write_kernel(mut self, symbols: &mut SdscSymbols) -> Result<Value, String> {
        let cores = self.kernel.core_count();
        let dsc = self.dsc_json(symbols)?;
        let slices = |core: usize| {
            let slice = self.kernel.core_slice(core);
            json_object(self.loop_dims().iter().zip(slice).map(|(d, i)| (d.label.into(), json!(i))))
        };
        Ok(json!({
            // Fields that a kernel of one step does not use are written with the neutral values that torch-spyre
            // writes, because readers of the form require them.
            "sdscFoldProps_": [factor_json(1, "time")],
            "sdscFolds_": {
                "dim_prop_func": [affine_json(1)],
                "dim_prop_attr": [factor_json(1, "time")],
                "data_": {"[0]": "0"},
            },
            "coreFoldProp_": factor_json(cores, "core"),
            "coreletFoldProp_": factor_json(1, "corelet"),
            "numCoresUsed_": cores,
            "coreIdToDsc_": self.per_core_json(|_| json!(0)),
            "numWkSlicesPerDim_": json_object(self.loop_dims().iter().map(|d| (d.label.into(), json!(d.split)))),
            "coreIdToWkSlice_": self.per_core_json(slices),
            "coreIdToDscSchedule": self.per_core_json(|_| json!([[-1, 0, 0, 0]])),
            "dscs_": [json_object([(self.kernel.name.clone(), dsc)])],
        }))
    }

    fn dsc_json(&mut self, symbols: &mut SdscSymbols) -> Result<Value, String> {
        let labels: Vec<usize> = self
            .kernel
            .args
            .iter()
            .enumerate()
            .map(|(i, a)| self.layout_number(i, a))
            .collect::<Result<_, _>>()?;
        let kernel = self.kernel;
        let sizes = |name: &str, f: &dyn Fn(&SdscDim) -> usize| {
            let named = [("name_".to_string(), json!(name))];
            json_object(
                named
                    .into_iter()
                    .chain(kernel.dims.iter().map(|d| (format!("{}_", d.label), json!(f(d))))),
            )
        };
        let masked = kernel.masked.iter().map(|d| {
            let dim = &kernel.dims[*d];
            (dim.label.into(), json!([[dim.size, dim.padded - dim.size]]))
        });
        let slice = sizes("core", &SdscDim::slice_iterations);
        let tensors = kernel.args.iter().zip(&labels).enumerate();
        let mut allocations = Vec::new();
        for (i, (arg, label)) in tensors.clone() {
            allocations.push(self.allocation_json(i, arg, *label, symbols)?);
        }
        let labelled: Vec<Value> =
            tensors.map(|(i, (a, l))| self.labelled_json(i, a, *l)).collect();
        let primary = self.layouts.iter().map(|l| {
            let info = json!({
                "layoutDimOrder_": l.order.iter().map(|d| kernel.dims[*d].label).collect::<Vec<_>>(),
                "stickDimOrder_": [kernel.dims[l.stick].label],
                "stickSize_": [l.eps],
            });
            (l.label.to_string(), info)
        });
        Ok(json!({
            "numCoresUsed_": kernel.core_count(),
            "numCoreletsUsed_": 1,
            "coreIdsUsed_": self.core_ids().collect::<Vec<_>>(),
            "N_": sizes("n", &|d| d.padded),
            "coordinateMasking_": json_object(masked),
            "maskingConstId_": if kernel.masked.is_empty() { -1 } else { 0 },
            "dataStageParam_": {"0": {"ss_": slice.clone(), "el_": slice}},
            "primaryDsInfo_": json_object(primary),
            "scheduleTree_": allocations,
            "labeledDs_": labelled,
            "constantInfo_": self.constants_json()?,
            "computeOp_": [self.compute_json()],
        }))
    }

    fn is_index_tensor(&self, tensor: usize) -> bool {
        self.kernel.indexed.is_some_and(|x| x.index == tensor)
    }

    /// The number of a tensor's layout; the first tensor that has it gives the order.
    fn layout_number(&mut self, tensor: usize, arg: &SdscArg) -> Result<usize, String> {
        let order: Vec<usize> = arg.order.iter().map(|a| a.dim).collect();
        let is_index = self.is_index_tensor(tensor);
        let mut set = order.clone();
        set.sort_unstable();
        let same = |l: &SdscLayout| {
            let mut other = l.order.clone();
            other.sort_unstable();
            let indices = l.label == LAYOUT_LABELS[3];
            other == set && l.stick == arg.stick && l.eps == arg.eps && indices == is_index
        };
        // Two tensors share a layout if they have the same loops and the same stick. Only the first one's order of
        // loops is written, and the others have orders of their own in their allocations.
        if let Some(i) = self.layouts.iter().position(same) {
            return Ok(i);
        }
        let product = self.kernel.func.family == SdscFamily::Product;
        let labels = if product { PRODUCT_LABELS } else { LAYOUT_LABELS };
        let at = self.layouts.len();
        let label = if is_index { labels.last() } else { labels.get(at) };
        let label = label.ok_or("its tensors have more than 4 layouts")?;
        self.layouts.push(SdscLayout { label, order, stick: arg.stick, eps: arg.eps });
        Ok(at)
    }

    fn allocation_json(
        &self,
        i: usize,
        arg: &SdscArg,
        layout: usize,
        symbols: &mut SdscSymbols,
    ) -> Result<Value, String> {
        let (base, within) = self.map.work_address(arg.memory);
        let lx = matches!(base, BufferAddress::Lx(_));
        let component = if lx { "lx" } else { "hbm" };
        let cores = self.kernel.core_count();
        let mut starts = Map::new();
        for (core, id) in self.core_ids().enumerate() {
            let at = arg.slice_start_byte(self.loop_dims(), &self.kernel.core_slice(core));
            starts.insert(format!("[{id}, 0, 0]"), json!(symbols.name_byte(base, within + at)?));
        }
        let mut node = Map::new();
        let mut put = |name: &str, value: Value| node.insert(name.into(), value);
        put("nodeType_", json!("allocate"));
        put("name_", json!(format!("allocate-Tensor{i}_{component}")));
        put("prev_", json!(""));
        put("ldsIdx_", json!(i));
        put("component_", json!(component));
        // A scratchpad address is the same at every launch; only device memory is bound then.
        if symbols.is_symbolic() && !lx {
            put("isStartAddrSymbolic_", json!(1));
        }
        let own: Vec<&str> = arg.order.iter().map(|a| self.loop_dims()[a.dim].label).collect();
        put("layoutDimOrder_", json!(own));
        let indexed = self.kernel.indexed.filter(|x| x.index == i || x.value == i);
        // One place at a time of the dimension that is looked up.
        let most = |a: &SdscTensorLoop| match indexed {
            Some(x) if x.value == i && a.dim == x.dim => 1,
            _ => -1,
        };
        put("maxDimSizes_", json!(arg.order.iter().map(most).collect::<Vec<_>>()));
        let name = |t: usize| {
            let lx =
                matches!(self.map.work_address(self.kernel.args[t].memory).0, BufferAddress::Lx(_));
            format!("allocate-Tensor{t}_{}", if lx { "lx" } else { "hbm" })
        };
        match indexed {
            None => {
                put("indirectAllocType_", json!("no_indirection"));
            }
            Some(x) if x.index == i => {
                put("indirectAllocType_", json!("index_tensor"));
                put("relatedIndirectAccessAlloc_", json!(name(x.value)));
                put("indexTensorType_", json!("index"));
            }
            Some(x) => {
                put("indirectAllocType_", json!("value_tensor"));
                put("relatedIndirectAccessAlloc_", json!(name(x.index)));
            }
        }
        let data = json!({
            "dim_prop_func": [{"Map": {}}, {"Const": {}}, {"Const": {}}],
            "dim_prop_attr": [factor_json(cores, "core"), factor_json(1, "corelet"), factor_json(1, "time")],
            "data_": starts,
        });
        put("startAddressCoreCorelet_", data);
        let gaps = arg.order.iter().filter(|a| a.gap != 0).map(|a| {
            let gap = json!(a.gap.to_string());
            let keyed = if lx { self.per_core_json(|_| gap.clone()) } else { json!({"-1": gap}) };
            (self.loop_dims()[a.dim].label.to_string(), keyed)
        });
        let gaps: Vec<(String, Value)> = gaps.collect();
        if !gaps.is_empty() {
            put("backGapCore_", json_object(gaps));
        }
        let info = self.loops_in_order(arg, layout).map(|a| {
            (
                self.loop_dims()[a.dim].label.to_string(),
                coordinate_json(arg, a, &self.loop_dims()[a.dim]),
            )
        });
        put("coordinates_", json!({"coordInfo": json_object(info), "coreIdToWkSlice_": {}}));
        Ok(Value::Object(node))
    }

    /// How a tensor follows the loops, in the order of its layout.
    fn loops_in_order<'b>(
        &'b self,
        arg: &'b SdscArg,
        layout: usize,
    ) -> impl Iterator<Item = &'b SdscTensorLoop> {
        self.layouts[layout].order.iter().filter_map(|d| arg.find_tensor_loop(*d))
    }

    fn labelled_json(&self, i: usize, arg: &SdscArg, layout: usize) -> Value {
        let lx = matches!(self.map.work_address(arg.memory).0, BufferAddress::Lx(_));
        let present = json!({"isPresent": 1});
        let is_index = self.is_index_tensor(i);
        // A tensor of device memory passes through the scratchpad on its way, so that both are listed; an index is
        // read by the address unit from device memory.
        let memory = if lx {
            json!({"lx": present})
        } else if is_index {
            json!({"hbm": present})
        } else {
            json!({"hbm": present, "lx": present})
        };
        json!({
            "ldsIdx_": i,
            "dsName_": format!("Tensor{i}"),
            "dsType_": self.layouts[layout].label,
            "scale_": self.loops_in_order(arg, layout).map(|a| a.scale.scale_code()).collect::<Vec<_>>(),
            "wordLength": 128 / arg.eps,
            "dataFormat_": if is_index { "SENUINT32" } else { arg.format.name() },
            "memOrg_": memory,
        })
    }

    fn constants_json(&self) -> Result<Value, String> {
        let neutral = match self.kernel.func.family {
            SdscFamily::Reduction { neutral } if !self.kernel.masked.is_empty() => Some(neutral),
            _ => None,
        };
        let mask = neutral.map(|n| ("samv-maskvalue", n));
        let all: Vec<(&str, f64)> =
            mask.into_iter().chain(self.kernel.func.constants.iter().copied()).collect();
        if all.is_empty() {
            // The readers of the form expect a text here.
            return Ok(json!("{}"));
        }
        let format = self.kernel.args[0].format;
        let cores = self.kernel.core_count();
        let mut info = Map::new();
        for (i, (name, value)) in all.into_iter().enumerate() {
            let bits = encode_constant(value, format, neutral.is_some() && i == 0)
                .ok_or_else(|| format!("{name} has no code in {}", format.name()))?;
            let constant = json!({
                "dataFormat_": format.name(),
                "name_": name,
                "data_": {
                    "dim_prop_func": [{"Const": {}}, {"Const": {}}, {"Map": {}}],
                    "dim_prop_attr": [factor_json(cores, "core"), factor_json(1, "corelet"), factor_json(1, "time")],
                    "data_": {"[0, 0, 0]": [bits]},
                },
            });
            info.insert(i.to_string(), constant);
        }
        Ok(Value::Object(info))
    }

    fn compute_json(&self) -> Value {
        let func = &self.kernel.func;
        let out = self.kernel.args.len() - 1;
        let name = |i: usize| format!("Tensor{i}-idx{i}");
        // torch-spyre lists the accumulator of a reduction among its inputs.
        // A reduction also reads what it adds to.
        let reduces = matches!(func.family, SdscFamily::Reduction { .. });
        let inputs = if reduces { 0..out + 1 } else { 0..out };
        let inputs = inputs.filter(|i| !self.is_index_tensor(*i));
        let mut op = json!({
            "exUnit": func.unit().name(),
            "opFuncName": self.kernel.name,
            "attributes_": {"dataFormat_": self.kernel.args[0].format.name(), "fidelity_": "regular"},
            "location": "Inner",
            "inputLabeledDs": inputs.map(name).collect::<Vec<_>>(),
            "outputLabeledDs": [name(out)],
        });
        if let Some(x) = self.kernel.indexed {
            op["indirectAccessIndexLabeledDs"] = json!([name(x.index)]);
        }
        op
    }
}

/// How the elements of a loop are spread over cores and sticks.
fn coordinate_json(arg: &SdscArg, along: &SdscTensorLoop, dim: &SdscDim) -> Value {
    // A loop that a tensor does not follow has one element of it on every core.
    let (size, split) = match along.scale {
        SdscScale::Follows => (dim.slice_iterations(), dim.split),
        _ => (1, 1),
    };
    let eps = arg.eps;
    let (alphas, factors) = if along.dim != arg.stick {
        (vec![size, 0, 0, 1], vec![split, 1, 1, size])
    } else if along.scale == SdscScale::StillStick {
        (vec![eps, 0, 0, eps, 0], vec![split, 1, 1, 1, eps])
    } else {
        (vec![size, 0, 0, eps, 1], vec![split, 1, 1, size / eps, eps])
    };
    let inner = factors.len() - 3;
    let label = |i: usize| match i {
        0 => "core_fold".to_string(),
        1 => "corelet_fold".into(),
        2 => "row_fold".into(),
        i => format!("elem_arr_{}", inner - 1 - (i - 3)),
    };
    json!({
        "spatial": 3,
        "temporal": 0,
        "elemArr": inner,
        "padding": "nopad",
        "folds": {
            "dim_prop_func": alphas.into_iter().map(affine_json).collect::<Vec<_>>(),
            "dim_prop_attr":
                factors.into_iter().enumerate().map(|(i, n)| factor_json(n, &label(i))).collect::<Vec<_>>(),
        },
    })
}

fn affine_json(alpha: usize) -> Value {
    json!({"Affine": {"alpha_": alpha, "beta_": 0}})
}

fn factor_json(n: usize, label: &str) -> Value {
    json!({"factor_": n, "label_": label})
}

fn json_object(fields: impl IntoIterator<Item = (String, Value)>) -> Value {
    Value::Object(fields.into_iter().collect())
}

/// The code of a number in a device format.
#[allow(clippy::cast_possible_truncation, reason = "constants are numbers of the device")]
fn encode_constant(value: f64, format: DataFormat, is_mask: bool) -> Option<u64> {
    let narrow = value as f32;
    Some(match format {
        // The padding of a maximum is the format's own merged code of infinities and NaN. Other constants are
        // stored as tensors are: past its numbers is the number that encodes an infinity.
        DataFormat::SEN169_FP16 if is_mask => u64::from(Dl16::from_f32(narrow).0),
        DataFormat::SEN169_FP16 => u64::from(Dl16Inf::from_f32(narrow).0),
        DataFormat::IEEE_FP16 => u64::from(F16::from_f32(narrow).0),
        DataFormat::IEEE_FP32 => u64::from(narrow.to_bits()),
        DataFormat::SEN143_FP8 => u64::from(F8E4M3Fn::from_f32(narrow).0),
        DataFormat::SEN152_FP8 => u64::from(F8E5M2::from_f32(narrow).0),
        _ => return None,
    })
}
