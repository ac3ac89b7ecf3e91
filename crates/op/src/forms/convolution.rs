//! Convolutions.

use super::window::KernelWindow;
use crate::dtype::is_float;
use crate::error::{Result, refuse_operand};
use crate::tensor_type::TensorType;

/// A convolution with its attributes.
///
/// # Arithmetic
/// With `x` zero outside of the image, this loop defines an element in float32:
///
/// ```text
/// sum = +0.0
/// for i in 0..kh, for j in 0..kw, for c in 0..channels of the group:
///     sum = fma(x[n][c][oh * stride - padding + i * dilation][..], weight[oc][c][i][j], sum)
/// ```
///
/// then the bias is added, and the result rounds once to the stored format.
#[derive(Debug, Clone)]
pub struct ConvolutionOp {
    pub name: &'static str,
    /// Dimensions of an image: 1 or 2.
    pub rank: usize,
    /// Stride, padding and dilation of each; the kernel's size comes with the weight.
    pub windows: Vec<KernelWindow>,
    pub groups: usize,
}

impl ConvolutionOp {
    /// The windows of a weight, always along two dimensions.
    pub fn kernel_windows(&self, weight: &[usize]) -> [KernelWindow; 2] {
        let one = KernelWindow { kernel: 1, stride: 1, padding: 0, dilation: 1, ceil: false };
        let with = |d: usize| KernelWindow { kernel: weight[2 + d], ..self.windows[d] };
        // An image of one dimension is one of two dimensions with a single row, so that one kernel computes both.
        if self.rank == 1 { [one, with(0)] } else { [with(0), with(1)] }
    }

    pub(crate) fn infer_types(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        if !(2..=3).contains(&inputs.len()) {
            let reason = format!("it takes 2 to 3 operands, not {}", inputs.len());
            return Err(refuse_operand(self.name, None, reason));
        }
        let (x, w) = (&inputs[0], &inputs[1]);
        for (operand, t) in inputs.iter().enumerate() {
            if t.dtype != x.dtype || !is_float(t.dtype) || t.dtype.bits() == 8 {
                let reason = format!(
                    "its dtype is {}; all operands have one float dtype of 16 or 32 bits",
                    t.dtype
                );
                return Err(refuse_operand(self.name, Some(operand), reason));
            }
        }
        let full = self.rank + 2;
        if x.size.len() != full && x.size.len() + 1 != full {
            let reason =
                format!("size {:?}; {full} dimensions, or one less without a batch", x.size);
            return Err(refuse_operand(self.name, Some(0), reason));
        }
        // 1 with a batch, 0 without: where the channels are.
        let lead = x.size.len() + 1 - full;
        let groups = i64::try_from(self.groups).unwrap_or(i64::MAX);
        let channels = x.size[lead];
        let fits = w.size.len() == full
            && w.size[2..].iter().all(|n| *n > 0)
            && w.size[1] * groups == channels
            && w.size[0] % groups == 0;
        if !fits {
            let reason = format!(
                "size {:?}; [oc, c / groups, kernel ..] for {channels} channels and {groups} groups, \
                 oc a multiple of the groups",
                w.size
            );
            return Err(refuse_operand(self.name, Some(1), reason));
        }
        if let Some(bias) = inputs.get(2)
            && bias.size != [w.size[0]]
        {
            let reason = format!(
                "size {:?}; one number for each of the {} output channels",
                bias.size, w.size[0]
            );
            return Err(refuse_operand(self.name, Some(2), reason));
        }
        let mut size = x.size[..lead].to_vec();
        size.push(w.size[0]);
        for d in 0..self.rank {
            let extent = |n: i64| usize::try_from(n).unwrap_or(0);
            let window = KernelWindow { kernel: extent(w.size[2 + d]), ..self.windows[d] };
            let Some(count) = window.window_count(extent(x.size[lead + 1 + d])) else {
                let reason = format!(
                    "the kernel of {:?} is larger than the padded image {:?}",
                    w.size, x.size
                );
                return Err(refuse_operand(self.name, Some(0), reason));
            };
            size.push(i64::try_from(count).unwrap_or(i64::MAX));
        }
        Ok(vec![TensorType { size, dtype: x.dtype }])
    }
}
