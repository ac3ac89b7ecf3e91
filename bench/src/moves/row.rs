//! One line of a table: a case measured here and, where asked for, in other libraries.

use super::{
    CaseError, MeasureOptions, MoveCase, MoveFigures, PEERS, PeerAnswer, PeerAnswers, PeerError,
    PeerOutcome, PeerPair, PreparedCase,
};
use serde_json::{Value, json};
use zellige_float::Isa;

/// A case and its figures.
#[derive(Debug, Clone)]
pub struct MoveRow {
    /// What it is called.
    pub name: String,
    /// The instruction set that our times are for.
    pub isa: Isa,
    /// The fraction of a plain copy that is aimed at.
    pub goal: Option<f64>,
    /// The request that measures it alone.
    pub request: Option<Value>,
    /// The plan, for readers.
    pub plan: String,
    /// Our times.
    pub figures: MoveFigures,
    /// Those of the peers.
    pub answers: Option<PeerAnswers>,
}

/// A row that could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum MoveRowError {
    /// Because of the case.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// Because of the process of the peers.
    #[error(transparent)]
    Peer(#[from] PeerError),
}

/// How much slower than the best peer a random pair may be.
pub const MAX_PEER_RATIO: f64 = 1.05;

/// How often a case and its peers take turns, so that a busy neighbour slows all of them; the medians
/// of the passes count.
const PASSES: usize = 3;

/// Measures one case of the table on some instruction sets, each a row, beside every peer.
pub fn measure_case_rows(
    case: &MoveCase,
    options: MeasureOptions,
    sets: &[Isa],
    peers: Option<&mut PeerPair>,
) -> Result<Vec<MoveRow>, MoveRowError> {
    measure_beside_peers(case, options, sets, peers, &[])
}

/// Measures a random pair on the set of the process, beside numpy and torch.
pub fn measure_random_pair(
    case: &MoveCase,
    options: MeasureOptions,
    peers: Option<&mut PeerPair>,
) -> Result<MoveRow, MoveRowError> {
    let mut rows = measure_beside_peers(case, options, &[Isa::process_isa()], peers, &PEERS[..2])?;
    Ok(rows.remove(0))
}

fn measure_beside_peers(
    case: &MoveCase,
    options: MeasureOptions,
    sets: &[Isa],
    mut peers: Option<&mut PeerPair>,
    only: &[&str],
) -> Result<Vec<MoveRow>, MoveRowError> {
    let prepared = sets
        .iter()
        .map(|isa| Ok((*isa, isa.while_lowered(|| PreparedCase::new(case))?)))
        .collect::<Result<Vec<_>, MoveRowError>>()?;
    let Some((_, first)) = prepared.first() else { return Ok(Vec::new()) };
    let mut figures = vec![Vec::new(); sets.len()];
    let mut answers = Vec::new();
    for pass in 0..if peers.is_some() { PASSES } else { 1 } {
        if let Some(peers) = &mut peers {
            answers.push(match pass {
                0 => peers.measure_case(first, options, only)?,
                _ => peers.measure_again()?,
            });
        }
        for ((isa, prepared), figures) in prepared.iter().zip(&mut figures) {
            figures.push(isa.while_lowered(|| prepared.measure_figures(options)));
        }
    }
    let answers = (!answers.is_empty()).then(|| PeerAnswers::median_answers(&answers));
    let rows = prepared.iter().zip(&figures);
    Ok(rows
        .map(|((isa, p), figures)| {
            MoveRow::new(p, *isa, MoveFigures::median_figures(figures), answers.clone())
        })
        .collect())
}

impl MoveRow {
    fn new(
        prepared: &PreparedCase<'_>,
        isa: Isa,
        figures: MoveFigures,
        answers: Option<PeerAnswers>,
    ) -> MoveRow {
        let case = prepared.case();
        let plan = prepared.plan().to_string();
        let (name, request) = (case.name.clone(), case.to_request());
        MoveRow { name, isa, goal: case.goal, request, plan, figures, answers }
    }

    /// Our time as a multiple of the best peer's, on one thread: above [`MAX_PEER_RATIO`] we lose.
    pub fn beside_best(&self) -> Option<f64> {
        let (_, seconds) = self.answers.as_ref()?.one.best_peer()?;
        Some(self.figures.one / seconds)
    }

    /// The same on several threads.
    pub fn beside_best_of_many(&self) -> Option<f64> {
        let (_, seconds) = self.answers.as_ref()?.many.as_ref()?.best_peer()?;
        Some(self.figures.many?.0 / seconds)
    }

    /// Every figure.
    pub fn to_json(&self) -> Value {
        let f = &self.figures;
        let threads = |seconds: f64, copy: f64| {
            json!({
                "seconds": seconds, "copy_seconds": copy, "ratio": copy / seconds,
                "gb_per_s": f.gigabytes_per_second(seconds),
            })
        };
        let mut value = json!({
            "case": self.name, "isa": self.isa.name(), "goal": self.goal, "bytes": f.bytes, "request": self.request,
            "plan": self.plan,
            "one_thread": threads(f.one, f.copy_one),
            "more_threads": f.many.map(|(seconds, copy)| threads(seconds, copy)),
        });
        if let Some(answers) = &self.answers {
            value["peers"] = peers_json(&answers.one);
            value["peers_copy_seconds"] = json!(answers.one.copy);
            value["times_best_peer"] = json!(self.beside_best());
            if let Some(many) = &answers.many {
                value["peers_more_threads"] = peers_json(many);
                value["peers_copy_seconds_more_threads"] = json!(many.copy);
                value["times_best_peer_more_threads"] = json!(self.beside_best_of_many());
            }
        }
        value
    }
}

/// What every peer did, by its name.
fn peers_json(answer: &PeerAnswer) -> Value {
    let peers = PEERS.iter().zip(&answer.peers).map(|(name, peer)| {
        let figure = match peer {
            PeerOutcome::Seconds(s) => {
                json!({"seconds": s, "ratio": answer.copy.map(|copy| copy / s)})
            }
            PeerOutcome::Not(why) => json!({"not_measured": why}),
        };
        ((*name).to_string(), figure)
    });
    Value::Object(peers.collect())
}
