//! One line of a table: a case measured here and, where asked for, in other libraries.

use super::{
    Answer, Answers, Case, CaseError, Figures, Options, PEERS, Peer, PeerError, Peers, Prepared,
};
use serde_json::{Value, json};

/// A case and its figures.
#[derive(Debug, Clone)]
pub struct Row {
    /// What it is called.
    pub name: String,
    /// The fraction of a plain copy that is aimed at.
    pub goal: Option<f64>,
    /// The request that measures it alone.
    pub request: Option<Value>,
    /// The plan, for readers.
    pub plan: String,
    /// Our times.
    pub figures: Figures,
    /// Those of the peers.
    pub answers: Option<Answers>,
}

/// A row that could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Because of the case.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// Because of the process of the peers.
    #[error(transparent)]
    Peer(#[from] PeerError),
}

/// How much slower than the best peer a random pair may be.
pub const SLOWER: f64 = 1.05;

/// How often a case and its peers take turns, so that a busy neighbour slows all of them; the medians
/// of the passes count.
const PASSES: usize = 3;

/// Measures one case of the table, beside every peer.
pub fn row(case: &Case, options: Options, peers: Option<&mut Peers>) -> Result<Row, Failure> {
    beside(case, options, peers, &[])
}

/// Measures a random pair, beside numpy and torch.
pub fn pair(case: &Case, options: Options, peers: Option<&mut Peers>) -> Result<Row, Failure> {
    beside(case, options, peers, &PEERS[..2])
}

fn beside(
    case: &Case,
    options: Options,
    peers: Option<&mut Peers>,
    only: &[&str],
) -> Result<Row, Failure> {
    let prepared = Prepared::new(case)?;
    let Some(peers) = peers else {
        return Ok(Row::new(&prepared, prepared.measure(options), None));
    };
    let (mut figures, mut answers) = (Vec::new(), Vec::new());
    for pass in 0..PASSES {
        answers.push(match pass {
            0 => peers.measure(&prepared, options, only)?,
            _ => peers.again()?,
        });
        figures.push(prepared.measure(options));
    }
    Ok(Row::new(&prepared, Figures::median(&figures), Some(Answers::median(&answers))))
}

impl Row {
    fn new(prepared: &Prepared<'_>, figures: Figures, answers: Option<Answers>) -> Row {
        let case = prepared.case();
        let plan = prepared.plan().to_string();
        let (name, request) = (case.name.clone(), case.to_request());
        Row { name, goal: case.goal, request, plan, figures, answers }
    }

    /// Our time as a multiple of the best peer's, on one thread: above [`SLOWER`] we lose.
    pub fn beside_best(&self) -> Option<f64> {
        let (_, seconds) = self.answers.as_ref()?.one.best()?;
        Some(self.figures.one / seconds)
    }

    /// The same on several threads.
    pub fn beside_best_of_many(&self) -> Option<f64> {
        let (_, seconds) = self.answers.as_ref()?.many.as_ref()?.best()?;
        Some(self.figures.many?.0 / seconds)
    }

    /// Every figure.
    pub fn to_json(&self) -> Value {
        let f = &self.figures;
        let threads = |seconds: f64, copy: f64| {
            json!({
                "seconds": seconds, "copy_seconds": copy, "ratio": copy / seconds,
                "gb_per_s": f.rate(seconds),
            })
        };
        let mut value = json!({
            "case": self.name, "goal": self.goal, "bytes": f.bytes, "request": self.request,
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
fn peers_json(answer: &Answer) -> Value {
    let peers = PEERS.iter().zip(&answer.peers).map(|(name, peer)| {
        let figure = match peer {
            Peer::Seconds(s) => json!({"seconds": s, "ratio": answer.copy.map(|copy| copy / s)}),
            Peer::Not(why) => json!({"not_measured": why}),
        };
        ((*name).to_string(), figure)
    });
    Value::Object(peers.collect())
}
