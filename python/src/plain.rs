//! Whether the memory of a tensor holds its elements.
//!
//! A DLPack structure describes memory only, and not what else decides the elements: PyTorch has conjugate
//! and negative bits, layouts that are not strided, and wrappers around other tensors. What can be resolved
//! is resolved; the rest is refused with a remedy.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;
use smallvec::SmallVec;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How an array is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArrayUse {
    Read,
    Written,
}

/// The object whose memory holds the elements of `object`: itself, or for a lazy conjugate or
/// negative a copy that is not lazy.
pub(crate) fn plain_object<'py>(
    object: &Bound<'py, PyAny>,
    used: ArrayUse,
) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    if is_numpy_array(object) {
        return Ok(object.clone());
    }
    if let Some(torch) = LoadedTorch::find(py)
        && object.is_instance(torch.tensor.bind(py))?
    {
        return plain_tensor(object, torch, used);
    }
    let modules = loaded_modules(py)?;
    if let Ok(masked) = modules.get_item(intern!(py, "numpy.ma"))
        && object.is_instance(&masked.getattr(intern!(py, "MaskedArray"))?)?
    {
        return Err(PyTypeError::new_err(
            "a masked array has elements that are not there: give `a.filled(value)`, or `a.data` and \
             the mask as two arrays",
        ));
    }
    Ok(object.clone())
}

/// The modules that are loaded: neither library is loaded to be asked about.
fn loaded_modules(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static MODULES: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let find = || Ok::<_, PyErr>(py.import("sys")?.getattr("modules")?.unbind());
    Ok(MODULES.get_or_try_init(py, find)?.bind(py).clone())
}

/// Whether it is an array of numpy and nothing more. Most objects are, and asking `torch.Tensor` for its
/// instances runs code of PyTorch.
pub(crate) fn is_numpy_array(object: &Bound<'_, PyAny>) -> bool {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    // The class is looked up until numpy is loaded, and kept from then on: a lookup costs more than the comparison.
    let class = CLASS.get_or_try_init(py, || {
        let numpy = loaded_modules(py)?.get_item(intern!(py, "numpy"))?;
        Ok::<_, PyErr>(numpy.getattr(intern!(py, "ndarray"))?.unbind())
    });
    class.is_ok_and(|class| object.get_type().is(class.bind(py)))
}

/// What is asked of PyTorch for each tensor, looked up once: a small move takes less time than the lookups.
struct LoadedTorch {
    torch: Py<PyAny>,
    tensor: Py<PyAny>,
    is_grad_enabled: Py<PyAny>,
    /// Functions that are not public: where one is missing, public ones are asked instead.
    dispatch_keys: Option<Py<PyAny>>,
    increment_version: Option<Py<PyAny>>,
}

