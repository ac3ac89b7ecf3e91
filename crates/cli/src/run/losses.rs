//! Numbers that were lost: warned about, and noted in the report.

use zellige_graph::{Graph, TensorOrigin};
use zellige_report::ReportNote;
use zellige_run::{NumberLoss, NumberLossKind};

/// Tensors that are named in warnings.
const MAX_WARNED_TENSORS: usize = 8;

/// Warns about every tensor once.
pub(super) fn warn_of_losses(losses: &[NumberLoss]) {
    for loss in losses.iter().take(MAX_WARNED_TENSORS) {
        eprintln!("warning: {loss}");
    }
    if losses.len() > MAX_WARNED_TENSORS {
        eprintln!(
            "warning: {} more tensors lost numbers; the report names all",
            losses.len() - MAX_WARNED_TENSORS
        );
    }
}

/// The same as notes of a report.
pub(super) fn loss_notes(graph: &Graph, losses: &[NumberLoss]) -> Vec<ReportNote> {
    let note = |loss: &NumberLoss| {
        let (kind, op, remedy) = match &loss.kind {
            NumberLossKind::Nan { op } => (
                "nan_made",
                Some(op.clone()),
                "look at its operands: 0 / 0, the logarithm of a negative number, a row that is masked \
                 whole",
            ),
            _ => (
                "numbers_past",
                None,
                "`--fp32 keep` stores float32 as it is; as a mask, an infinity is what is meant",
            ),
        };
        let made = graph.tensor_id(&loss.tensor).map(|id| &graph.get(id).def);
        let at = made.and_then(|def| match def {
            TensorOrigin::Result(node, _) => graph.node(*node).at.clone(),
            _ => None,
        });
        ReportNote {
            kind: kind.into(),
            op,
            name: Some(loss.tensor.clone()),
            at,
            text: loss.to_string(),
            remedy: Some(remedy.into()),
        }
    };
    losses.iter().map(note).collect()
}