impl LoadedTorch {
    /// PyTorch, where it is loaded.
    fn find(py: Python<'_>) -> Option<&'static LoadedTorch> {
        static TORCH: PyOnceLock<LoadedTorch> = PyOnceLock::new();
        let look = || {
            let torch = loaded_modules(py)?.get_item(intern!(py, "torch"))?;
            let own = torch.getattr(intern!(py, "_C"))?;
            let of_own = |name: &Bound<'_, PyString>| own.getattr(name).ok().map(Bound::unbind);
            Ok::<_, PyErr>(LoadedTorch {
                tensor: torch.getattr(intern!(py, "Tensor"))?.unbind(),
                is_grad_enabled: torch.getattr(intern!(py, "is_grad_enabled"))?.unbind(),
                dispatch_keys: of_own(intern!(py, "_dispatch_keys")),
                increment_version: of_own(intern!(py, "_increment_version")),
                torch: torch.unbind(),
            })
        };
        // While PyTorch is being imported some of it is missing, and nothing is kept.
        TORCH.get_or_try_init(py, look).ok()
    }

    /// The dispatch keys of a tensor. Where the function is missing there are none, and every question is asked.
    fn dispatch_keys(&self, object: &Bound<'_, PyAny>) -> Option<u64> {
        let py = object.py();
        let all = self.dispatch_keys.as_ref()?.bind(py).call1((object,)).ok()?;
        all.call_method0(intern!(py, "raw_repr")).ok()?.extract().ok()
    }
}

fn plain_tensor<'py>(
    object: &Bound<'py, PyAny>,
    known: &LoadedTorch,
    used: ArrayUse,
) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let (torch, class) = (known.torch.bind(py), known.tensor.bind(py));
    let refuse = |reason: String| Err(PyTypeError::new_err(reason));
    let is = |name: &Bound<'py, pyo3::types::PyString>| -> PyResult<bool> {
        object.call_method0(name)?.is_truthy()
    };
    let flag = |name: &Bound<'py, pyo3::types::PyString>| -> PyResult<bool> {
        object.getattr(name)?.is_truthy()
    };
    let own = object.get_type();
    if !own.is(class) && overrides_elements(&own, torch, class)? {
        return refuse(format!(
            "{} is a subclass of torch.Tensor that computes its elements: its memory need not hold \
             them; give a plain tensor, such as one of its parts or `x.as_subclass(torch.Tensor)`",
            own.name()?
        ));
    }
    if flag(intern!(py, "requires_grad"))? && known.is_grad_enabled.bind(py).call0()?.is_truthy()? {
        if used == ArrayUse::Written {
            return Err(PyValueError::new_err(
                "`out` requires a gradient, and a move has none: write it under torch.no_grad(), or \
                 give `out.detach()`",
            ));
        }
        // A parameter is data; what was computed from one would lose its history.
        if !flag(intern!(py, "is_leaf"))? {
            return Err(PyValueError::new_err(
                "the tensor is part of a computation that is differentiated, and a move has no \
                 gradient: give `x.detach()`",
            ));
        }
    }
    let keys = known.dispatch_keys(object);
    if keys.is_some_and(|own| lock_usual_keys().contains(&own)) {
        return Ok(object.clone());
    }
    let wrapped = torch
        .getattr(intern!(py, "_C"))?
        .getattr(intern!(py, "_functorch"))?
        .call_method1(intern!(py, "is_functorch_wrapped_tensor"), (object,))?;
    let functional = torch.call_method1(intern!(py, "_is_functional_tensor"), (object,))?;
    if wrapped.is_truthy()? || functional.is_truthy()? {
        return refuse(
            "the tensor belongs to a transform of torch.func (vmap, grad, jvp, ..), and its memory \
             holds another tensor: move it outside of the transform"
                .into(),
        );
    }
    let layout = object.getattr(intern!(py, "layout"))?;
    if !layout.is(torch.getattr(intern!(py, "strided"))?) {
        return refuse(format!(
            "a tensor of layout {layout} has no strides: give `x.to_dense()`, or its parts, such as \
             `x.values()`, one by one"
        ));
    }
    if flag(intern!(py, "is_nested"))? {
        return refuse(
            "a nested tensor has no single shape: give its parts (`x.unbind()`) one by one, or \
             `torch.nested.to_padded_tensor(x, value)`"
                .into(),
        );
    }
    if flag(intern!(py, "is_quantized"))? {
        return refuse(
            "the elements of a quantized tensor are numbers and a scale: give `x.int_repr()` to move \
             the numbers, or `x.dequantize()`"
                .into(),
        );
    }
    if flag(intern!(py, "is_meta"))? {
        return refuse(
            "a tensor on the device meta has a shape and no elements: `zellige.Layout` describes it, \
             and there is nothing to move"
                .into(),
        );
    }
    if is(intern!(py, "_is_zerotensor"))? {
        if used == ArrayUse::Written {
            return refuse("`out` is a tensor of zeros without memory: give `out.clone()`".into());
        }
        return object.call_method0(intern!(py, "clone"));
    }
    let (conjugate, negative) = (is(intern!(py, "is_conj"))?, is(intern!(py, "is_neg"))?);
    if !conjugate && !negative {
        if let Some(keys) = keys
            && (flag(intern!(py, "is_cpu"))? || flag(intern!(py, "is_cuda"))?)
        {
            let mut known = lock_usual_keys();
            // There are a few: on the CPU and on a GPU, each with and without gradients.
            if known.len() < known.inline_size() {
                known.push(keys);
            }
        }
        return Ok(object.clone());
    }
    if used == ArrayUse::Written {
        let (what, method) = if conjugate {
            ("conjugates of its elements", "resolve_conj")
        } else {
            ("its elements with the other sign", "resolve_neg")
        };
        return Err(PyValueError::new_err(format!(
            "the memory of `out` holds {what}: give the tensor that it is a view of, or a tensor of \
             its own (`out.{method}()`)"
        )));
    }
    object.call_method0(intern!(py, "resolve_conj"))?.call_method0(intern!(py, "resolve_neg"))
}

/// The dispatch keys of tensors that passed every check. Each property that is checked has a key of its
/// own, so that a tensor with the same keys needs no checks.
static USUAL_KEYS: Mutex<SmallVec<[u64; 8]>> = Mutex::new(SmallVec::new_const());

fn lock_usual_keys() -> MutexGuard<'static, SmallVec<[u64; 8]>> {
    USUAL_KEYS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a subclass decides what its elements are: it has a `__torch_dispatch__`, or a
/// `__torch_function__` that is neither PyTorch's own nor the one that does nothing.
fn overrides_elements(
    own: &Bound<'_, PyAny>,
    torch: &Bound<'_, PyAny>,
    class: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    let py = own.py();
    let dispatch = intern!(py, "__torch_dispatch__");
    if !own.getattr(dispatch)?.is(class.getattr(dispatch)?) {
        return Ok(true);
    }
    let (function, inner) = (intern!(py, "__torch_function__"), intern!(py, "__func__"));
    let given = own.getattr(function)?;
    let nothing = torch.getattr(intern!(py, "_C"))?.getattr("_disabled_torch_function_impl")?;
    if given.is(&nothing) {
        return Ok(false);
    }
    let usual = class.getattr(function)?.getattr(inner)?;
    Ok(!given.getattr(inner).is_ok_and(|f| f.is(&usual)))
}

/// Tells PyTorch that a tensor was written, so that a gradient that needs its former elements is
/// refused instead of wrong.
pub(crate) fn mark_written(object: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = object.py();
    if is_numpy_array(object) {
        return Ok(());
    }
    let Some(known) = LoadedTorch::find(py) else { return Ok(()) };
    // Tensors of inference mode have no versions.
    if object.is_instance(known.tensor.bind(py))?
        && !object.call_method0(intern!(py, "is_inference"))?.is_truthy()?
    {
        match &known.increment_version {
            // It takes several tensors.
            Some(increment) => increment.bind(py).call1(((object,),))?,
            None => {
                let graph = known.torch.bind(py).getattr(intern!(py, "autograd"))?;
                let graph = graph.getattr(intern!(py, "graph"))?;
                graph.call_method1(intern!(py, "increment_version"), (object,))?
            }
        };
    }
    Ok(())
}
